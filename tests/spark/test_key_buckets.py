"""Reads of keys in a table with buckets: only the slices of their buckets are read."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

import chronolake
from chronolake_model.filters import Compare, ComparisonOperator, Filter, In, Not
from chronolake_spark import SparkTable
from chronolake_spark.catalogs import registering
from chronolake_spark.index import key_buckets

pytestmark = pytest.mark.spark

_COLUMNS = "id long, name string, v double"


def _is(column: str, value: int | float | str) -> Filter:
    return Compare(column, ComparisonOperator.EQUAL, value)


def test_keys_are_those_that_a_filter_asks_for(
    new_table: Callable[..., SparkTable], spark: SparkSession
) -> None:
    frame = spark.createDataFrame([], _COLUMNS)
    single = new_table(frame, "id", buckets=4).definition
    both = new_table(frame, "id,name", buckets=4).definition
    looked_up = new_table(frame, "id", index="simple").definition

    assert key_buckets.keys_of(_is("id", 3), single) == [(3,)]
    assert key_buckets.keys_of(_is("v", 1.5) & In("id", [1, 2]), single) == [(1,), (2,)]
    assert key_buckets.keys_of(_is("name", "a") & In("id", [1, 2]), both) == [(1, "a"), (2, "a")]
    for filter_, table in [
        (None, single),
        (_is("v", 1.5), single),
        (_is("id", 3) | _is("v", 1.5), single),
        (Not(_is("id", 3)), single),
        (Compare("id", ComparisonOperator.LESS, 3), single),
        (_is("id", 3), both),
        (In("id", list(range(100))) & In("name", list(map(str, range(11)))), both),
        (_is("id", 3), looked_up),
        (_is("id", 3.0), single),
        (_is("id", True), single),
    ]:
        assert key_buckets.keys_of(filter_, table) is None


@pytest.mark.skipif(not registering.JAR.exists(), reason="the Java part is not built: there is no JDK")
def test_a_key_is_found_in_its_bucket_also_before_buckets_were_divided(
    lake: SparkSession, new_table: Callable[..., SparkTable]
) -> None:
    rows = lake.range(24).selectExpr("id", "concat('n', id) name", "1.5D v")
    table = new_table(rows, "id,name", buckets=3, type="merge_on_read")
    table.insert(rows)
    first = table.metastore.snapshot()
    table.resize_buckets(6)
    table.upsert(rows.where("id < 12"))
    now = table.metastore.snapshot()
    assert (len(first.slices), len(now.slices)) == (3, 6)

    name = f"lake.{table.name}"
    for state in (name, f"{name} VERSION AS OF '{first.as_of}'"):
        found = [
            [
                tuple(row)
                for row in lake.sql(f"SELECT id FROM {state} WHERE id = {id} AND name = 'n{id}'").collect()
            ]
            for id in range(0, 24, 3)
        ]
        assert found == [[(id,)] for id in range(0, 24, 3)]
        assert lake.sql(f"SELECT * FROM {state} WHERE id IN (1, 2) AND name = 'n3'").collect() == []
    for snapshot in (first, now):
        slices = key_buckets.slices_of(table.metastore, snapshot, _is("id", 7) & _is("name", "n7"))
        assert len(slices) == 1
    lake.sql(f"DELETE FROM {name} WHERE id = 7 AND name IN ('n7', 'n8')")
    assert lake.table(name).count() == 23


@pytest.mark.skipif(not registering.JAR.exists(), reason="the Java part is not built: there is no JDK")
def test_values_that_no_key_has_find_nothing(
    lake: SparkSession, client: chronolake.Client, new_table: Callable[..., SparkTable]
) -> None:
    rows = lake.sql("SELECT 'a' name, 1Y number")
    for key, conditions in {
        "name": ["name = ''", "name = '__null__'", "name = repeat('z', 5000)", "name = 'a' AND name = 'b'"],
        "number": ["number = 300", "number = 1.5"],
    }.items():
        table = new_table(rows, key, buckets=3)
        table.insert(rows)
        frame = lake.read.format("chronolake").options(table=table.name, url=client.url)
        for condition in conditions:
            assert lake.sql(f"SELECT * FROM lake.{table.name} WHERE {condition}").collect() == []
            # The language of filters has no functions, and refuses a fraction.
            if "repeat" not in condition and "1.5" not in condition:
                assert frame.option("filter", condition).load().collect() == []
