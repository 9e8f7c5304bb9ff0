"""Adopted tables whose keys or partition paths Hudi alone makes: what Spark reads, writes and refuses."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import chronolake
import chronolake_spark
from chronolake.hudi import adopting
from chronolake.hudi.definitions import Options
from chronolake_spark.tables import SparkTable
from tests.hudi.stored_tables import COLUMNS, TABLES, rows_by_hudi_rs, unpacked

pytestmark = pytest.mark.spark
NEW = [["2026-01-01", 0, "again", 1.0, 9], ["2026-01-02", 0, "again", 1.0, 9]]


def adopted(spark: SparkSession, client: chronolake.Client, path: Path) -> SparkTable:
    """The table in a folder, adopted."""
    name = f"spark.{path.name}_{uuid.uuid4().hex[:8]}"
    adopting.adopt(client, Options(name=name, base_path=str(path)))
    return chronolake_spark.table(spark, name, client=client)


def rows_of_table(name: str) -> list[Any]:
    """The rows that Hudi itself read, in order: the values by the names of the columns."""
    return sorted(json.loads((TABLES / "rows.json").read_text())[name], key=repr)


def rows(table: SparkTable, **how: Any) -> list[Any]:
    """The rows that Chronolake reads through Spark, as above."""
    frame = table.read(**how)
    names = sorted(name for name in frame.columns if not name.startswith("_hoodie_"))
    values = [[row[name] for name in names] for row in frame.collect()]
    return sorted(json.loads(json.dumps(values)), key=repr)


@pytest.mark.parametrize("name", ["timestamp9", "custom8", "schema9", "flagged9", "orderedmor9"])
def test_spark_reads_what_hudi_read(
    spark: SparkSession, client: chronolake.Client, tmp_path: Path, name: str
) -> None:
    table = adopted(spark, client, unpacked(name, tmp_path))
    assert rows(table) == rows_of_table(name)


def test_a_table_with_kept_paths_is_filtered_and_looked_up_and_not_written(
    spark: SparkSession, client: chronolake.Client, tmp_path: Path
) -> None:
    table = adopted(spark, client, unpacked("timestamp9", tmp_path))
    assert [row.id for row in table.read(filter="day = '2026-01-02'").orderBy("id").collect()] == [1, 4]
    assert [row.id for row in table.lookup([4]).collect()] == [4]
    with pytest.raises(chronolake_spark.errors.SchemaMismatch, match="is not a key of"):
        table.lookup([{"id": 4, "day": "2026-01-02"}])
    with pytest.raises(chronolake_spark.errors.TableMismatch, match="its partition paths are made in another"):
        table.upsert(spark.createDataFrame(NEW, COLUMNS))
    assert not list(table.metastore.timeline.pending())


def test_a_table_without_keys_takes_inserts_only(
    spark: SparkSession, client: chronolake.Client, tmp_path: Path
) -> None:
    path = unpacked("keyless9", tmp_path)
    table = adopted(spark, client, path)
    frame = spark.createDataFrame(NEW, COLUMNS)
    for refused in (table.upsert, table.delete, table.insert):
        with pytest.raises(chronolake_spark.errors.TableMismatch, match="without record key fields"):
            refused(frame)
    with pytest.raises(chronolake_spark.errors.TableMismatch, match="find records with read"):
        table.lookup([0])
    instant = table.bulk_insert(frame)
    table.bulk_insert(frame)
    table.metastore.publish()

    expected = sorted([*rows_of_table("keyless9"), *NEW, *NEW], key=repr)
    assert rows(table) == sorted(rows_by_hudi_rs(path), key=repr) == expected
    assert rows(table, as_of=instant.completion_time) == sorted([*rows_of_table("keyless9"), *NEW], key=repr)
    keys = [row[0] for row in table.read(meta_columns=True).select("_hoodie_record_key").collect()]
    assert len(set(keys)) == len(expected)
    assert table.changes(instant.completion_time).count() == len(NEW)


def test_a_row_that_hudi_takes_for_a_delete_is_deleted_or_refused(
    spark: SparkSession, client: chronolake.Client, tmp_path: Path
) -> None:
    path = unpacked("flagged9", tmp_path)
    table = adopted(spark, client, path)
    stored = table.read().collect()
    flagged = table.read().where("id in (1, 2)").selectExpr(*COLUMNS, "id = 1 as _hoodie_is_deleted")
    with pytest.raises(chronolake_spark.errors.SchemaMismatch, match="_hoodie_is_deleted is true in 1 rows"):
        table.upsert(flagged)
    table.upsert(flagged, delete_when="_hoodie_is_deleted")
    table.metastore.publish()
    left = {row.id for row in stored} - {1}
    assert {row.id for row in table.read().collect()} == {row[1] for row in rows_by_hudi_rs(path)} == left


@pytest.mark.parametrize("name", ["ordered9", "orderedmor9"])
def test_of_several_ordering_fields_the_first_that_differs_decides(
    spark: SparkSession, client: chronolake.Client, tmp_path: Path, name: str
) -> None:
    table = adopted(spark, client, unpacked(name, tmp_path))
    # By id: 1 and 2 have ts 5, and 2 the price 100.0.
    upserted = [
        ["2026-01-02", 1, "less", 1.0, 5],
        ["2026-01-03", 2, "more", 200.0, 5],
        ["2026-01-01", 3, "newer", 0.0, 6],
        ["2026-01-03", 5, "older", 900.0, 4],
    ]
    table.upsert(spark.createDataFrame(upserted, COLUMNS))
    lost = [["2026-01-01", 0, 5, -1.0], ["2026-01-02", 4, 6, 0.0]]
    table.delete(spark.createDataFrame(lost, ["day", "id", "ts", "price"]))
    with pytest.raises(chronolake_spark.errors.SchemaMismatch, match="they lack price"):
        table.delete(spark.createDataFrame([["2026-01-01", 0, 5]], ["day", "id", "ts"]))
    table.delete("id = 5")

    names = {row[1]: row[2] for row in rows(table)}
    stored = {row[1]: row[2] for row in rows_of_table(name)}
    assert names == {0: stored[0], 1: stored[1], 2: "more", 3: "newer"}
    with pytest.raises(chronolake.errors.IncompatibleSchema):
        table.metastore.change_schema([chronolake.DropColumn("price")])
