"""Spark, Python without it and Java write one table: each record is there once, and the check finds nothing."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path

from pyspark.sql import SparkSession

import chronolake
from chronolake_spark import SparkTable
from tests.spark.test_tables import NewTable
from tests.writers import programs

STRUCT = "id long, day date, price decimal(12,8), region string, seen timestamp, n int, weight double"


def rows(numbers: range, n: int) -> list[programs.Row]:
    return [
        {
            "id": number,
            "day": 18_628,
            "price": "0.00000001",
            "region": None if number % 5 == 0 else "é u",
            "seen": 1_767_225_600_123_456,
            "n": n,
            "weight": 0.5,
        }
        for number in numbers
    ]


def test_spark_and_other_writers_update_each_others_records(
    spark: SparkSession, new_table: NewTable, client: chronolake.Client, tmp_path: Path
) -> None:
    table: SparkTable = new_table(
        spark.createDataFrame([], STRUCT), "id,day,price", partition_fields=["region"], ordering_field="n"
    )
    programs.write("java", table.metastore, client.url, "insert", rows(range(30), 1), tmp_path)
    day, seen = datetime.date(2021, 1, 1), datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    price = Decimal("0.00000001")
    upserted = [
        (number, day, price, None if number % 5 == 0 else "é u", seen, 2, 1.5) for number in range(20, 40)
    ]
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        table.upsert(spark.createDataFrame(upserted, STRUCT))
    finally:
        spark.conf.set("spark.sql.ansi.enabled", "true")
    programs.write("python", table.metastore, client.url, "upsert", rows(range(35, 50), 3), tmp_path)
    programs.write("java", table.metastore, client.url, "upsert", rows(range(0, 50, 10), 4), tmp_path)

    stored_rows = table.read().select("id", "n", "price", "day").collect()

    expected = {number: 1 for number in range(20)} | {number: 2 for number in range(20, 35)}
    expected |= {number: 3 for number in range(35, 50)} | {number: 4 for number in range(0, 50, 10)}
    assert {row.id: row.n for row in stored_rows} == expected
    assert {(row.price, row.day) for row in stored_rows} == {(price, day)}
    assert len(stored_rows) == 50
    assert table.metastore.check().totals == []
