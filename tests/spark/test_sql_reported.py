"""The faults of ``sql_cases``, which users of Delta Lake, Iceberg, Hudi and others reported, by SQL here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

from chronolake_spark import SparkTable
from chronolake_spark.catalogs import registering
from tests.spark import sql_cases
from tests.spark.sql_cases import Case

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not registering.JAR.exists(), reason="the Java part is not built: there is no JDK"),
]

KINDS = [
    ("copy_on_write", "bucket"),
    ("merge_on_read", "simple"),
    ("merge_on_read", "bucket"),
    ("copy_on_write", "record"),
]


def _parameters() -> list[Any]:
    """Each case in all kinds of tables; ``make test`` runs some, each in one kind."""
    parameters = []
    for number, (name, case) in enumerate(sql_cases.ALL.items()):
        for turn, (type_, index) in enumerate(KINDS):
            marks = [] if case.soon and turn == number % 2 else [pytest.mark.slow]
            parameters.append(pytest.param(name, type_, index, marks=marks, id=f"{name}-{type_}-{index}"))
    return parameters


@pytest.mark.parametrize(("name", "type_", "index"), _parameters())
def test_reported_case(
    lake: SparkSession, new_table: Callable[..., SparkTable], name: str, type_: str, index: str
) -> None:
    case = sql_cases.ALL[name]
    table = _table(lake, new_table, case, type_, index)
    before = {key: lake.conf.get(key) for key in case.settings}
    try:
        for key, value in case.settings.items():
            lake.conf.set(key, value)
        *first, last = (text.replace("{t}", f"lake.{table.name}") for text in case.statements)
        for text in first:
            lake.sql(text)
        if case.refused:
            with pytest.raises(PySparkException, match=case.refused):
                lake.sql(last)
        else:
            lake.sql(last)
        rows = [tuple(row) for row in lake.sql(f"SELECT {case.reads} FROM lake.{table.name}").collect()]
    finally:
        for key, value in before.items():
            lake.conf.set(key, value) if value is not None else lake.conf.unset(key)

    assert sorted(rows, key=str) == sorted(case.expected, key=str)
    assert table.metastore.to_arrow().num_rows == len(case.expected)
    states = {str(instant.state) for instant in table.metastore.instants()}
    assert states <= {"completed", "rolled_back"}


def _table(
    lake: SparkSession, new_table: Callable[..., SparkTable], case: Case, type_: str, index: str
) -> SparkTable:
    """A table of the case with its first rows, which Python writes without Spark."""
    columns = lake.createDataFrame([], case.columns)
    kind: dict[str, Any] = {"buckets": 1} if index == "bucket" else {"index": index}
    table = new_table(columns, case.key, type=type_, partition_fields=list(case.partition), **kind)
    if case.rows:
        names = ", ".join(f"`{name}`" for name in columns.columns)
        casts = [f"CAST(`{field.name}` AS {field.dataType.simpleString()})" for field in columns.schema]
        rows = (
            lake.sql(f"SELECT * FROM VALUES {case.rows} AS v ({names})")
            .selectExpr(*casts)
            .toDF(*columns.columns)
        )
        table.metastore.insert(rows.toArrow())
    return table


@pytest.fixture
def pairs(lake: SparkSession, new_table: Callable[..., SparkTable]) -> SparkTable:
    """A table of the ids 1 to 3, each with its own value."""
    return _table(
        lake, new_table, Case("id long, v int", "(1, 1), (2, 2), (3, 3)", [], []), "copy_on_write", "bucket"
    )


def _read(lake: SparkSession, text: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in lake.sql(text).collect())


def test_cached_queries_of_a_table_are_read_anew_after_each_statement(
    lake: SparkSession, pairs: SparkTable
) -> None:
    """Iceberg #1485: Spark keeps a query's rows, and must forget them when its table changes."""
    name = f"lake.{pairs.name}"
    lake.sql(f"CREATE OR REPLACE TEMPORARY VIEW large AS SELECT id FROM {name} WHERE v > 1")
    for cached in ("large", name):
        lake.sql(f"CACHE TABLE {cached}")
    try:
        assert _read(lake, "SELECT * FROM large") == [(2,), (3,)]
        assert _read(lake, f"SELECT count(*) FROM {name}") == [(3,)]
        lake.sql(f"DELETE FROM {name} WHERE id = 3")
        assert _read(lake, "SELECT * FROM large") == [(2,)]
        assert _read(lake, f"SELECT count(*) FROM {name}") == [(2,)]
        lake.sql(f"INSERT INTO {name} VALUES (4, 4)")
        assert _read(lake, "SELECT * FROM large") == [(2,), (4,)]
        # The cached rows are the source of a change of their own table.
        lake.sql(f"MERGE INTO {name} t USING large s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = 0")
        assert _read(lake, "SELECT * FROM large") == []
        assert _read(lake, f"SELECT * FROM {name}") == [(1, 1), (2, 0), (4, 0)]
    finally:
        for cached in ("large", name):
            lake.sql(f"UNCACHE TABLE IF EXISTS {cached}")


