"""Partitions by a timestamp: their folders say the instant, for Hudi's readers and for the server's pruning."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import hudi
import pytest
from pyspark.sql import DataFrame, SparkSession

import chronolake
from chronolake_spark import SparkTable
from tests.spark import hudi_reader

pytestmark = pytest.mark.spark

NewTable = Callable[..., SparkTable]
MOMENTS = {
    "timestamp'2026-01-01 00:00:07 UTC'": "2026-01-01T00%3A00%3A07Z",
    "timestamp'2026-01-01 00:00:07.12 UTC'": "2026-01-01T00%3A00%3A07.12Z",
    "timestamp'1969-12-31 23:59:59.999999 UTC'": "1969-12-31T23%3A59%3A59.999999Z",
    "null": "__HIVE_DEFAULT_PARTITION__",
}


@pytest.fixture
def in_tokyo(spark: SparkSession) -> Iterator[SparkSession]:
    """A session in another time zone than UTC."""
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    yield spark
    spark.conf.set("spark.sql.session.timeZone", "UTC")


def visits(spark: SparkSession, price: int) -> DataFrame:
    rows = " union all ".join(
        f"select {number}L as id, {price} as price, cast({moment} as timestamp) as at"
        for number, moment in enumerate(MOMENTS)
    )
    return spark.sql(rows)


def test_a_partition_by_a_timestamp_is_the_instant_in_every_time_zone(
    in_tokyo: SparkSession, new_table: NewTable
) -> None:
    table = new_table(visits(in_tokyo, 1), "id", partition_fields=["at"], buckets=1)
    table.insert(visits(in_tokyo, 1))
    in_tokyo.conf.set("spark.sql.session.timeZone", "America/New_York")
    table.upsert(visits(in_tokyo, 2))

    rows = hudi_reader.rows_of_hudi(table.metastore)
    assert dict(zip(rows["id"].to_pylist(), rows["_hoodie_partition_path"].to_pylist(), strict=True)) == {
        number: f"at={path}" for number, path in enumerate(MOMENTS.values())
    }
    assert rows["price"].to_pylist() == [2] * len(MOMENTS)
    assert table.metastore.check().findings == []


@pytest.mark.parametrize(
    ("condition", "hudi_filter", "ids"),
    [
        ("at = timestamp'2026-01-01 00:00:07 UTC'", ("at", "=", "2026-01-01T00:00:07Z"), [0]),
        ("at > timestamp'2026-01-01 00:00:07 UTC'", ("at", ">", "2026-01-01T00:00:07Z"), [1]),
        ("at < timestamp'1970-01-01 00:00:00 UTC'", ("at", "<", "1970-01-01T00:00:00Z"), [2]),
        ("at is null", None, [3]),
    ],
)
def test_a_filter_on_a_timestamp_reads_the_partitions_that_fit(
    in_tokyo: SparkSession,
    new_table: NewTable,
    condition: str,
    hudi_filter: tuple[str, str, str] | None,
    ids: list[int],
) -> None:
    table = new_table(visits(in_tokyo, 1), "id", partition_fields=["at"], buckets=1)
    table.insert(visits(in_tokyo, 1))

    assert sorted(row["id"] for row in table.read().where(condition).collect()) == ids
    if hudi_filter is not None:
        options = hudi.HudiReadOptions().with_filters([hudi_filter])
        assert hudi_reader.rows_of_hudi(table.metastore, options)["id"].to_pylist() == ids


def test_the_server_prunes_the_partitions_of_a_timestamp(spark: SparkSession, new_table: NewTable) -> None:
    table = new_table(visits(spark, 1), "id", partition_fields=["at"], buckets=1)
    table.insert(visits(spark, 1))
    [moment, *_] = MOMENTS.values()

    slices = table.metastore.scan(chronolake.col("at") == datetime(2026, 1, 1, 0, 0, 7, tzinfo=UTC)).slices

    assert [file_slice.partition_path for file_slice in slices] == [f"at={moment}"]
