"""Filters as text: a written filter is read back, and an error is reported with its place."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from chronolake import Filter, col
from chronolake_model import filter_text
from chronolake_model.filters import And, Compare, ComparisonOperator, In, Not, Or
from tests import records
from tests.examples import examples
from tests.records import TYPES


def plain(wanted: Filter) -> Filter:
    """The same filter without an ``and`` or ``or`` of one part."""
    match wanted:
        case And() | Or():
            parts = [plain(part) for part in wanted.filters]
            return parts[0] if len(parts) == 1 else msgspec.structs.replace(wanted, filters=parts)
        case Not():
            return Not(plain(wanted.filter))
        case _:
            return wanted


@settings(max_examples=examples(1_000))
@given(records.filters())
def test_a_filter_is_parsed_back_from_its_text(wanted: Filter) -> None:
    assert filter_text.parse(filter_text.written(plain(wanted)), TYPES) == plain(wanted)


_LITERALS = st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()


@given(st.text(min_size=1), st.lists(_LITERALS, min_size=1))
def test_columns_and_values_of_any_text_come_back(column: str, values: list[bool | int | float | str]) -> None:
    wanted = In(column, values) & Compare(column, ComparisonOperator.LESS, values[0])

    assert repr(filter_text.parse(filter_text.written(wanted))) == repr(wanted)


_WORDS = st.lists(st.sampled_from(["not", "and", "or", "(", ")", "a", "=", "in", "1", "'x'"])).map(" ".join)


@given(st.text(alphabet="ab1.5'\"() =<>!,-\\é\n") | _WORDS)
def test_any_text_is_a_filter_or_is_refused_with_its_place(text: str) -> None:
    try:
        filter_text.parse(text)
    except ValueError as refused:
        assert str(refused).startswith("at character ")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("amount >= 10 and region in ('eu','us')", (col("amount") >= 10) & col("region").is_in(["eu", "us"])),
        ("a=1 OR b<>-2.5 And c < 1e3", (col("a") == 1) | ((col("b") != -2.5) & (col("c") < 1000.0))),
        ("(a = 1 or b = 2) and not c = true", ((col("a") == 1) | (col("b") == 2)) & ~(col("c") == True)),  # noqa: E712
        ("a is null and b is not null", col("a").is_null() & col("b").is_not_null()),
        ("a not in (1) or not not a = 2", ~col("a").is_in([1]) | ~~(col("a") == 2)),
        ("name starts with 'it''s'", col("name").starts_with("it's")),
        ('"order" = 1 and "a ""b""" = 2', (col("order") == 1) & (col('a "b"') == 2)),
        ('"order" = 1 and "not" = 2', (col("order") == 1) & (col("not") == 2)),
        ("(((a = 1)))", col("a") == 1),
        ("größe > 1", col("größe") > 1),
    ],
)
def test_filters_in_many_spellings_are_parsed(text: str, wanted: Filter) -> None:
    assert filter_text.parse(text) == wanted


def test_a_number_is_taken_digit_by_digit_for_a_decimal_column() -> None:
    parsed = filter_text.parse("price > 12.10 and weight > 12.10 and price = 3", TYPES)

    assert parsed == And([col("price") > "12.10", col("weight") > 12.1, col("price") == 3])


@pytest.mark.parametrize(
    ("text", "place", "expected"),
    [
        ("", 1, "a column, not or [(]; found the end"),
        ("amount", 7, "=, !=, .* or starts with; found the end"),
        ("amount == 1", 9, "a value.*found '=' [(]one = is enough[)]"),
        ("amount = eu", 10, "a text in single quotes; found 'eu'"),
        ("amount = null", 10, "null is asked for with is null"),
        ("amount >= 10 und x = 1", 14, "and, or, or the end; found 'und'"),
        ("amount >= 10 and", 17, "a column"),
        ("a in 1", 6, "expected [(]"),
        ("zip = 00501", 7, "for a string '00501' in single quotes"),
        ("n in (7, -07)", 10, "for a number no leading zeros"),
        ("a in ()", 7, "a value"),
        ("a in (1 2)", 9, "expected [)]; found '2'"),
        ("a is 1", 6, "expected null"),
        ("a not like 'x'", 7, "expected in"),
        ("a starts with 1", 15, "a text in single quotes; found '1'"),
        ("(a = 1", 7, "expected [)]; found the end"),
        ("a = 1)", 6, "the end; found '[)]'"),
        ("a = 'x", 5, "a text whose end, ', is missing"),
        ('"a = 1', 1, 'a text whose end, ", is missing'),
        ('"" = 1', 1, "a column"),
        ("order by = 1", 7, "expected ="),
        ("null = 1", 1, "a column"),
        ("a = 1e999", 5, "a number that is not so large"),
        ("a = " + "9" * 5_000, 5, "a number that is not so large"),
        ("a; drop", 2, "found ';'"),
        ("(" * 100_000, 18, "at most 16 levels"),
        ("not " * 100_000, 69, "at most 16 levels"),
    ],
)
def test_an_invalid_filter_is_refused_with_its_place_and_the_expected_token(
    text: str, place: int, expected: str
) -> None:
    with pytest.raises(ValueError, match=f"^at character {place}(:| begins).*{expected}"):
        filter_text.parse(text)


def test_a_decimal_may_have_more_digits_than_a_float_can() -> None:
    parsed = filter_text.parse("price = 1e999", TYPES)

    assert parsed == Compare("price", ComparisonOperator.EQUAL, "1e999")
