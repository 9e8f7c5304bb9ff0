"""Names of columns in advice, without Spark."""

from __future__ import annotations

import shlex

import pytest

from chronolake_spark import column_names, csv_advice, errors
from tests.spark.definitions import definition


@pytest.mark.parametrize(
    ("name", "text"),
    [("price", "price"), ("the price", "`the price`"), ("it`s", "`it``s`"), ("größe", "`größe`"), ("1", "`1`")],
)
def test_a_name_is_quoted_where_sql_needs_it(name: str, text: str) -> None:
    assert column_names.plain(name) == text


@pytest.mark.parametrize("text", ["`it``s` BIGINT", "it's BIGINT", "$HOME", ""])
def test_an_argument_is_one_word_of_the_shell(text: str) -> None:
    assert shlex.split(f"ingest {column_names.argument(text)}") == ["ingest", text]


def test_the_advice_for_a_value_can_be_pasted() -> None:
    advice = csv_advice.advice_for_value("it's `a", "int", "3000000000", stated=False)

    command = advice.partition("`chronolake ")[2].removesuffix("`")
    assert shlex.split(command)[-2:] == ["--widen", "`it's ``a`:bigint"]


def test_meta_columns_of_hudi_are_told_from_columns_that_could_be_added() -> None:
    table = definition({"id": "int"})
    with pytest.raises(
        errors.SchemaMismatch, match=r"df\.drop\('_HOODIE_file_name', '_change_type'\)"
    ) as caught:
        column_names.refuse_others(table, ["id"], ["_HOODIE_file_name", "more", "_change_type"])
    assert "merge_schema" not in str(caught.value)
    with pytest.raises(errors.SchemaMismatch, match=r"lacks the columns id .* the table does not: more"):
        column_names.refuse_others(table, ["id"], ["more"])
