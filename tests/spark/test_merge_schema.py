"""Writes that add the columns of their frame to the table."""

from __future__ import annotations

import datetime
from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession, functions as sf

from chronolake_model.vocabulary import TableType
from chronolake_spark import SparkTable, errors

pytestmark = pytest.mark.spark

NewTable = Callable[..., SparkTable]
FIRST = "id long, price int, rate decimal(5,2)"


@pytest.mark.parametrize("type_", list(TableType))
def test_columns_of_the_frame_are_added_and_widened_before_the_write(
    spark: SparkSession, new_table: NewTable, type_: TableType
) -> None:
    frame = spark.createDataFrame([(1, 10, 1), (2, 20, 2)], "id long, price int, rate int")
    before = frame.withColumn("rate", sf.col("rate").cast("decimal(5,2)"))
    table = new_table(before, "id", type=type_, buckets=1)
    table.insert(before)
    wider = before.where("id = 2").selectExpr(
        "id",
        "cast(price as bigint) * 10000000000 PRICE",
        "cast(rate as decimal(9,2)) rate",
        "'x' `new.one`",
        "'d' op",
    )
    with pytest.raises(errors.SchemaMismatch, match=r"new\.one, op .*merge_schema=True"):
        table.upsert(wider)

    table.upsert(wider, delete_when="op = 'no'", merge_schema=True)
    types = {field.name: field.type for field in table.definition.schema}
    assert types == {"id": "bigint", "price": "bigint", "rate": "decimal(9,2)", "new.one": "string"}
    rows = sorted(map(tuple, table.read().selectExpr("id", "price", "`new.one`").collect()))
    assert rows == [(1, 10, None), (2, 200_000_000_000, "x")]

    table.overwrite(wider.drop("op").withColumn("more", sf.lit(1)), "all", merge_schema=True)
    table.bulk_insert(
        wider.drop("op").selectExpr("id + 5 id", "*").drop(wider.id).withColumn("more", sf.lit(2))
    )
    assert sorted(map(tuple, table.read().select("id", "more").collect())) == [(2, 1), (7, 2)]


def test_a_write_that_fails_leaves_the_new_column_without_values(
    spark: SparkSession, new_table: NewTable
) -> None:
    before = spark.createDataFrame([(1, 10)], "id long, price int")
    table = new_table(before, "id", buckets=1)
    table.insert(before)
    with pytest.raises(errors.DuplicateKeys):
        table.insert(before.withColumn("more", sf.lit("x")), merge_schema=True)
    assert list(map(tuple, table.read().collect())) == [(1, 10, None)]

    before = before.withColumns({"other": sf.lit(1), "more": sf.lit("x")})
    for wrong, message in (
        (before.withColumnRenamed("price", "prise"), "lack the columns price"),
        (before.withColumn("price", sf.lit("x").cast("binary")), "price"),
    ):
        with pytest.raises(errors.SchemaMismatch, match=message):
            table.upsert(wrong, merge_schema=True)
        assert [field.name for field in table.definition.schema] == ["id", "price", "more"]
    before = before.drop("other", "more")

    # A smaller type, and a type that is not wider, stay as they were: the values must fit.
    table.upsert(before.selectExpr("id", "cast(price as smallint) price", "'y' more"), merge_schema=True)
    with pytest.raises(errors.SchemaMismatch, match="price"):
        table.upsert(before.selectExpr("id", "price + 0.5D price", "'z' more"), merge_schema=True)
    with pytest.raises(errors.SchemaMismatch, match="_hoodie_new"):
        table.upsert(before.selectExpr("*", "'y' more", "1 _hoodie_new"), merge_schema=True)
    assert list(map(tuple, table.read().collect())) == [(1, 10, "y")]


NESTED = (
    "id long, home struct<city:string,at:struct<x:int>>, all array<struct<n:int>>, by map<string,struct<n:int>>"
)


@pytest.mark.parametrize("type_", list(TableType))
def test_nested_fields_of_the_frame_are_added_at_any_depth(
    spark: SparkSession, new_table: NewTable, type_: TableType
) -> None:
    old = (("Oslo", (1,)), [(1,), None], {"k": (1,), "none": None})
    before = spark.createDataFrame([(1, *old), (2, *old), (3, None, None, None)], NESTED)
    table = new_table(before, "id", type=type_, buckets=1)
    table.insert(before)
    # The fields are in another order than the table's, and one name is written otherwise.
    given = (
        "id long, home struct<zip:int,at:struct<`new y`:string,x:int>,CITY:string>, "
        "all array<struct<m:array<struct<a:int>>,n:bigint>>, by map<string,struct<m:date,n:int>>"
    )
    day = datetime.date(2026, 1, 1)
    new = ((5, ("y", 2), "Bergen"), [([(7,)], 3), None], {"k": (day, 4), "none": None})
    frame = spark.createDataFrame([(2, *new), (4, None, None, None)], given)
    with pytest.raises(errors.SchemaMismatch, match=r"home\.zip, home\.at\.`new y`.* merge_schema=True"):
        table.upsert(frame)

    table.upsert(frame, merge_schema=True)

    assert [field.type for field in table.definition.schema[1:]] == [
        "struct<city:string,at:struct<x:int,`new y`:string>,zip:int>",
        "array<struct<n:int,m:array<struct<a:int>>>>",
        "map<string,struct<n:int,m:date>>",
    ]
    rows = {row.id: tuple(row)[1:] for row in table.read().collect()}
    assert rows[1] == (("Oslo", (1, None), None), [(1, None), None], {"k": (1, None), "none": None})
    assert rows[2] == (("Bergen", (2, "y"), 5), [(3, [(7,)]), None], {"k": (4, day), "none": None})
    assert rows[3] == rows[4] == (None, None, None)
    assert table.definition.schema_version == 2

    # Later frames need the new fields, if only as null, and values that fit.
    table.upsert(
        frame.where("id = 2")
        .withColumn("home", sf.col("home").withField("zip", sf.lit(None)))
        .withColumn("all", sf.transform("all", lambda item: item.withField("m", sf.lit(None))))
    )
    assert table.read().where("id = 2").select("home.zip", "home.city", "all").first() == (
        None,
        "Bergen",
        [(3, None), None],
    )
    with pytest.raises(errors.SchemaMismatch, match=r"lacks the nested fields home\.at\.`new y`, home\.zip "):
        table.upsert(frame.withColumn("home", sf.expr("named_struct('city', 'x', 'at', named_struct('x', 1))")))
    with pytest.raises(errors.SchemaMismatch, match=r"all\.element\.n is bigint"):
        table.upsert(frame.withColumn("all", sf.expr("array(named_struct('n', 3000000000L, 'm', null))")))
    with pytest.raises(errors.SchemaMismatch, match="all is int, and the table's is array"):
        table.upsert(frame.withColumn("all", sf.lit(1)), merge_schema=True)
    assert table.definition.schema_version == 2
