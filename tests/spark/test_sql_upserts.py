"""MERGE INTO that is an upsert: Spark writes its source, and joins nothing."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from chronolake_spark import SparkTable
from chronolake_spark.catalogs import registering

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not registering.JAR.exists(), reason="the Java part is not built: there is no JDK"),
]

NewTable = Callable[..., SparkTable]
_COLUMNS = "id long, day string, v int, ts int"
_ALL = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
_ROWS = "(1L, 'a', 10, 1), (2L, 'b', 20, 1)"


def _source(rows: str = _ROWS) -> str:
    return f"(SELECT * FROM VALUES {rows} AS v (id, day, v, ts)) s"


def _is_upsert(lake: SparkSession, statement: str) -> bool:
    [[plan]] = lake.sql(f"EXPLAIN {statement}").collect()
    return "AppendDataExecV1" in plan and "Join" not in plan


@pytest.fixture
def new(lake: SparkSession, new_table: NewTable) -> Callable[..., str]:
    """Makes a table, and gives its name in the catalog."""

    def make(index: str, *partition: str, schema: str = _COLUMNS, **how: Any) -> str:
        kind: dict[str, Any] = {"buckets": 2} if index == "bucket" else {"index": index}
        frame = lake.createDataFrame([], schema)
        return f"lake.{new_table(frame, 'id', partition_fields=list(partition), **kind, **how).name}"

    return make


def test_a_merge_is_an_upsert_if_it_stores_each_row_of_its_source_whole(
    lake: SparkSession, new: Callable[..., str]
) -> None:
    name = new("bucket", schema=_COLUMNS.replace("id long", "id long not null"))
    by_id = f"MERGE INTO {name} t USING {_source()} ON t.id = s.id "
    values = "(s.id, s.day, s.v + 1, s.ts)"
    insert = f"WHEN NOT MATCHED THEN INSERT (id, day, v, ts) VALUES {values}"
    upserts = [
        by_id + _ALL,
        by_id.replace("t.id = s.id", "s.id <=> t.id") + _ALL,
        # The key is the same, and the other columns get the same values.
        by_id + f"WHEN MATCHED THEN UPDATE SET day = s.day, v = s.v + 1, ts = s.ts {insert}",
        by_id.replace(_source(), f"(SELECT id, day, v, ts FROM {_source()} WHERE v > 5 ORDER BY ts LIMIT 9) s")
        + _ALL,
        by_id.replace(_source(), f"(SELECT * FROM {name} VERSION AS OF '20200101000000000') s") + _ALL,
    ]
    others = [
        by_id + "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED AND s.v > 5 THEN INSERT *",
        by_id + "WHEN MATCHED AND t.v < s.v THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        by_id + "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *",
        by_id + "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED BY SOURCE THEN DELETE",
        by_id + _ALL + " WHEN NOT MATCHED BY SOURCE THEN DELETE",
        by_id + "WHEN MATCHED THEN UPDATE SET *",
        by_id + "WHEN MATCHED AND s.v = 1 THEN DELETE " + _ALL,
        by_id + f"WHEN MATCHED THEN UPDATE SET v = t.v + 1 {insert}",
        by_id + f"WHEN MATCHED THEN UPDATE SET day = s.day, v = s.v, ts = s.ts {insert}",
        by_id + f"WHEN MATCHED THEN UPDATE SET v = s.v + 1 {insert}",
        by_id + f"WHEN MATCHED THEN UPDATE SET * {insert.replace('s.id,', 's.id + 1,')}",
        by_id.replace("ON", "ON t.day = 'a' AND") + _ALL,
        by_id.replace("ON", "ON s.day = 'a' AND") + _ALL,
        by_id.replace("ON", "ON t.day = s.day AND") + _ALL,
        by_id.replace("t.id = s.id", "t.v = s.v") + _ALL,
        by_id.replace("t.id = s.id", "t.id = s.v") + _ALL,
        # They must be of the state that the source has read.
        by_id.replace(_source(), f"(SELECT id, day, v + 1 AS v, ts FROM {name}) s") + _ALL,
        by_id.replace(_source(), f"(SELECT id, day, v, (SELECT max(ts) FROM {name}) ts FROM {_source()}) s")
        + _ALL,
    ]
    assert [statement for statement in upserts if not _is_upsert(lake, statement)] == []
    assert [statement for statement in others if _is_upsert(lake, statement)] == []


def test_of_a_partitioned_table_the_partition_must_match_too(
    lake: SparkSession, new: Callable[..., str]
) -> None:
    def found(name: str, on: str) -> bool:
        return _is_upsert(lake, f"MERGE INTO {name} t USING {_source()} ON {on} {_ALL}")

    name = new("bucket", "day")
    assert not found(name, "t.id = s.id")
    assert found(name, "t.id = s.id AND t.day <=> s.day")
    # Literals are never null: a null would match nothing.
    assert found(name, "t.day = s.day AND t.id = s.id")
    lake.createDataFrame([(1, None, 2, 3)], _COLUMNS).createOrReplaceTempView("with_null")
    with_null = f"MERGE INTO {name} t USING with_null s ON t.id = s.id AND t.day = s.day {_ALL}"
    assert not _is_upsert(lake, with_null)
    required = new("bucket", "day", schema=_COLUMNS.replace("day string", "day string not null"))
    assert _is_upsert(lake, with_null.replace(name, required))
    assert not found(new("record", "day"), "t.id = s.id AND t.day <=> s.day")
    assert found(new("record"), "t.id = s.id")


@pytest.mark.parametrize(
    ("type_", "index", "ordering"),
    [
        ("copy_on_write", "bucket", None),
        ("merge_on_read", "bucket", "ts"),
        pytest.param("merge_on_read", "simple", "ts", marks=pytest.mark.slow),
        pytest.param("copy_on_write", "simple", "ts", marks=pytest.mark.slow),
        pytest.param("copy_on_write", "bloom", None, marks=pytest.mark.slow),
        pytest.param("merge_on_read", "bloom", None, marks=pytest.mark.slow),
        pytest.param("copy_on_write", "record", None, marks=pytest.mark.slow),
        pytest.param("merge_on_read", "record", "ts", marks=pytest.mark.slow),
    ],
)
def test_an_upsert_stores_what_the_join_does(
    lake: SparkSession, new: Callable[..., str], type_: str, index: str, ordering: str | None
) -> None:
    chance = random.Random(f"{type_} {index}")
    partition = () if index == "record" else ("day",)
    on = "t.id = s.id" + (" AND t.day <=> s.day" if partition else "")
    how = {"type": type_, "ordering_field": ordering} if ordering else {"type": type_}
    joined, upserted = (new(index, *partition, **how) for _ in range(2))
    for step in range(3):
        rows = [
            (id, chance.choice(["a", "b", None]) if partition else "a", step, chance.randrange(4))
            for id in chance.sample(range(12), 7)
        ]
        lake.createDataFrame(rows, _COLUMNS).createOrReplaceTempView("changes")
        always = _ALL.replace("MATCHED", "MATCHED AND s.id >= 0", 1)
        statements = [
            f"MERGE INTO {name} t USING changes s ON {on} {clauses}"
            for name, clauses in ((joined, always), (upserted, _ALL))
        ]
        assert [_is_upsert(lake, statement) for statement in statements] == [False, True]
        for statement in statements:
            lake.sql(statement)
        shown = [sorted(map(str, lake.sql(f"SELECT * FROM {name}").collect())) for name in (joined, upserted)]
        assert shown[0] == shown[1]
        assert len(shown[0]) >= 7
        for name in (joined, upserted):
            lake.sql(f"DELETE FROM {name} WHERE id % 4 = {step}")


@pytest.mark.parametrize(
    "index", ["bucket", *(pytest.param(index, marks=pytest.mark.slow) for index in ("simple", "record"))]
)
def test_two_rows_of_one_key_are_refused(lake: SparkSession, new: Callable[..., str], index: str) -> None:
    name = new(index)
    lake.sql(f"INSERT INTO {name} VALUES (1, 'a', 1, 1)")
    for twice in ("(1L, 'a', 2, 2), (1L, 'a', 3, 3)", "(5L, 'a', 2, 2), (5L, 'a', 2, 2)"):
        with pytest.raises(
            PySparkException, match="rows of the source change or insert the record with the key"
        ):
            lake.sql(f"MERGE INTO {name} t USING {_source(twice)} ON t.id = s.id {_ALL}")
    assert [tuple(row) for row in lake.sql(f"SELECT * FROM {name}").collect()] == [(1, "a", 1, 1)]
