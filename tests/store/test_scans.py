from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import psycopg
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from chronolake import Filter, col
from chronolake_metastore.domain import pruning
from chronolake_metastore.domain.column_stats import Range
from chronolake_metastore.domain.partition_pruning import PartitionSet, prune, residual
from chronolake_metastore.domain.pruning import Stats
from chronolake_metastore.settings import Settings
from chronolake_metastore.store import file_streams, partitions, scans
from chronolake_metastore.store.files import GroupKey
from chronolake_metastore.store.postgres.engine import Database
from chronolake_model.filters import Compare, ComparisonOperator, Or
from chronolake_model.times import Micros
from tests import records
from tests.examples import examples
from tests.records import PARTITIONS, TABLE, TYPES

AS_OF: Final = Micros(2_000_000)
SLICES: Final = 80
PATHS: Final = sorted(records.partition_path(records.record(random.Random(seed))) for seed in range(5))
OWN: Final = tuple(name for name in TYPES if name not in PARTITIONS)


class PrunedTable:
    """A table with slices of one file and of several, of which more or less is known."""

    def __init__(self, dsn: str) -> None:
        self.slices: dict[GroupKey, list[Stats]] = {}
        self._database = Database(Settings(dsn=dsn))
        self._runner = asyncio.Runner()
        chance = random.Random(7)
        for number in range(SLICES):
            files = [_stats(chance) for _ in range(chance.choice([1, 1, 1, 2, 3]))]
            self.slices[PATHS[number % len(PATHS)], f"{number:04d}"] = files
        with psycopg.connect(dsn, options="-c search_path=chronolake") as connection:
            for key, files in self.slices.items():
                for index, known in enumerate(files):
                    connection.execute(_INSERT, _row(key, index, known))

    def kept(
        self,
        wanted: Filter | None,
        paths: Sequence[str] | None = None,
        after: GroupKey = ("", ""),
        limit: int = SLICES,
        at_once: int = 10,
    ) -> list[GroupKey]:
        """The slices that the SQL keeps, in its order."""

        async def read_groups() -> list[GroupKey]:
            async with self._database.reading() as connection:
                sets = sets_of(wanted, paths)
                return await scans.groups(
                    connection, TABLE.table_id, AS_OF, sets, after, limit, at_once=at_once
                )

        return self._runner.run(read_groups())

    def streamed(self, wanted: Filter | None, paths: Sequence[str] | None = None) -> list[tuple[str, ...]]:
        """Partition path, file id and name of each file in the Arrow stream, in its order."""

        async def read_stream() -> bytes:
            sets = sets_of(wanted, paths)
            stream = file_streams.snapshot(self._database, TABLE.table_id, AS_OF, sets, {})
            async with stream.opened("127.0.0.1") as messages:
                return b"".join([message async for message in messages])

        arrow_table = pa.ipc.open_stream(self._runner.run(read_stream())).read_all()
        return list(
            zip(*(arrow_table[name].to_pylist() for name in ("partition_path", "file_id", "path")), strict=True)
        )

    def files(self, groups: Sequence[GroupKey]) -> list[tuple[str, ...]]:
        """The same of all files of these groups."""
        return [
            (*key, f"{key[0]}/{name}")
            for key in groups
            for name in sorted(f"f{index}" for index in range(len(self.slices[key])))
        ]

    def expected(self, wanted: Filter) -> list[GroupKey]:
        """The slices that the rule keeps, in order."""
        condition = pruning.check(TABLE, wanted)

        def is_kept(path: str, files: Sequence[Stats]) -> bool:
            left = residual(condition, TABLE, path)
            return left if isinstance(left, bool) else pruning.slice_could_match(left, files)

        return sorted(key for key, files in self.slices.items() if is_kept(key[0], files))

    def partitions(self, first: str) -> list[str]:
        async def read_paths() -> list[str]:
            async with self._database.reading() as connection:
                return await partitions.paths(connection, TABLE.table_id, first)

        return self._runner.run(read_paths())

    def close(self) -> None:
        self._runner.run(self._database.close())
        self._runner.close()


def sets_of(wanted: Filter | None, paths: Sequence[str] | None) -> list[PartitionSet]:
    """The partitions that could match, of all unless ``paths`` are given, with their residuals."""
    if wanted is None:
        return [PartitionSet(None if paths is None else tuple(paths))]
    return prune(pruning.check(TABLE, wanted), TABLE, PATHS if paths is None else paths)


_INSERT: Final = """
    INSERT INTO file (
        table_id, version, ordinal, partition_path, file_id, requested_time, file_name, kind, size_bytes,
        records, completion_time, live_from, superseded_at, column_stats, schema_version
    )
    SELECT
        %(table_id)s, 1, %(ordinal)s, %(partition_path)s, %(file_id)s, %(time)s, %(file_name)s, %(kind)s, 1,
        %(records)s, %(time)s, %(time)s, %(superseded_at)s, stats_by_column(%(column_stats)s), 1
"""