def test_a_frame_that_reads_the_target_is_not_lost_by_a_merge(lake: SparkSession, pairs: SparkTable) -> None:
    """Iceberg #7863: a frame of rows that are not in the target was empty after the MERGE of it."""
    source = lake.createDataFrame([(3, 30), (4, 40)], "id long, v int")
    new = source.join(lake.table(f"lake.{pairs.name}").select("id"), "id", "left_anti")
    assert new.collect() == [(4, 40)]
    new.createOrReplaceTempView("new_rows")
    lake.sql(f"MERGE INTO lake.{pairs.name} t USING new_rows s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *")
    assert _read(lake, f"SELECT * FROM lake.{pairs.name}") == [(1, 1), (2, 2), (3, 3), (4, 40)]
    assert new.collect() in ([(4, 40)], [])


def test_a_source_that_differs_each_time_it_is_read_is_refused(lake: SparkSession, pairs: SparkTable) -> None:
    """Delta #527: a source that is read twice, and differs, left two rows of one key."""
    lake.range(20).selectExpr("id", "CAST(rand() * 100 AS int) AS v").createOrReplaceTempView("random_rows")
    with pytest.raises(AnalysisException, match="INVALID_NON_DETERMINISTIC_EXPRESSIONS"):
        lake.sql(
            f"MERGE INTO lake.{pairs.name} t USING random_rows s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )


@pytest.mark.slow
def test_statements_after_changes_of_the_columns(
    lake: SparkSession, new_table: Callable[..., SparkTable]
) -> None:
    """Hudi #10558, and others: rows of older columns are changed after columns came, went and grew."""
    case = Case("id long, v int, gone string", "(1, 1, 'x'), (2, 2, 'y'), (3, 3, 'z')", [], [])
    table = _table(lake, new_table, case, "merge_on_read", "bucket")
    name = f"lake.{table.name}"
    for change in (
        "ADD COLUMN s STRING",
        "ALTER COLUMN v TYPE BIGINT",
        "DROP COLUMN gone",
        "RENAME COLUMN v TO w",
    ):
        lake.sql(f"ALTER TABLE {name} {change}")
        lake.sql(f"UPDATE {name} SET id = id WHERE id = 1")
    lake.sql(f"ALTER TABLE {name} ADD COLUMN gone INT")
    lake.sql(
        f"MERGE INTO {name} t USING (SELECT * FROM VALUES (2, 5000000000, 'b', 7), (4, 4, 'd', null) "
        "AS v (id, w, s, gone)) s "
        "ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    lake.sql(f"UPDATE {name} SET s = 'c' WHERE gone IS NULL AND w = 3")
    assert sorted(_read(lake, f"SELECT id, w, s, gone FROM {name}"), key=str) == [
        (1, 1, None, None),
        (2, 5_000_000_000, "b", 7),
        (3, 3, "c", None),
        (4, 4, "d", None),
    ]
