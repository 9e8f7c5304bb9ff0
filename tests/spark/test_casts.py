"""A value goes into the table as it is, or the write fails and says so."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession, functions as sf

import chronolake_spark
from chronolake import Client
from chronolake_spark import errors

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    ("table_type", "frame_type", "value"),
    [
        ("int", "double", 1.99),
        ("int", "bigint", 3_000_000_000),
        ("int", "string", "abc"),
        ("boolean", "int", 2),
        ("float", "double", 1e300),
        ("struct<b:int,a:int>", "struct<a:int,b:int>", (1, 2)),
    ],
)
def test_a_value_that_the_table_cannot_hold_is_refused(
    spark: SparkSession, client: Client, tmp_path: Any, table_type: str, frame_type: str, value: object
) -> None:
    client.create_namespace("casts", if_not_exists=True)
    name = f"casts.t{abs(hash((table_type, frame_type)))}"
    schema = spark.createDataFrame([], f"id int, v {table_type}").schema
    chronolake_spark.create_table(client, name, schema, base_path=str(tmp_path), record_key_fields=["id"])
    table = chronolake_spark.table(spark, name, client=client)
    with pytest.raises(errors.SchemaMismatch, match="does not hold every value"):
        table.upsert(spark.createDataFrame([(1, value)], f"id int, v {frame_type}"))
    assert table.snapshot().count() == 0


def test_a_delete_condition_that_is_none_is_refused(spark: SparkSession, client: Client, tmp_path: Any) -> None:
    client.create_namespace("casts", if_not_exists=True)
    frame = spark.createDataFrame([(1,)], "id int")
    chronolake_spark.create_table(
        client, "casts.conditions", frame.schema, base_path=str(tmp_path), record_key_fields=["id"]
    )
    table = chronolake_spark.table(spark, "casts.conditions", client=client)
    with pytest.raises(errors.SchemaMismatch, match="not a condition"):
        table.upsert(frame, delete_when=sf.col("id"))
