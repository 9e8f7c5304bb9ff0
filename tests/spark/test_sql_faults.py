"""Faults that users of the SQL catalog make: each is refused in words, and loses nothing."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from pyspark.errors import IllegalArgumentException, PySparkException
from pyspark.sql import SparkSession, functions as sf

import chronolake_spark
from chronolake_spark import SparkTable
from chronolake_spark.catalogs import registering

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not registering.JAR.exists(), reason="the Java part is not built: there is no JDK"),
]


@pytest.fixture(scope="module")
def days(lake: SparkSession, new_table: Callable[..., SparkTable]) -> SparkTable:
    """A table with a row in each of two partitions."""
    rows = lake.createDataFrame([(1, "a"), (2, "b")], "id long, day string")
    table = new_table(rows, "id", partition_fields=["day"], buckets=1)
    table.insert(rows)
    return table


def _rows(lake: SparkSession, table: SparkTable) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in lake.sql(f"SELECT * FROM lake.{table.name}").collect())


def test_a_frame_of_a_dropped_table_does_not_read_another_one_of_its_name(
    lake: SparkSession, new_table: Callable[..., SparkTable]
) -> None:
    first = new_table(lake.createDataFrame([(1, "x")], "id long, a string"), "id", buckets=1)
    lake.sql(f"INSERT INTO lake.{first.name} VALUES (1, 'x')")
    frame = lake.table(f"lake.{first.name}")
    base_path = first.definition.base_path
    lake.sql(f"DROP TABLE lake.{first.name}")
    lake.sql(
        f"CREATE TABLE lake.{first.name} (id BIGINT, b INT) USING chronolake "
        f"LOCATION '{base_path}-2' TBLPROPERTIES (record_key = 'id')"
    )
    with pytest.raises(IllegalArgumentException, match="was dropped, and made again"):
        frame.where("a is null or id > 0").collect()


def test_an_overwrite_takes_one_partition(lake: SparkSession, days: SparkTable) -> None:
    nothing = lake.table(f"lake.{days.name}").where("false").writeTo(f"lake.{days.name}")
    for condition in ((sf.col("day") == "a") & (sf.col("day") == "b"), sf.lit(False)):
        with pytest.raises(PySparkException, match="an overwrite"):
            nothing.overwrite(condition)
    assert _rows(lake, days) == [(1, "a"), (2, "b")]


def test_a_merge_with_schema_evolution_adds_the_column(
    lake: SparkSession, new_table: Callable[..., SparkTable]
) -> None:
    rows = lake.createDataFrame([(1, "x")], "id long, a string")
    table = new_table(rows, "id", buckets=1)
    table.insert(rows)
    lake.sql(
        f"MERGE WITH SCHEMA EVOLUTION INTO lake.{table.name} t USING (SELECT 1L AS id, 'y' AS a, 7 AS b) s "
        "ON t.id = s.id WHEN MATCHED THEN UPDATE SET *"
    )
    assert _rows(lake, table) == [(1, "y", 7)]


def test_unknown_storage_options_are_refused_before_the_first_write(
    lake: SparkSession, shared_server_url: str
) -> None:
    secrets = json.dumps({"s3.secret-access-key": "hidden"})
    chronolake_spark.catalog(lake, "wrong", shared_server_url, {"storage_secrets": secrets})
    with pytest.raises(IllegalArgumentException, match="storage options are") as refused:
        lake.sql("SHOW NAMESPACES IN wrong").collect()
    assert "hidden" not in str(refused.value)
    chronolake_spark.catalog(lake, "tokened", shared_server_url, {"token": "secret"})
    with pytest.raises(IllegalArgumentException, match="no option 'token'; did you mean 'token_file'"):
        lake.sql("SHOW NAMESPACES IN tokened").collect()


def test_a_catalog_may_use_vended_keys(lake: SparkSession, shared_server_url: str) -> None:
    chronolake_spark.catalog(
        lake, "vended", shared_server_url, {"storage_secrets": '{"credentials": "vended"}'}
    )
    assert lake.sql("SHOW NAMESPACES IN vended").collect()


def test_the_reason_of_a_failed_worker_is_told(lake: SparkSession, days: SparkTable) -> None:
    with pytest.raises(PySparkException, match="not this row"):
        lake.sql(f"INSERT INTO lake.{days.name} SELECT 9, raise_error('not this row')")
    assert _rows(lake, days) == [(1, "a"), (2, "b")]
