"""INSERT into views and ``insertInto`` write as ``df.write`` does; without ``install`` nothing is written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import chronolake_spark
from chronolake_model.vocabulary import Operation, State
from chronolake_spark import SparkTable, errors
from tests.spark.prices import orphans_of

pytestmark = pytest.mark.spark

NewTable = Callable[..., SparkTable]


def orders(spark: SparkSession, *rows: tuple[Any, ...]) -> DataFrame:
    return spark.createDataFrame(list(rows), "id long, country string, price double")


def rows_of(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)


@pytest.fixture
def table(spark: SparkSession, new_table: NewTable) -> SparkTable:
    table = new_table(orders(spark), "id", partition_fields=["country"], buckets=2)
    chronolake_spark.views(spark, "spark", table._client.url)
    return table


@pytest.fixture
def view(table: SparkTable) -> str:
    return table.name.removeprefix("spark.")


def made_by_hand(spark: SparkSession, table: SparkTable, options: str = "") -> str:
    """A view of SQL, as sessions without ``chronolake_spark.views`` make it."""
    given = f"table '{table.name}', url '{table._client.url}'{options}"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW by_hand USING chronolake OPTIONS ({given})")
    return "by_hand"


def test_each_form_of_insert_writes_the_rows_of_its_query(
    spark: SparkSession, table: SparkTable, view: str
) -> None:
    spark.sql(f"INSERT INTO {view} VALUES (1, 'de', 1.5), (2, null, 0.1)")
    spark.sql(f"INSERT INTO {view.upper()} BY NAME SELECT 2.5 price, 3 id, 'it' country")
    spark.sql(f"INSERT INTO {view} (price, country, id) SELECT 3.5, 'se', 4")
    spark.sql(
        f"WITH new AS (SELECT :id id, 'no' c, :price p) INSERT INTO {view} TABLE new", {"id": 5, "price": 5.5}
    )
    spark.sql(
        f"INSERT INTO {view} SELECT ?, country, price FROM {{more}} WHERE price > ?",
        [6, 5.0],
        more=table.read(),
    )
    orders(spark, (7, "de", 7.5)).write.insertInto(f"`{view}`")
    inserted = [(1, "de", 1.5), (2, None, 0.1), (3, "it", 2.5), (4, "se", 3.5), (5, "no", 5.5), (6, "no", 5.5)]
    assert rows_of(spark.table(view)) == [*inserted, (7, "de", 7.5)]
    assert spark.sql(f"INSERT INTO {view} SELECT 1L, 'de', 1.0").columns == []

    spark.sql(f"INSERT OVERWRITE {view} SELECT id + 10, country, price FROM {view} WHERE id > 5")
    assert rows_of(table.read()) == [(16, "no", 5.5), (17, "de", 7.5)]
    orders(spark, (1, "de", 1.0)).write.insertInto(view, overwrite=True)
    assert rows_of(table.read()) == [(1, "de", 1.0)]
    assert orphans_of(table) == []


def test_the_options_of_a_view_and_of_the_statement_are_those_of_a_write(
    spark: SparkSession, table: SparkTable, view: str
) -> None:
    spark.sql(f"INSERT INTO {view} VALUES (1, 'de', 1.0), (2, 'fr', 2.0)")
    inserts = made_by_hand(spark, table, ", operation 'insert'")
    with pytest.raises(errors.DuplicateKeys, match="have a record key that the table"):
        spark.sql(f"INSERT INTO {inserts} VALUES (1, 'de', 9.0)")
    with pytest.raises(errors.InvalidOption, match="the mode overwrite replaces"):
        spark.sql(f"INSERT OVERWRITE {inserts} VALUES (1, 'de', 9.0)")
    with pytest.raises(errors.DuplicateKeys, match=r"INSERT INTO … WITH \(row_order"):
        spark.sql(f"INSERT INTO {view} VALUES (3, 'it', 8.0), (3, 'it', 3.0)")
    spark.sql(f"INSERT INTO {view} WITH (row_order = 'price') VALUES (3, 'it', 8.0), (3, 'it', 3.0)")
    spark.sql(f"INSERT INTO {view} WITH (delete_when = 'price is null') VALUES (1, 'de', null)")
    assert rows_of(spark.table(view)) == [(2, "fr", 2.0), (3, "it", 8.0)]

    dynamic = made_by_hand(spark, table, ", partitions 'dynamic'")
    spark.sql(f"INSERT OVERWRITE {dynamic} VALUES (4, 'it', 4.0)")
    assert rows_of(spark.table(view)) == [(2, "fr", 2.0), (4, "it", 4.0)]
    past = made_by_hand(spark, table, ", as_of 'latest'")
    with pytest.raises(errors.InvalidOption, match="as_of are for reads"):
        spark.sql(f"INSERT INTO {past} VALUES (4, 'it', 4.0)")


def test_an_insert_that_df_write_would_refuse_writes_nothing(
    spark: SparkSession, table: SparkTable, view: str
) -> None:
    for statement, error, message in (
        (f"INSERT INTO {view} VALUES (null, 'de', 2.5)", errors.InvalidRecordKey, "fill them in"),
        (f"INSERT INTO {view} VALUES (2.9, 'de', 2.5)", errors.SchemaMismatch, "'?id'? .*decimal"),
        (
            f"INSERT INTO {view} VALUES (1, 'de')",
            errors.InvalidOption,
            "2 values are inserted into the 3 columns",
        ),
        (f"INSERT INTO {view} (price, id) VALUES (9.5, 1)", errors.SchemaMismatch, "lack the columns country"),
        (f"INSERT INTO {view} BY NAME SELECT 1L id, 'x' land, 1.0 price", errors.SchemaMismatch, "land"),
    ):
        with pytest.raises(error, match=message) as refused:
            spark.sql(statement)
        assert "[chronolake:" not in str(refused.value)
    for clause, message in (
        ("REPLACE WHERE id = 1 SELECT 1, 'de', 1.0", "has a clause that does not exist"),
        ("PARTITION (country = 'de') SELECT 1, 1.0", "leave PARTITION out"),
    ):
        with pytest.raises(errors.InvalidOption, match=message):
            spark.sql(f"INSERT INTO {view} {clause}")
    with pytest.raises(errors.InvalidOption, match="has a clause that does not exist"):
        spark.sql(f"INSERT WITH SCHEMA EVOLUTION INTO {view} SELECT 1, 'de', 1.0, 'more'")
    assert {instant.state for instant in table.metastore.instants(operation=Operation.UPSERT)} <= {
        State.ROLLED_BACK
    }
    assert list(Path(table.definition.base_path).rglob("*.parquet")) == []


def test_nested_columns_are_inserted_by_the_names_of_their_fields(
    spark: SparkSession, new_table: NewTable
) -> None:
    types = (
        "id long, tags array<string>, m map<string, array<int>>, s struct<a: array<struct<b: long>>, c: date>"
    )
    rows = spark.createDataFrame(
        [(1, ["x", None], {"k": [1, None]}, ([(2,), None], None)), (2, *[None] * 3)], types
    )
    table = new_table(rows, "id")
    chronolake_spark.views(spark, "spark", table._client.url)
    name = table.name.removeprefix("spark.")
    by_name = "if(id = 1, named_struct('c', s.c, 'a', s.a), null)"
    spark.sql(f"INSERT INTO {name} SELECT id, tags, m, {by_name} FROM {{rows}}", rows=rows)
    assert table.read().orderBy("id").collect() == rows.collect()


def test_inserts_look_keys_up_in_tables_without_buckets(spark: SparkSession, new_table: NewTable) -> None:
    given = {"partition_fields": ["country"], "ordering_field": "price"}
    simple = new_table(orders(spark), "id", index="simple", **given)
    unique = new_table(orders(spark), "id", index="record", type="merge_on_read", **given)
    chronolake_spark.views(spark, "spark", simple._client.url)
    for table in (simple, unique):
        name = table.name.removeprefix("spark.")
        spark.sql(f"INSERT INTO {name} SELECT id, 'de', 1.0 FROM range(4)")
        spark.sql(f"INSERT INTO {name} SELECT id, if(id = 1, 'fr', 'de'), 2.0 FROM range(1, 6, 2)")
        spark.sql(f"INSERT INTO {name} SELECT 3, 'de', 0.5")
        moved = [] if table is unique else [(1, "de", 1.0)]
        expected = [(0, "de", 1.0), (1, "fr", 2.0), (2, "de", 1.0), (3, "de", 2.0), (5, "de", 2.0)]
        assert rows_of(spark.table(name)) == sorted([*expected, *moved])


def test_overwrites_replace_partitions_or_the_table(spark: SparkSession, table: SparkTable) -> None:
    def overwrite(frame: DataFrame, **options: str) -> list[tuple[Any, ...]]:
        given = {"table": table.name, "url": table._client.url, **options}
        frame.write.format("chronolake").mode("overwrite").options(**given).save()
        return rows_of(table.read())

    table.upsert(orders(spark, (1, "de", 1.0), (2, "fr", 2.0), (3, "fr", 3.0)))
    new = orders(spark, (4, "fr", 4.0))
    assert overwrite(new, partitions="dynamic") == [(1, "de", 1.0), (4, "fr", 4.0)]
    assert overwrite(new) == [(4, "fr", 4.0)]
    assert overwrite(new.where("id < 0")) == []


def test_without_install_each_write_says_to_call_it_and_begins_nothing(
    spark: SparkSession, table: SparkTable
) -> None:
    frame, view = orders(spark, (1, "de", 1.0)), made_by_hand(spark, table)
    given = {"table": table.name, "url": table._client.url}
    writer = frame.write.format("chronolake").options(**given)
    overwriter = frame.write.format("chronolake").options(**given).mode("overwrite")
    writes: list[Callable[[], object]] = [
        # The methods of the JVM are those of PySpark, of Spark's shell and of a Connect server.
        writer.mode("append")._jwrite.save,
        overwriter._jwrite.save,
        lambda: spark._jsparkSession.sql(f"INSERT INTO {view} VALUES (1, 'de', 1.0D)"),
        lambda: frame.writeTo(view).append(),
    ]
    for write in writes:
        with pytest.raises(PySparkException, match=r"Call chronolake_spark\.install\(\) in the driver"):
            write()
    assert list(table.metastore.instants(operation=Operation.UPSERT)) == []