def _row(key: GroupKey, index: int, known: Stats) -> dict[str, Any]:
    """A file, whose stats may be unknown. Every second group is superseded after ``AS_OF``."""
    partition_path, file_id = key
    stats = [[field_id, *_written(bounds)] for field_id, bounds in known.ranges.items()]
    return {
        "table_id": TABLE.table_id,
        "ordinal": 10 * int(file_id) + index,
        "partition_path": partition_path,
        "file_id": file_id,
        "file_name": f"f{index}",
        "kind": "log" if index else "base",
        "records": known.records,
        "column_stats": json.dumps(stats) if stats else None,
        "time": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
        "superseded_at": datetime(1970, 1, 1, 0, 0, 3, tzinfo=UTC) if int(file_id) % 2 else None,
    }


def _written(bounds: Range) -> list[Any]:
    return [records.literal(bounds.least), records.literal(bounds.greatest), bounds.nulls]


def _stats(chance: random.Random) -> Stats:
    rows = [records.record(chance) for _ in range(chance.choice([1, 1, 2, 3]))]
    return records.vague(records.stats(rows), chance) if chance.random() < 0.95 else Stats(len(rows), {})


@pytest.fixture(scope="module")
def pruned(shared_dsn: str) -> Iterator[PrunedTable]:
    made = PrunedTable(shared_dsn)
    yield made
    made.close()


@settings(max_examples=examples(400))
@given(wanted=records.filters())
def test_the_sql_keeps_the_same_files_as_the_rule(pruned: PrunedTable, wanted: Filter) -> None:
    assert pruned.kept(wanted) == pruned.expected(wanted)


@settings(max_examples=examples(200))
@given(
    wanted=st.none() | records.filters(),
    limit=st.integers(1, SLICES + 1),
    at_once=st.integers(1, SLICES + 1),
    start=st.integers(0, SLICES - 1),
)
def test_a_page_has_the_first_matching_slices_for_any_batch_size(
    pruned: PrunedTable, wanted: Filter | None, limit: int, at_once: int, start: int
) -> None:
    after = sorted(pruned.slices)[start]
    expected = [
        key for key in (sorted(pruned.slices) if wanted is None else pruned.expected(wanted)) if key > after
    ]

    assert pruned.kept(wanted, None, after, limit, at_once) == expected[:limit]


@settings(max_examples=examples(150))
@given(wanted=records.filters())
def test_the_stream_has_all_files_of_the_same_slices(pruned: PrunedTable, wanted: Filter) -> None:
    assert pruned.streamed(wanted) == pruned.files(pruned.kept(wanted))


@pytest.mark.parametrize(
    "wanted",
    [
        col("name") > "it's; --\\' %s %(x)s {0} \n $1",
        ~col("name").is_in(["%", "\\", "{}", '"', "'", ","]),
        col("name").starts_with("\\'%"),
        col("id").is_in(range(100, 1_099)),
    ],
)
def test_no_value_means_anything_in_the_text_of_the_stream(pruned: PrunedTable, wanted: Filter) -> None:
    assert pruned.streamed(wanted) == pruned.files(pruned.kept(wanted))


def test_a_stream_has_the_partitions_that_are_wanted(pruned: PrunedTable) -> None:
    assert pruned.streamed(None) == pruned.files(sorted(pruned.slices))
    for paths in (PATHS[1:2], [PATHS[1], PATHS[3], "no{ne}"], ["it's"], []):
        assert pruned.streamed(None, paths) == pruned.files(pruned.kept(None, paths))


@pytest.mark.parametrize("column", OWN)
@pytest.mark.parametrize("operator", ["=", "!=", "<", "<=", ">", ">="])
def test_every_value_of_every_type_can_be_compared(pruned: PrunedTable, column: str, operator: str) -> None:
    compared = [] if column == "tags" else [records.literal(value) for value in records.VALUES[column]]
    for value in compared:
        wanted = Compare(column, ComparisonOperator(operator), value)
        assert pruned.kept(wanted) == pruned.expected(wanted)


def test_the_largest_filter_is_answered(pruned: PrunedTable) -> None:
    assert len(pruned.kept(col("id").is_in(range(100, 1_100)))) < SLICES
    assert len(pruned.kept(Or([col("id") == number for number in range(100, 1_099)]))) < SLICES
    assert len(pruned.kept(Or([col("id") < -number for number in range(100, 1_099)]))) < SLICES


def test_slices_come_in_order_from_the_partitions_that_are_wanted(pruned: PrunedTable) -> None:
    assert pruned.kept(None) == sorted(pruned.slices)
    wanted = [PATHS[1], PATHS[3]]
    assert {path for path, _ in pruned.kept(None, [*wanted, "none"])} == set(wanted)
    assert pruned.kept(None, []) == []
    last = PATHS[2], "0012"
    assert pruned.kept(None, None, last) == sorted(key for key in pruned.slices if key > last)


def test_each_partition_is_listed_once(pruned: PrunedTable) -> None:
    assert pruned.partitions("") == PATHS
    assert pruned.partitions(PATHS[2]) == PATHS[2:]
    assert pruned.partitions("zz") == []
