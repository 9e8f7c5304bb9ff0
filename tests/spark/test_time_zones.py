"""Times in sessions of other zones, and where the word TIMESTAMP means a time without one: the same moments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from chronolake_spark import SparkTable

pytestmark = pytest.mark.spark
BEFORE_TWO = "at < '2026-01-01T02:00:00Z'"
NewTable = Callable[..., SparkTable]


@pytest.fixture(params=["TIMESTAMP_LTZ", "TIMESTAMP_NTZ"])
def new_york(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    """The session in another zone, where the word TIMESTAMP means a time with a zone or one without."""
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    spark.conf.set("spark.sql.timestampType", request.param)
    yield spark
    spark.conf.set("spark.sql.session.timeZone", before)
    spark.conf.unset("spark.sql.timestampType")


def hours(spark: SparkSession, count: int) -> DataFrame:
    """A record for each of the first hours of 2026, by UTC."""
    start = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp())
    return spark.range(count).selectExpr(
        "id",
        f"timestamp_seconds({start} + id * 3600) AS at",
        f"timestamp_seconds({start} + (id % 2) * 3600) AS day",
        "CAST(id AS double) AS value",
    )


def filled(new_table: NewTable, rows: DataFrame, **definition: Any) -> SparkTable:
    table = new_table(rows, "id", **definition)
    table.insert(rows)
    return table


def ids(table: SparkTable, **reading: Any) -> list[int]:
    return sorted(row.id for row in table.read(**reading).select("id").collect())


@pytest.mark.parametrize("type_", ["copy_on_write", "merge_on_read"])
def test_filters_and_deletes_mean_the_moments_that_they_name(
    new_york: SparkSession, new_table: NewTable, type_: str
) -> None:
    table = filled(new_table, hours(new_york, 6), type=type_, buckets=2)

    assert ids(table, filter=BEFORE_TWO) == [0, 1]
    table.delete(BEFORE_TWO)
    assert ids(table) == [2, 3, 4, 5]
    table.delete(new_york.range(3, 4))
    assert ids(table) == [2, 4, 5]
    assert table.metastore.check().findings == []


def test_a_partition_of_a_time_is_deleted_by_its_moment(new_york: SparkSession, new_table: NewTable) -> None:
    table = filled(new_table, hours(new_york, 4), partition_fields=["day"], buckets=1)

    table.delete_partitions({"day": datetime(2026, 1, 1, 1, tzinfo=UTC)})

    assert ids(table) == [0, 2]


def test_a_time_orders_deletes_in_log_files(new_york: SparkSession, new_table: NewTable) -> None:
    table = filled(new_table, hours(new_york, 4), type="merge_on_read", ordering_field="at", buckets=1)

    table.delete(BEFORE_TWO)
    table.delete(new_york.range(2, 3))
    table.upsert(hours(new_york, 4).where("id = 3"), delete_when="true")

    assert ids(table) == []
