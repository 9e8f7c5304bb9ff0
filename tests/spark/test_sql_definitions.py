"""Definitions in SQL: namespaces, CREATE, ALTER, DROP, TRUNCATE, DESCRIBE, and the tables of metadata."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException, PySparkException
from pyspark.sql import SparkSession

import chronolake
import chronolake_spark
from chronolake_model.vocabulary import IndexType, TableType
from chronolake_spark import SparkTable
from chronolake_spark.catalogs import registering

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not registering.JAR.exists(), reason="the Java part is not built: there is no JDK"),
]
_NUMBERS = itertools.count(1)


@pytest.fixture
def name(lake: SparkSession, client: chronolake.Client) -> str:
    """A name for a new table."""
    return f"spark.sql_{next(_NUMBERS)}"


@pytest.fixture
def location(tmp_path: Path) -> str:
    """A location for a new table, as SQL."""
    return f"LOCATION '{tmp_path}/table'"


@pytest.fixture
def made(lake: SparkSession, client: chronolake.Client, name: str, location: str) -> str:
    """A table of SQL."""
    lake.sql(
        f"CREATE TABLE lake.{name} (id BIGINT NOT NULL, day DATE, count INT, place STRUCT<city: STRING, "
        f"zip: INT>) USING chronolake PARTITIONED BY (day) TBLPROPERTIES (record_key = 'id', buckets = '2') "
        f"{location}"
    )
    return name


def _rows(lake: SparkSession, text: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in lake.sql(text).collect())


def _refusal(lake: SparkSession, text: str) -> str:
    with pytest.raises(PySparkException) as refused:
        lake.sql(text)
    return str(refused.value)


def test_namespaces_are_made_and_dropped(lake: SparkSession, client: chronolake.Client, tmp_path: Path) -> None:
    lake.sql(f"CREATE NAMESPACE lake.raw LOCATION '{tmp_path}/raw' WITH DBPROPERTIES (team = 'data')")
    lake.sql("CREATE NAMESPACE IF NOT EXISTS lake.raw")
    assert client.namespace("raw").properties["team"] == "data"
    assert "SCHEMA_ALREADY_EXISTS" in _refusal(lake, "CREATE NAMESPACE lake.raw")

    lake.sql("CREATE TABLE lake.raw.events (id BIGINT) TBLPROPERTIES (record_key = 'id')")
    first = client.table("raw.events").definition.base_path
    assert first == f"{tmp_path}/raw/events"
    assert "SCHEMA_NOT_EMPTY" in _refusal(lake, "DROP NAMESPACE lake.raw")
    # Files of dropped tables stay, so the next table of the name has another folder.
    chronolake_spark.table(lake, "raw.events", client=client).insert(lake.range(1))
    lake.sql("DROP TABLE lake.raw.events")
    lake.sql("CREATE TABLE lake.raw.events (id BIGINT) TBLPROPERTIES (record_key = 'id')")
    assert client.table("raw.events").definition.base_path.startswith(f"{first}-")

    assert "not 'events'" in _refusal(
        lake, "CREATE TABLE lake.events (id BIGINT) TBLPROPERTIES (record_key = 'id')"
    )
    lake.sql("DROP NAMESPACE lake.raw CASCADE")
    assert ("raw",) not in _rows(lake, "SHOW NAMESPACES IN lake")
    assert "SCHEMA_NOT_FOUND" in _refusal(lake, "SHOW TABLES IN lake.raw")


def test_created_table_is_the_one_that_was_described(
    lake: SparkSession, client: chronolake.Client, name: str, location: str
) -> None:
    lake.sql(
        f"CREATE TABLE lake.{name} (id BIGINT NOT NULL, day DATE, seen TIMESTAMP NOT NULL, tags ARRAY<STRING>) "
        "USING chronolake PARTITIONED BY (day) COMMENT 'visits' TBLPROPERTIES (record_key = 'id, day', "
        "ordering_field = 'seen', type = 'merge_on_read', index = 'bucket', buckets = '3', "
        f"'hoodie.clean.commits.retained' = '7') {location}"
    )
    made = client.table(name).definition
    assert (made.type, made.index.type, made.index.buckets) == (TableType.MERGE_ON_READ, IndexType.BUCKET, 3)
    assert (made.record_key_fields, made.partition_fields, made.ordering_field) == (
        ["id", "day"],
        ["day"],
        "seen",
    )
    assert made.properties == {"comment": "visits", "hoodie.clean.commits.retained": "7"}
    assert [(field.name, field.type, field.nullable) for field in made.schema] == [
        ("id", "bigint", False),
        ("day", "date", True),
        ("seen", "timestamp", False),
        ("tags", "array<string>", True),
    ]
    # What is shown makes the same table again.
    [(shown,)] = _rows(lake, f"SHOW CREATE TABLE lake.{name}")
    lake.sql(f"DROP TABLE lake.{name}")
    lake.sql(shown.replace("'ordering_field'", "'reuse_base_path' = 'true', 'ordering_field'"))
    again = client.table(name).definition
    assert (again.type, again.index, again.record_key_fields, again.ordering_field, again.properties) == (
        made.type,
        made.index,
        made.record_key_fields,
        made.ordering_field,
        made.properties,
    )
    lake.sql(f"CREATE TABLE IF NOT EXISTS lake.{name} (other INT) TBLPROPERTIES (record_key = 'other')")
    assert "TABLE_OR_VIEW_ALREADY_EXISTS" in _refusal(
        lake, f"CREATE TABLE lake.{name} (id INT) TBLPROPERTIES (record_key = 'id')"
    )


_KEYED = "TBLPROPERTIES (record_key = 'id')"


@pytest.mark.parametrize(
    ("statement", "advice"),
    [
        ("(id INT)", "needs a record key"),
        (f"(id INT, day DATE) PARTITIONED BY (months(day)) {_KEYED}", "not by months(…): store the value in a"),
        (f"(id INT) PARTITIONED BY (bucket(4, id)) {_KEYED}", "TBLPROPERTIES (buckets = '8')"),
        (f"(id INT) CLUSTERED BY (id) INTO 4 BUCKETS {_KEYED}", "TBLPROPERTIES (buckets = '8')"),
        (f"(id INT) CLUSTER BY (id) {_KEYED}", "TBLPROPERTIES (buckets = '8')"),
        (f"(id INT COMMENT 'the key') {_KEYED}", "columns have no comments"),
        (f"(id INT, at ARRAY<STRUCT<x: INT COMMENT 'here'>>) {_KEYED}", "COMMENT of at.element.x"),
        (f"(id INT, n INT DEFAULT 3) {_KEYED}", "default"),
        (f"(id INT, n INT GENERATED ALWAYS AS (id + 1)) {_KEYED}", "generated column"),
        (f"(id INT) USING orc {_KEYED}", "USING chronolake, not USING orc"),
        ("(id INT) TBLPROPERTIES (record_key = 'key')", "key"),
        (
            "(id INT) TBLPROPERTIES (record_key = 'id', type = 'mor')",
            "type is one of copy_on_write, merge_on_read",
        ),
        ("(id INT) TBLPROPERTIES (record_key = 'id', orderingfield = 'id')", "the property ordering_field?"),
        ("(id INT) TBLPROPERTIES (record_key = 'id', bucket = '2')", "the property buckets?"),
        ("(id INT) TBLPROPERTIES (record_key = 'id', preCombineField = 'id')", "the property ordering_field?"),
        ("(id INT) TBLPROPERTIES (primaryKey = 'id')", "the property record_key?"),
        ("(id INT) TBLPROPERTIES (record_key = 'id', partition_fields = 'id')", "PARTITIONED BY"),
        ("(id INT) TBLPROPERTIES (record_key = 'id', index = 'bloom', buckets = '2')", "has none"),
        ("(id INT) TBLPROPERTIES (record_key = 'id', buckets = 'many')", "buckets is a number, not 'many'"),
        ("(id INT) TBLPROPERTIES (record_key = 'id', 'hoodie.clean.policy' = 'x')", "hoodie.clean.policy"),
        (f"(id INT, v VARCHAR(3)) {_KEYED}", "varchar(3)"),
        (f"(id INT, v VARIANT) {_KEYED}", "variant"),
    ],
)
def test_unsupported_definition_is_refused_in_one_line(
    lake: SparkSession, client: chronolake.Client, name: str, location: str, statement: str, advice: str
) -> None:
    refusal = _refusal(lake, f"CREATE TABLE lake.{name} {statement} {location}")
    assert advice in refusal
    assert len(refusal.splitlines()) == 1 and "java" not in refusal, refusal
    assert name.partition(".")[2] not in [table.name for table in client.tables("spark")]


def test_columns_are_altered_as_the_server_allows(
    lake: SparkSession, client: chronolake.Client, made: str
) -> None:
    for change in (
        "ADD COLUMNS (note STRING, place.street STRING)",
        "RENAME COLUMN place.city TO town",
        "ALTER COLUMN count TYPE BIGINT",
        "ALTER COLUMN place.zip TYPE BIGINT",
        "DROP COLUMN note",
        "DROP COLUMN IF EXISTS nothing",
    ):
        lake.sql(f"ALTER TABLE lake.{made} {change}")
    assert [(field.name, field.type) for field in client.table(made).definition.schema] == [
        ("id", "bigint"),
        ("day", "date"),
        ("count", "bigint"),
        ("place", "struct<town:string,zip:bigint,street:string>"),
    ]
    with pytest.raises(PySparkException) as refused:
        lake.sql(f"ALTER TABLE lake.{made} DROP COLUMN id")
    assert refused.value.getCondition() == "incompatible-schema"
    for change, advice in (
        ("ADD COLUMN price DOUBLE FIRST", "leave out FIRST or AFTER of price"),
        ("ADD COLUMN price DOUBLE COMMENT 'euro'", "columns have no comments"),
        ("ADD COLUMN price STRUCT<x: INT COMMENT 'euro'>", "COMMENT of price.x"),
        ("ADD COLUMN price DOUBLE NOT NULL", "price"),
        ("ALTER COLUMN count AFTER id", "keep their order"),
        ("ALTER COLUMN count COMMENT 'n'", "columns have no comments"),
        ("ALTER COLUMN count TYPE DECIMAL(20, 0)", "count"),
        ("RENAME COLUMN id TO key", "id"),
        ("DROP COLUMN day", "day"),
    ):
        refusal = _refusal(lake, f"ALTER TABLE lake.{made} {change}")
        assert advice in refusal
        assert len(refusal.splitlines()) == 1, refusal


def test_required_columns_become_nullable_and_never_the_reverse(
    lake: SparkSession, client: chronolake.Client, name: str, location: str
) -> None:
    lake.sql(f"CREATE TABLE lake.{name} (id INT NOT NULL, n INT NOT NULL) {_KEYED} {location}")
    lake.sql(f"ALTER TABLE lake.{name} ALTER COLUMN n DROP NOT NULL")
    assert [field.nullable for field in client.table(name).definition.schema] == [False, True]
    _refusal(lake, f"ALTER TABLE lake.{name} ALTER COLUMN n SET NOT NULL")


def test_properties_and_names_are_altered(lake: SparkSession, client: chronolake.Client, made: str) -> None:
    lake.sql(
        f"ALTER TABLE lake.{made} SET TBLPROPERTIES ('hoodie.clean.commits.retained' = '5', team = 'shop')"
    )
    lake.sql(f"ALTER TABLE lake.{made} UNSET TBLPROPERTIES IF EXISTS (team, nothing)")
    lake.sql(f"COMMENT ON TABLE lake.{made} IS 'all orders'")
    assert client.table(made).definition.properties == {
        "comment": "all orders",
        "hoodie.clean.commits.retained": "5",
    }
    assert ("buckets", "2") in _rows(lake, f"SHOW TBLPROPERTIES lake.{made}")
    refusals = {
        "SET TBLPROPERTIES (buckets = '8')": "resize_buckets",
        "SET TBLPROPERTIES (type = 'merge_on_read')": "keeps its type",
        "SET TBLPROPERTIES ('hoodie.clean.commits.retaind' = '5')": "hoodie.clean.commits.retained",
        "SET LOCATION '/elsewhere'": "keeps its location",
    }
    for change, advice in refusals.items():
        assert advice in _refusal(lake, f"ALTER TABLE lake.{made} {change}")

    lake.sql(f"ALTER TABLE lake.{made} RENAME TO {made}_renamed")
    assert client.table(f"{made}_renamed").definition.partition_fields == ["day"]
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        lake.sql(f"ALTER TABLE lake.{made} RENAME TO spark.other")
    lake.sql(f"DROP TABLE lake.{made}_renamed")
    lake.sql(f"DROP TABLE IF EXISTS lake.{made}_renamed")
    assert "TABLE_OR_VIEW_NOT_FOUND" in _refusal(lake, f"DROP TABLE lake.{made}_renamed")


def test_described_table_has_its_columns_and_partitions(lake: SparkSession, made: str) -> None:
    described = {row[0]: row[1] for row in lake.sql(f"DESCRIBE EXTENDED lake.{made}").collect()}
    assert (described["id"], described["count"]) == ("bigint", "int")
    assert (described["Provider"], described["# Partition Information"]) == ("chronolake", "")
    assert "record_key=id" in described["Table Properties"]


def test_key_and_partition_columns_may_have_any_name(lake: SparkSession, name: str, location: str) -> None:
    lake.sql(
        f"CREATE TABLE lake.{name} (`a.b` BIGINT, `the day` STRING, `it``s.x` INT) "
        f"PARTITIONED BY (`the day`, `it``s.x`) TBLPROPERTIES (record_key = 'a.b', buckets = '1') {location}"
    )
    lake.sql(f"INSERT INTO lake.{name} VALUES (1, 'x/y=z', 1), (2, null, 2), (3, 'c', 3)")
    lake.sql(f"UPDATE lake.{name} SET `the day` = 'a%b' WHERE `a.b` = 2")
    lake.sql(f"INSERT OVERWRITE lake.{name} PARTITION (`the day` = 'x/y=z', `it``s.x` = 1) VALUES (4)")
    lake.sql(f"INSERT OVERWRITE lake.{name} WITH (partitions = 'dynamic') VALUES (5, 'c', 3)")
    assert _rows(lake, f"SELECT * FROM lake.{name}") == [(2, "a%b", 2), (4, "x/y=z", 1), (5, "c", 3)]

    [(shown,)] = _rows(lake, f"SHOW CREATE TABLE lake.{name}")
    assert "PARTITIONED BY (`the day`, `it``s.x`)" in shown


@pytest.fixture(params=["copy_on_write", "merge_on_read"])
def orders(
    request: pytest.FixtureRequest, lake: SparkSession, new_table: Callable[..., SparkTable]
) -> SparkTable:
    """A table of ten rows in two partitions, of which an update changed one."""
    rows = lake.range(10).selectExpr("id", "concat('d', id % 2) as day", "1 as n")
    table = new_table(rows, "id", type=request.param, partition_fields=["day"], buckets=1)
    table.insert(rows)
    table.upsert(rows.where("id = 3").selectExpr("id", "day", "2 as n"))
    return table


def test_metadata_is_read_as_tables_also_of_the_past(lake: SparkSession, orders: SparkTable) -> None:
    name = f"lake.{orders.name}"
    timeline = lake.sql(
        f"SELECT completion_time, operation, inserts, updates FROM {name}.timeline ORDER BY completed_at"
    ).collect()
    assert [tuple(row)[1:] for row in timeline] == [("insert", 10, 0), ("upsert", 0, 1)]
    assert _rows(
        lake, f"SELECT partition_path, files FROM {name}.partitions VERSION AS OF '{timeline[0][0]}'"
    ) == [
        ("day=d0", 1),
        ("day=d1", 1),
    ]
    logs = 1 if str(orders.definition.type) == "merge_on_read" else 0
    assert _rows(lake, f"SELECT partition_path, log_files FROM {name}.slices") == [
        ("day=d0", 0),
        ("day=d1", logs),
    ]
    [(written,)] = _rows(lake, f"SELECT count(*) FROM {name}.files WHERE completion_time > '{timeline[0][0]}'")
    assert written == 1
    assert _rows(
        lake, f"SELECT name, nullable FROM {name}.schemas WHERE schema_version = 1 AND name = 'n'"
    ) == [("n", False)]
    assert "leave out AS OF" in _refusal(
        lake, f"SELECT * FROM {name}.timeline VERSION AS OF '{timeline[0][0]}'"
    )
    assert "timeline, slices, files" in _refusal(lake, f"SELECT * FROM {name}.nothing")


def test_a_read_by_name_refuses_options_and_takes_the_words_of_times(
    lake: SparkSession, orders: SparkTable
) -> None:
    name = f"lake.{orders.name}"
    for table in (name, f"{name}.files"):
        with pytest.raises(
            IllegalArgumentException, match="has no option 'as_of': name an earlier state by VERSION"
        ):
            lake.read.option("as_of", "earliest").table(table).collect()
    with pytest.raises(IllegalArgumentException, match="no option 'view'"):
        lake.sql(f"SELECT * FROM {name} WITH (view = 'read_optimized')").collect()
    assert lake.read.option("timestampAsOf", "2020-01-01").table(name).count() == 0
    assert _rows(lake, f"SELECT count(*) FROM {name} VERSION AS OF 'earliest'") == [(0,)]
    assert _rows(lake, f"SELECT count(*) FROM {name} VERSION AS OF 'latest'") == [(10,)]
    assert _rows(lake, f"SELECT count(*) FROM {name}.files VERSION AS OF 'earliest'") == [(0,)]


def test_truncate_empties_a_table_in_one_instant(
    lake: SparkSession, client: chronolake.Client, orders: SparkTable
) -> None:
    before = list(client.table(orders.name).instants())
    lake.sql(f"TRUNCATE TABLE lake.{orders.name}")
    assert _rows(lake, f"SELECT count(*) FROM lake.{orders.name}") == [(0,)]
    assert len(list(client.table(orders.name).instants())) == len(before) + 1
    last = before[-1].completion_time
    assert _rows(lake, f"SELECT count(*) FROM lake.{orders.name} VERSION AS OF '{last}'") == [(10,)]
