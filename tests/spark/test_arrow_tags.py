"""The control columns that tasks make themselves, without a JVM."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest

from chronolake.slices import columns
from chronolake.writing import arrow_tags
from chronolake_model.tables import Table
from chronolake_spark import errors
from tests.spark.definitions import definition

TYPES = {"id": "bigint", "name": "string", "at": "timestamp"}


def table(*key: str, partition: Sequence[str] = ()) -> Table:
    return definition(TYPES, key, partition)


def test_only_columns_that_arrow_makes_quickly_are_omitted() -> None:
    key, path, delete = columns.RECORD_KEY, columns.PARTITION_PATH, columns.DELETE

    assert set(arrow_tags.omitted_columns(table("id", "name"), only_inserts=True)) == {key, path, delete}
    assert arrow_tags.omitted_columns(table("id", partition=["name"]), only_inserts=False) == [key]
    assert arrow_tags.omitted_columns(table("id", "at", partition=["name"]), only_inserts=False) == []


def test_omitted_columns_are_made_and_others_stay() -> None:
    rows = pa.record_batch({"id": [1, 2], "name": ["a", ""]})
    (made,) = arrow_tags.with_control_columns([rows], table("id", "name"))
    (kept,) = arrow_tags.with_control_columns(
        [made.set_column(4, columns.DELETE, pa.array([True, False]))], table("id")
    )

    assert made[columns.RECORD_KEY].to_pylist() == ["id:1,name:a", "id:2,name:__empty__"]
    assert made[columns.PARTITION_PATH].to_pylist() == ["", ""]
    assert made[columns.DELETE].to_pylist() == [False, False]
    assert kept[columns.DELETE].to_pylist() == [True, False]
    assert kept[columns.RECORD_KEY].equals(made[columns.RECORD_KEY])


def test_a_row_without_a_key_is_refused_where_its_key_is_made() -> None:
    with pytest.raises(errors.InvalidRecordKey, match="id"):
        list(arrow_tags.with_control_columns([pa.record_batch({"id": pa.array([1, None])})], table("id")))
