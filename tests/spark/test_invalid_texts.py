"""Strings that are not UTF-8 are refused in every write, with their column and the key of their row."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from chronolake.errors import TableNotFound
from chronolake.writing import arrow_tags, text_checks
from chronolake_spark import SparkTable, errors
from tests.client.test_utf8 import BAD, TEXT
from tests.spark.definitions import definition

NewTable = Callable[..., SparkTable]
GOOD_ROW = "SELECT 'x' id, 'p' p, 's' s, named_struct('t', 't') c, array('a') a, map('k', 'v') m"
STRING = "cast(X'5452454CC3' as string)"


def rows(spark: SparkSession, **changed: str) -> DataFrame:
    """A good row, and one in which some columns are other SQL expressions."""
    names = {"id": "'y'", "p": "'p'", "s": "'s'", "c": "named_struct('t', 't')"}
    values = {**names, "a": "array('a')", "m": "map('k', 'v')", **changed}
    row = ", ".join(f"{value} {name}" for name, value in values.items())
    return spark.sql(f"{GOOD_ROW} UNION ALL SELECT {row}")


WRITES: dict[str, Callable[[SparkTable, DataFrame], Any]] = {
    "upsert": lambda table, frame: table.upsert(frame),
    "insert": lambda table, frame: table.insert(frame),
    "bulk insert": lambda table, frame: table.bulk_insert(frame),
    "overwrite": lambda table, frame: table.overwrite(frame, "all"),
    "merge": lambda table, frame: table.merge(frame).when_not_matched_insert().execute(),
    "format": lambda table, frame: (
        frame.write.format("chronolake").mode("append").options(table=table.name, url=table._client.url).save()
    ),
}


def _is_unchanged(table: SparkTable) -> bool:
    return not table.metastore.snapshot().slices


@pytest.mark.spark
@pytest.mark.parametrize("write", WRITES)
def test_a_string_that_is_not_utf8_is_refused_in_every_write(
    spark: SparkSession, new_table: NewTable, write: str
):
    frame = rows(spark, s=STRING)
    table = new_table(frame, "id", buckets=1)

    with pytest.raises(
        (errors.InvalidText, PySparkException), match=r"column s, in the row with id=y: b'TREL\\xc3'"
    ):
        WRITES[write](table, frame)
    assert _is_unchanged(table)


@pytest.mark.spark
@pytest.mark.parametrize("index", ["bucket", "simple", "bloom", "record"])
@pytest.mark.parametrize("column", ["id", "p"])
def test_a_key_or_partition_value_that_is_not_utf8_is_refused_with_every_index(
    spark: SparkSession, new_table: NewTable, index: str, column: str
):
    frame = rows(spark, **{column: STRING})
    type_ = "merge_on_read" if column == "id" else "copy_on_write"
    table = new_table(frame, "id", partition_fields=["p"], index=index, type=type_)

    with pytest.raises(errors.InvalidText, match=f"column {column}"):
        table.upsert(frame)
    with pytest.raises(errors.InvalidText, match=f"column {column}"):
        table.delete(frame)
    assert _is_unchanged(table)


def test_an_ingest_names_file_row_and_column_of_a_string_that_is_not_utf8(
    run: Callable[..., int], capsys: pytest.CaptureFixture[str], client: Any, name: str, tmp_path: Path
):
    pq.write_table(pa.table({"id": [1], "s": ["x"]}), tmp_path / "in" / "a.parquet")
    pq.write_table(pa.table({"id": [1, 2, 3], "s": TEXT}), tmp_path / "in" / "b.parquet")

    for options in ([], ["--dry-run"]):
        assert run("--key", "id", *options) == 1
        shown = capsys.readouterr().err
        refused = json.loads(shown[shown.index("{") :])
        assert refused["code"] == "invalid-text"
        assert f"{tmp_path / 'in' / 'b.parquet'}, row 2, column s: {BAD!r} is not UTF-8" in refused["detail"]
    with pytest.raises(TableNotFound):
        client.table(name)


@pytest.mark.parametrize("deletes", [False, True])
def test_rows_that_no_spark_writes_are_checked_too(deletes: bool):
    table = definition({"id": "bigint", "s": "string"})
    batch = pa.table({"id": [7, 8, 9], "s": TEXT})
    tagging = arrow_tags.tagging(table, batch.schema, {"id": "id", "s": "s"}, deletes=deletes)

    with pytest.raises(errors.InvalidText, match="column s, in the row with id=8"):
        tagging.tagged(batch)
    assert len(tagging.tagged(batch.slice(2))) == 1


@pytest.mark.parametrize("column", ["c", "a", "m"])
def test_strings_within_columns_are_checked(column: str):
    values = {
        "c": pa.StructArray.from_arrays([TEXT], ["t"]),
        "a": pa.ListArray.from_arrays([0, 1, 2, 3], TEXT),
        "m": pa.MapArray.from_arrays([0, 1, 2, 3], pa.array([1, 2, 3]), TEXT),
    }
    paths = {"c": "c.t", "a": "a.element", "m": "m.value"}
    types = {"id": "bigint", "c": "struct<t:string>", "a": "array<string>", "m": "map<bigint,string>"}
    batch = pa.record_batch({"id": pa.array([7, 8, 9]), column: values[column]})

    with pytest.raises(errors.InvalidText) as refused:
        list(text_checks.checked([batch], definition(types)))
    assert refused.value.problem is not None
    assert refused.value.problem.context == {"column": paths[column], "record_key": "id=8"}
