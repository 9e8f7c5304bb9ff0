"""Record keys, partition paths and buckets of Arrow columns."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

import python_keys
from chronolake import _keys
from docs import vectors


def test_the_client_computes_the_keys_of_the_test_vectors() -> None:
    assert vectors.FILE.read_text(encoding="utf-8") == vectors.text(), "run `make docs`"


def test_slices_and_chunks_of_a_column_hash_as_the_whole() -> None:
    words = pa.array(["a", None, "", "bc", "x" * 40], pa.large_string())
    whole = _keys.xxhash64([words]).tolist()

    assert _keys.xxhash64([words.slice(2, 3)]).tolist() == whole[2:]
    assert _keys.texts(pa.chunked_array([["a"], ["b", None]]), "string").to_pylist() == ["a", "b", None]


@pytest.mark.parametrize("type_", ["double", "array<int>", "binary", "map<int,int>"])
def test_a_type_that_no_key_field_has_is_refused(type_: str) -> None:
    with pytest.raises(ValueError, match="cannot be a key field"):
        _keys.texts(pa.nulls(1), type_)


def test_a_value_that_its_type_cannot_hold_is_refused() -> None:
    with pytest.raises(pa.ArrowInvalid):
        _keys.texts(pa.array([1], pa.timestamp("ns", "UTC")), "timestamp")


MICROS = st.integers(-(10**17), 10**18)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "string": st.text(),
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "decimal(20,9)": st.integers(-(10**20) + 1, 10**20 - 1).map(lambda number: str(Decimal(number).scaleb(-9))),
    "date": st.integers(-(10**6), 10**7),
    "timestamp": MICROS,
    "timestamp_ntz": MICROS,
    "boolean": st.booleans(),
}
FIELDS = st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=3).flatmap(
    lambda types: st.tuples(st.just(types), st.tuples(*(st.none() | VALUES[type_] for type_ in types)))
)


@given(FIELDS)
def test_the_client_and_the_independent_writer_agree_on_every_record(
    record: tuple[list[str], tuple[Any, ...]],
) -> None:
    types, values = record
    names = [f"f{number}" for number in range(len(types))]
    pairs = list(zip(values, types, strict=True))
    spelled = [_keys.texts(vectors.column([value], type_), type_) for value, type_ in pairs]
    texts = [python_keys.key_text(value, type_) for value, type_ in pairs]

    assert [text[0].as_py() for text in spelled] == texts
    assert int(_keys.buckets(spelled, 1_009)[0]) == python_keys.bucket_of(texts, 1_009)
    values_in_path = [_keys.partition_texts(vectors.column([value], type_), type_) for value, type_ in pairs]
    assert _keys.partition_paths(names, values_in_path)[0].as_py() == python_keys.partition_path(
        names, [python_keys.partition_text(value, type_) for value, type_ in pairs]
    )
    key = _keys.record_keys(names, spelled)[0].as_py()
    if key is None:
        with pytest.raises(ValueError, match="record key"):
            python_keys.record_key(names, texts)
    else:
        assert python_keys.record_key(names, texts) == key


NAMED = st.sampled_from(["a", "b", "ab", "b2"])


@given(st.lists(NAMED, min_size=2, max_size=3, unique=True), st.data())
def test_two_records_with_other_key_fields_never_have_one_key(names: list[str], data: st.DataObject) -> None:
    # Texts of the characters that separate fields, so that they come close to being ambiguous.
    value = st.none() | st.text("ab2:,_", max_size=6) | st.sampled_from(["__null__", "__empty__", ",b:"])
    left, right = (data.draw(st.tuples(*(value for _ in names))) for _ in range(2))
    keys = [
        _keys.record_keys(names, [pa.array([text], pa.large_string()) for text in row]) for row in (left, right)
    ]
    first, second = (key[0].as_py() for key in keys)

    assert first is None or left == right or first != second
