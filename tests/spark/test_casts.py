"""A value is stored unchanged, or the write fails with an error."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession, functions as sf
from pyspark.sql.types import StringType, StructType

import chronolake_spark
from chronolake import Client, field_ids
from chronolake_spark import SparkTable, errors
from chronolake_spark.write import casts

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    ("table_type", "frame_type", "value"),
    [
        ("int", "double", 1.99),
        ("int", "bigint", 3_000_000_000),
        ("float", "double", 1e300),
        ("struct<b:int,a:int>", "struct<a:int,b:string>", (1, "2")),
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
    with pytest.raises(errors.SchemaMismatch, match="cannot hold every value"):
        table.upsert(spark.createDataFrame([(1, value)], f"id int, v {frame_type}"))
    assert table.read().count() == 0


@pytest.mark.parametrize(
    ("table_type", "value", "advice"),
    [
        ("timestamp", "1L", "timestamp_millis"),
        ("timestamp", "1.5D", "timestamp_seconds"),
        ("timestamp", "1.50", "timestamp_seconds"),
        ("date", "1L", "convert it yourself"),
        ("bigint", "TIMESTAMP '2026-01-31'", "unix_millis"),
        ("boolean", "1L", "compare it"),
        ("int", "true", "cast it yourself"),
        ("timestamp", "true", "cast it yourself"),
        ("string", "X'FF'", r"decode\(…, 'UTF-8'\)"),
        ("struct<a:timestamp>", "named_struct('a', 1L)", r"column v\.a is bigint"),
    ],
)
def test_a_value_of_another_kind_is_refused_with_the_way_to_convert_it(
    spark: SparkSession, table_type: str, value: str, advice: str
) -> None:
    frame = spark.sql(f"SELECT {value} v")
    target = StructType.fromDDL(f"v {table_type}")["v"].dataType

    with pytest.raises(errors.SchemaMismatch, match=advice):
        casts.cast(frame["v"], "v", target, frame.schema["v"].dataType)


def test_an_int_of_another_kind_is_refused_unless_it_is_null(spark: SparkSession) -> None:
    frame = spark.sql("SELECT 1 v")
    target = StructType.fromDDL("v boolean")["v"].dataType

    with pytest.raises(Exception, match="not converted") as raised:
        frame.select(casts.cast(frame["v"], "v", target, frame.schema["v"].dataType)).collect()

    refused = errors.decoded(str(raised.value))
    assert isinstance(refused, errors.SchemaMismatch)
    assert "compare it" in str(refused)


@pytest.mark.parametrize(
    ("table_type", "value", "stored"),
    [
        ("int", "2.0D", 2),
        ("timestamp", "DATE '2026-01-31'", datetime.datetime.fromisoformat("2026-01-31")),
        ("string", "true", "true"),
        ("timestamp", "CAST(NULL AS INT)", None),
    ],
)
def test_a_value_of_the_same_kind_is_cast(
    spark: SparkSession, table_type: str, value: str, stored: object
) -> None:
    frame = spark.sql(f"SELECT {value} v")
    target = StructType.fromDDL(f"v {table_type}")["v"].dataType

    [row] = frame.select(casts.cast(frame["v"], "v", target, frame.schema["v"].dataType)).collect()

    assert row[0] == stored


@pytest.mark.parametrize(
    ("table_type", "value", "is_kept"),
    [
        ("float", "0.1BD", True),
        ("float", "16777216BD", True),
        ("float", "16777217BD", False),
        ("float", "0.1000000001BD", False),
        ("double", "0.1000000001BD", True),
        ("double", "9007199254740993BD", False),
        ("double", "0.10000000000000000001BD", False),
    ],
)
def test_a_decimal_becomes_a_float_if_it_is_the_same_decimal_again(
    spark: SparkSession, table_type: str, value: str, is_kept: bool
) -> None:
    frame = spark.sql(f"SELECT {value} v")
    target = StructType.fromDDL(f"v {table_type}")["v"].dataType
    cast = frame.select(casts.cast(frame["v"], "v", target, frame.schema["v"].dataType))

    if is_kept:
        assert cast.collect() == frame.selectExpr(f"CAST(v AS {table_type})").collect()
    else:
        with pytest.raises(Exception, match="cannot hold every value"):
            cast.collect()


LOSING = {
    "float": ("16777217",),
    "int": ("abc", "1.50", "3000000000"),
    "decimal(10,2)": ("1.555", "1e-3", "123456789.00"),
    "double": ("1e400", "0x1"),
    "boolean": ("yes", "1"),
    "date": ("2026-01-31T10:00:00", "2026-1-31"),
    "timestamp": ("2026-01-31 10:00:00.1234567", "2026-01-31"),
    "timestamp_ntz": ("2026-01-31 10:00:00+02:00",),
}


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        pytest.param(type_, text, marks=[] if text == texts[0] else pytest.mark.slow)
        for type_, texts in LOSING.items()
        for text in texts
    ],
)
def test_a_string_that_would_lose_something_is_refused(spark: SparkSession, type_: str, text: str) -> None:
    with pytest.raises(Exception, match="does not") as raised:
        converted(spark, type_, [text])

    refused = errors.decoded(str(raised.value))
    assert isinstance(refused, errors.SchemaMismatch)
    assert f"column v: the string '{text}' does not fit {type_}" in str(refused)


STRINGS: dict[str, tuple[list[str | None], list[Any]]] = {
    "int": (["+01", None, "-7"], [1, None, -7]),
    "decimal(10,2)": (["1.5", "-0.25"], [Decimal("1.50"), Decimal("-0.25")]),
    "double": (["1e3", ".5"], [1000.0, 0.5]),
    "boolean": (["TRUE", "false"], [True, False]),
    "date": (["2026-01-31"], [datetime.date(2026, 1, 31)]),
    "timestamp_ntz": (["2026-01-31T10:00:00.5"], [datetime.datetime.fromisoformat("2026-01-31T10:00:00.5")]),
    "binary": (["x"], [b"x"]),
}


@pytest.mark.parametrize("type_", STRINGS)
def test_a_string_is_cast_to_its_value(spark: SparkSession, type_: str) -> None:
    texts, values = STRINGS[type_]

    assert converted(spark, type_, texts) == values


def converted(spark: SparkSession, type_: str, texts: Sequence[str | None]) -> list[Any]:
    frame = spark.createDataFrame([(text,) for text in texts], "v string")
    target = spark.createDataFrame([], f"v {type_}").schema["v"].dataType
    rows = frame.coalesce(1).select(casts.cast(frame["v"], "v", target, StringType())).collect()
    return [row[0] for row in rows]


def test_a_delete_condition_that_is_none_is_refused(spark: SparkSession, client: Client, tmp_path: Any) -> None:
    client.create_namespace("casts", if_not_exists=True)
    frame = spark.createDataFrame([(1,)], "id int")
    chronolake_spark.create_table(
        client, "casts.conditions", frame.schema, base_path=str(tmp_path), record_key_fields=["id"]
    )
    table = chronolake_spark.table(spark, "casts.conditions", client=client)
    with pytest.raises(errors.SchemaMismatch, match="not a condition"):
        table.upsert(frame, delete_when=sf.col("id"))


def test_nested_fields_that_are_never_null_in_a_frame_are_stored_as_nullable(
    spark: SparkSession, new_table: Callable[..., SparkTable]
) -> None:
    inner = "named_struct('y', 'q', 'x', 1)"
    frame = spark.sql(f"SELECT 1L id, {inner} st, array({inner}) a, map('k', {inner}) m")
    own = "struct<x:int,y:string>"
    struct = f"id long, st {own}, a array<{own}>, m map<string,{own}>"
    table = new_table(spark.createDataFrame([], struct), "id", buckets=1)

    table.upsert(frame)
    # The stored records have nulls where the frame cannot have any, and the other way round.
    table.upsert(spark.sql("SELECT 2L id, null st, array(null) a, map('k', null) m"))
    table.upsert(frame.withColumn("id", sf.lit(3)))

    stored = table.read().orderBy("id").drop("id").collect()
    assert [tuple(row) for row in stored] == [VALUES_OF_STRUCTS, (None, [None], {"k": None}), VALUES_OF_STRUCTS]
    [file_slice] = table.metastore.snapshot().slices
    assert file_slice.base_file is not None
    path = f"{table.definition.base_path}/{file_slice.base_file.path}"
    assert required_fields(pq.read_schema(path)) == []


VALUES_OF_STRUCTS = ((1, "q"), [(1, "q")], {"k": (1, "q")})


def required_fields(parent: pa.Schema | pa.DataType) -> list[str]:
    """The fields that are not nullable, at any depth; the keys of maps never are."""
    fields = list(parent) if isinstance(parent, pa.Schema) else [field for _, field in field_ids.parts(parent)]
    own = [field.name for field in fields if not field.nullable and field.name != "key"]
    return own + [name for field in fields for name in required_fields(field.type)]
