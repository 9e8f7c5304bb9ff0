"""DELETE, UPDATE and MERGE INTO by SQL: an oracle in dicts, and cases of Delta Lake's and Iceberg's tests."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import IllegalArgumentException, PySparkException
from pyspark.sql import SparkSession

import chronolake
import chronolake_spark
from chronolake.errors import WriteConflict
from chronolake_model.vocabulary import Operation
from chronolake_spark import SparkTable
from chronolake_spark.catalogs import registering
from chronolake_spark.write import row_changes
from chronolake_spark.write.row_changes import StagedStatement
from chronolake_spark.write.staged_changes import StagedRows

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not registering.JAR.exists(), reason="the Java part is not built: there is no JDK"),
]

NewTable = Callable[..., SparkTable]
Row = tuple[int, str | None, int | None]
KINDS = [
    ("copy_on_write", "bucket"),
    ("merge_on_read", "record"),
    pytest.param("merge_on_read", "bucket", marks=pytest.mark.slow),
    pytest.param("copy_on_write", "simple", marks=pytest.mark.slow),
    pytest.param("merge_on_read", "simple", marks=pytest.mark.slow),
    pytest.param("copy_on_write", "record", marks=pytest.mark.slow),
]


def using(values: str, names: str = "id, day, v") -> str:
    """The rows as the source ``s`` of a MERGE INTO the target ``t``."""
    return f"MERGE INTO {{t}} t USING (SELECT * FROM VALUES {values} AS s ({names})) AS s "


@dataclasses.dataclass
class Target:
    """A table of ids, days, which are its partitions, and values."""

    lake: SparkSession
    table: SparkTable

    @property
    def name(self) -> str:
        return f"lake.{self.table.name}"

    def run(self, statement: str) -> None:
        self.lake.sql(statement.format(t=self.name))

    def rows(self) -> list[Row]:
        rows = [tuple(row) for row in self.lake.sql(f"SELECT * FROM {self.name}").collect()]
        assert sorted(map(str, rows)) == sorted(str(tuple(row)) for row in self.table.read().collect())
        return sorted(rows, key=lambda row: (row[0], row[1] or ""))

    def files(self) -> set[str]:
        base_path = Path(self.table.definition.base_path)
        return {path.name for path in base_path.rglob("*.parquet") if ".hoodie" not in path.parts}

    def pending(self) -> list[str]:
        states = [str(instant.state) for instant in self.table.metastore.instants()]
        return [state for state in states if state not in ("completed", "rolled_back")]


@pytest.fixture
def new_target(lake: SparkSession, new_table: NewTable) -> Callable[..., Target]:
    """Makes a target with rows."""

    def make(type_: str, index: str, *rows: Row, **how: Any) -> Target:
        frame = lake.createDataFrame(list(rows), "id long, day string, v int")
        kind: dict[str, Any] = {"buckets": 2} if index == "bucket" else {"index": index}
        table = new_table(frame, "id", type=type_, partition_fields=["day"], **kind, **how)
        if rows:
            table.insert(frame)
        return Target(lake, table)

    return make


@pytest.mark.parametrize(("type_", "index"), KINDS)
def test_statements_change_what_they_say(new_target: Callable[..., Target], type_: str, index: str) -> None:
    rows = [(number, "ab"[number % 2], number) for number in range(6)]
    target = new_target(type_, index, *rows)

    target.run("DELETE FROM {t} WHERE id IN (0, 1) OR v IS NULL")
    target.run("UPDATE {t} SET v = v * 10 WHERE day = 'a'")
    assert target.rows() == [(2, "a", 20), (3, "b", 3), (4, "a", 40), (5, "b", 5)]

    # The record moves to another partition, and another one gets another key.
    target.run("UPDATE {t} SET day = 'c', v = v + 1 WHERE id = 2")
    target.run("UPDATE {t} SET id = 30 WHERE id = 3")
    assert target.rows() == [(2, "c", 21), (4, "a", 40), (5, "b", 5), (30, "b", 3)]

    # Keys are exchanged; a key that another record has is refused, and nothing is written.
    target.run("UPDATE {t} SET id = CASE id WHEN 5 THEN 30 ELSE 5 END WHERE id IN (5, 30)")
    with pytest.raises(PySparkException, match="a record the key of another"):
        target.run("UPDATE {t} SET id = 5 WHERE id = 30")
    assert target.rows() == [(2, "c", 21), (4, "a", 40), (5, "b", 3), (30, "b", 5)]

    target.run(
        using("(2, 'x', 200), (4, 'a', null), (7, 'a', 7), (8, null, 8)")
        + "ON t.id = s.id WHEN MATCHED AND s.v IS NULL THEN DELETE WHEN MATCHED THEN UPDATE SET v = s.v + t.v "
        "WHEN NOT MATCHED THEN INSERT * WHEN NOT MATCHED BY SOURCE AND t.v = 5 THEN DELETE"
    )
    assert target.rows() == [(2, "c", 221), (5, "b", 3), (7, "a", 7), (8, None, 8)]
    assert target.pending() == []


@pytest.mark.parametrize(("type_", "index"), KINDS)
def test_random_statements_have_the_results_of_the_oracle(
    new_target: Callable[..., Target], type_: str, index: str
) -> None:
    chance = random.Random(f"{type_} {index}")
    expected: dict[int, Row] = {number: (number, chance.choice("ab"), number) for number in range(12)}
    target = new_target(type_, index, *expected.values())
    for step in range(4):
        remainder, divisor = chance.randrange(3), chance.choice([2, 3])
        chosen = {key for key in expected if key % divisor == remainder}
        where = f"pmod(id, {divisor}) = {remainder}"
        match ("delete", "update", "merge")[(step + chance.randrange(2)) % 3]:
            case "delete":
                target.run(f"DELETE FROM {{t}} WHERE {where}")
                expected = {key: row for key, row in expected.items() if key not in chosen}
            case "update":
                target.run(f"UPDATE {{t}} SET day = concat(day, '{step}'), v = {step} WHERE {where}")
                expected |= {key: (key, f"{expected[key][1]}{step}", step) for key in chosen}
            case _:
                source = {key: (key, "m", key * step) for key in chance.sample(range(20), 8)}
                values = ", ".join(map(str, source.values()))
                target.run(
                    using(values) + "ON t.id = s.id "
                    "WHEN MATCHED AND s.id % 4 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET * "
                    "WHEN NOT MATCHED THEN INSERT *"
                )
                gone = {key for key in source if key in expected and key % 4 == 0}
                merged = expected | source
                expected = {key: row for key, row in merged.items() if key not in gone}
        assert target.rows() == sorted(expected.values())


_SOURCE = using("(1, 'a', 10), (2, 'a', 20), (9, 'b', 90)")
_CASES: dict[str, tuple[list[Row], str, list[Row] | str]] = {
    "Iceberg TestMerge.testMergeIntoEmptyTargetInsertAllNonMatchingRows": (
        [],
        _SOURCE + "ON t.id = s.id WHEN NOT MATCHED THEN INSERT *",
        [(1, "a", 10), (2, "a", 20), (9, "b", 90)],
    ),
    "Iceberg TestMerge.testMergeWithOnlyUpdateClause": (
        [(1, "a", 1), (3, "a", 3)],
        _SOURCE + "ON t.id = s.id WHEN MATCHED THEN UPDATE SET *",
        [(1, "a", 10), (3, "a", 3)],
    ),
    "Iceberg TestMerge.testMergeWithUnconditionalDelete": (
        [(1, "a", 1), (3, "a", 3)],
        _SOURCE + "ON t.id = s.id WHEN MATCHED THEN DELETE "
        "WHEN NOT MATCHED AND s.id = 9 THEN INSERT (id, day) VALUES (s.id, 'n')",
        [(3, "a", 3), (9, "n", None)],
    ),
    "Iceberg TestMerge.testMergeWithMultipleNotMatchedActions": (
        [(1, "a", 1)],
        _SOURCE + "ON t.id = s.id WHEN NOT MATCHED AND s.id = 2 THEN INSERT "
        "(id, day, v) VALUES (s.id, s.day, -1) WHEN NOT MATCHED THEN INSERT *",
        [(1, "a", 1), (2, "a", -1), (9, "b", 90)],
    ),
    "Iceberg TestMerge.testMergeWithNullsInTargetAndSource": (
        [(1, "a", None), (2, "b", 20)],
        using("(5, 'a', CAST(null AS int)), (6, 'b', 20)") + "ON t.v = s.v "
        "WHEN MATCHED THEN UPDATE SET v = 21 WHEN NOT MATCHED THEN INSERT *",
        [(1, "a", None), (2, "b", 21), (5, "a", None)],
    ),
    "Iceberg TestMerge.testMergeWithNullSafeEquals": (
        [(1, "a", None), (2, "b", 20)],
        using("(5, 'a', CAST(null AS int)), (6, 'b', 20)") + ""
        "ON t.v <=> s.v WHEN MATCHED THEN UPDATE SET v = 21 WHEN NOT MATCHED THEN INSERT *",
        [(1, "a", 21), (2, "b", 21)],
    ),
    "Iceberg TestMerge.testSelfMerge": (
        [(1, "a", 1), (2, "a", 2)],
        "MERGE INTO {t} t USING {t} s ON t.id = s.id WHEN MATCHED AND t.id = 1 THEN UPDATE SET v = t.v + s.v "
        "WHEN MATCHED THEN DELETE",
        [(1, "a", 2)],
    ),
    "Iceberg TestMerge.testMergeWithMultipleUpdatesForTargetRow": (
        [(1, "a", 1)],
        using("(1, 10), (1, 20)", "id, v") + "ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v",
        "MERGE_CARDINALITY_VIOLATION",
    ),
    "Delta MergeIntoSuiteBase: not matched by source, update and delete": (
        [(1, "a", 1), (3, "a", 3), (4, "b", 4)],
        _SOURCE + "ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v "
        "WHEN NOT MATCHED BY SOURCE AND t.id = 3 THEN UPDATE SET v = -3 WHEN NOT MATCHED BY SOURCE THEN DELETE",
        [(1, "a", 10), (3, "a", -3)],
    ),
    "Delta MergeIntoSuiteBase: extended syntax - nothing to do": (
        [(1, "a", 1)],
        _SOURCE + "ON t.id = s.id WHEN MATCHED AND false THEN DELETE",
        [(1, "a", 1)],
    ),
    "Delta MergeIntoSuiteBase: insert the same key twice": (
        [(1, "a", 1)],
        using("(2, 'a', 1), (2, 'a', 2)") + "ON t.id = s.id WHEN NOT MATCHED THEN INSERT *",
        "a record key that the table, or an earlier row",
    ),
    "Delta MergeIntoSuiteBase: insert a key that the condition does not compare": (
        [(1, "a", 1)],
        using("(1, 'a', 5)") + "ON t.v = s.v WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *",
        "a record the key of another",
    ),
    "Delta UpdateSuiteBase: update with a subquery of the table": (
        [(1, "a", 1), (2, "a", 2)],
        "UPDATE {t} SET v = 0 WHERE v = (SELECT max(v) FROM {t})",
        [(1, "a", 1), (2, "a", 0)],
    ),
    "Delta DeleteSuiteBase: delete with a correlated EXISTS": (
        [(1, "a", 1), (2, "a", 2)],
        "DELETE FROM {t} t WHERE EXISTS (SELECT 1 FROM VALUES (2) AS s (id) WHERE s.id = t.id)",
        [(1, "a", 1)],
    ),
}


@pytest.mark.parametrize("case", _CASES)
def test_published_case(new_target: Callable[..., Target], case: str) -> None:
    before, statement, expected = _CASES[case]
    number = list(_CASES).index(case)
    type_, index = (("copy_on_write", "bucket"), ("merge_on_read", "simple"))[number % 2]
    target = new_target(type_, index, *before)
    if isinstance(expected, str):
        with pytest.raises(PySparkException, match=expected):
            target.run(statement)
        expected = before
    else:
        target.run(statement)
    assert target.rows() == expected
    assert target.pending() == []


def test_a_session_may_begin_with_an_update(
    new_target: Callable[..., Target], lake: SparkSession, client: chronolake.Client
) -> None:
    target = new_target("copy_on_write", "bucket", (1, "a", 1))
    session = lake.newSession()
    chronolake_spark.catalog(session, "lake", client.url)
    session.sql(f"UPDATE {target.name} SET v = 2")
    assert target.rows() == [(1, "a", 2)]


def test_a_failed_statement_changes_nothing_and_leaves_no_file(new_target: Callable[..., Target]) -> None:
    target = new_target("copy_on_write", "bucket", (1, "a", 1), (2, "b", 2))
    before = target.files()

    with pytest.raises(PySparkException, match="not this one"):
        target.run("UPDATE {t} SET v = IF(id = 2, raise_error('not this one'), 5)")
    for refused in ("id = NULL", "day = ''"):
        with pytest.raises(IllegalArgumentException, match="null") as refusal:
            target.run(f"UPDATE {{t}} SET {refused} WHERE id = 2")
        assert "Traceback" not in str(refusal.value) and "[chronolake:" not in str(refusal.value)
    target.run("DELETE FROM {t} WHERE v > 100")

    assert target.files() == before
    assert target.rows() == [(1, "a", 1), (2, "b", 2)]
    assert target.pending() == []


@pytest.mark.parametrize("index", ["bucket", "simple"])
def test_a_change_after_the_read_is_a_conflict_if_it_has_the_rows(
    new_target: Callable[..., Target], index: str
) -> None:
    target = new_target("copy_on_write", index, (1, "a", 1), (2, "b", 2))
    table = target.table.metastore
    read = table.snapshot()
    target.run("UPDATE {t} SET v = 10 WHERE id = 1")
    now = table.snapshot().as_of
    assert read.as_of is not None
    assert now is not None

    def staged(day: str) -> StagedStatement:
        groups = [(slice_.partition_path, slice_.file_id) for slice_ in read.slices]
        rows = StagedRows(groups=[group for group in groups if group[0] == f"day={day}"])
        return StagedStatement(table.definition, read.as_of or "", Operation.UPSERT, [rows])

    with pytest.raises(WriteConflict, match="run the statement again"):
        row_changes.live_slices(table, now, staged("a"))
    assert [slice_.partition_path for slice_ in row_changes.live_slices(table, now, staged("b"))] == ["day=b"]
