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
from hypothesis import given, settings

from chronolake import Filter, col
from chronolake_metastore.domain import pruning
from chronolake_metastore.domain.column_stats import Range
from chronolake_metastore.domain.pruning import Stats
from chronolake_metastore.settings import Settings
from chronolake_metastore.store import file_streams, scans
from chronolake_metastore.store.engine import Database
from chronolake_metastore.store.files import GroupKey
from chronolake_model.filters import Compare, ComparisonOperator, Or
from chronolake_model.times import Micros
from tests import records
from tests.records import PARTITIONS, TABLE, TYPES

AS_OF: Final = Micros(2_000_000)
SLICES: Final = 80
OWN: Final = tuple(name for name in TYPES if name not in PARTITIONS)


class Lake:
    """A table with slices of one file and of several, of which more or less is known."""

    def __init__(self, dsn: str) -> None:
        self.slices: dict[GroupKey, list[Stats]] = {}
        self._database = Database(Settings(dsn=dsn))
        self._runner = asyncio.Runner()
        chance = random.Random(7)
        for number in range(SLICES):
            files = [_stats(chance) for _ in range(chance.choice([1, 1, 1, 2, 3]))]
            self.slices[f"p{number % 5}", f"{number:04d}"] = files
        with psycopg.connect(dsn, options="-c search_path=chronolake") as connection:
            for key, files in self.slices.items():
                for index, known in enumerate(files):
                    connection.execute(_INSERT, _row(key, index, known))

    def kept(
        self, wanted: Filter | None, paths: Sequence[str] | None = None, after: GroupKey = ("", "")
    ) -> list[GroupKey]:
        """The slices that the SQL keeps, in its order."""
        condition = None if wanted is None else pruning.check(TABLE, wanted)

        async def ask() -> list[GroupKey]:
            async with self._database.reading() as connection:
                return await scans.groups(connection, TABLE.table_id, AS_OF, condition, paths, after, SLICES)

        return self._runner.run(ask())

    def streamed(self, wanted: Filter | None, paths: Sequence[str] | None = None) -> list[tuple[str, ...]]:
        """Partition path, file id and name of each file in the Arrow stream, in its order."""
        condition = None if wanted is None else pruning.check(TABLE, wanted)

        async def ask() -> bytes:
            stream = await file_streams.snapshot(self._database, TABLE.table_id, AS_OF, paths, {}, condition)
            return b"".join([message async for message in stream.messages()])

        found = pa.ipc.open_stream(self._runner.run(ask())).read_all()
        return list(
            zip(*(found[name].to_pylist() for name in ("partition_path", "file_id", "path")), strict=True)
        )

    def files(self, groups: Sequence[GroupKey]) -> list[tuple[str, ...]]:
        """The same of all files of these groups."""
        return [
            (*key, f"{key[0]}/{name}")
            for key in groups
            for name in sorted(f"f{index}" for index in range(len(self.slices[key])))
        ]

    def partitions(self, first: str) -> list[str]:
        async def ask() -> list[str]:
            async with self._database.reading() as connection:
                return await scans.partitions(connection, TABLE.table_id, first)

        return self._runner.run(ask())

    def close(self) -> None:
        self._runner.run(self._database.close())
        self._runner.close()


_INSERT: Final = """
    INSERT INTO file (
        table_id, partition_path, file_id, requested_time, file_name, kind, size_bytes, records,
        completion_time, live_from, column_stats, schema_version
    )
    VALUES (%s, %s, %s, %s, %s, %s, 1, %s, %s, %s, %s::jsonb, 1)
"""


def _row(key: GroupKey, index: int, known: Stats) -> Sequence[Any]:
    moment = datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    stats = {field_id: _written(found) for field_id, found in known.ranges.items()}
    # One that has no stats at all, as all files of before.
    document = json.dumps(stats) if stats else None
    kind = "log" if index else "base"
    return [TABLE.table_id, *key, moment, f"f{index}", kind, known.records, moment, moment, document]


def _written(found: Range) -> dict[str, Any]:
    said = {"min": records.literal(found.least), "max": records.literal(found.greatest), "nulls": found.nulls}
    return {name: value for name, value in said.items() if value is not None}


def _stats(chance: random.Random) -> Stats:
    rows = [records.record(chance) for _ in range(chance.choice([1, 1, 2, 3]))]
    return records.vague(records.stats(rows), chance) if chance.random() < 0.95 else Stats(len(rows), {})


@pytest.fixture(scope="module")
def lake(shared_dsn: str) -> Iterator[Lake]:
    made = Lake(shared_dsn)
    yield made
    made.close()


@settings(max_examples=400)
@given(wanted=records.filters())
def test_the_sql_keeps_what_the_rule_keeps(lake: Lake, wanted: Filter) -> None:
    condition = pruning.check(TABLE, wanted)

    expected = [key for key, files in lake.slices.items() if pruning.slice_could_match(condition, files)]

    assert lake.kept(wanted) == sorted(expected)


@settings(max_examples=150)
@given(wanted=records.filters())
def test_the_stream_has_all_files_of_the_same_slices(lake: Lake, wanted: Filter) -> None:
    assert lake.streamed(wanted) == lake.files(lake.kept(wanted))


@pytest.mark.parametrize(
    "wanted",
    [
        col("name") > "it's; --\\' %s %(x)s {0} \n $1",
        ~col("name").is_in(["%", "\\", "{}", '"', "'", ","]),
        col("name").starts_with("\\'%"),
        col("id").is_in(range(100, 1_099)),
    ],
)
def test_no_value_means_anything_in_the_text_of_the_stream(lake: Lake, wanted: Filter) -> None:
    assert lake.streamed(wanted) == lake.files(lake.kept(wanted))


def test_a_stream_has_the_partitions_that_are_wanted(lake: Lake) -> None:
    assert lake.streamed(None) == lake.files(sorted(lake.slices))
    for paths in (["p1"], ["p1", "p3", "no{ne}"], ["it's"], []):
        assert lake.streamed(None, paths) == lake.files(lake.kept(None, paths))


@pytest.mark.parametrize("column", OWN)
@pytest.mark.parametrize("operator", ["=", "!=", "<", "<=", ">", ">="])
def test_every_value_of_every_type_can_be_compared(lake: Lake, column: str, operator: str) -> None:
    compared = [] if column == "tags" else [records.literal(value) for value in records.VALUES[column]]
    for value in compared:
        wanted = Compare(column, ComparisonOperator(operator), value)
        condition = pruning.check(TABLE, wanted)
        expected = [key for key, files in lake.slices.items() if pruning.slice_could_match(condition, files)]
        assert lake.kept(wanted) == sorted(expected)


def test_the_largest_filter_is_answered(lake: Lake) -> None:
    assert len(lake.kept(col("id").is_in(range(100, 1_100)))) < SLICES
    assert len(lake.kept(Or([col("id") == number for number in range(100, 1_099)]))) < SLICES


def test_slices_come_in_order_from_the_partitions_that_are_wanted(lake: Lake) -> None:
    assert lake.kept(None) == sorted(lake.slices)
    assert {path for path, _ in lake.kept(None, ["p1", "p3", "none"])} == {"p1", "p3"}
    assert lake.kept(None, []) == []
    assert lake.kept(None, None, ("p2", "0012")) == sorted(key for key in lake.slices if key > ("p2", "0012"))


def test_partitions_are_told_each_once(lake: Lake) -> None:
    assert lake.partitions("") == ["p0", "p1", "p2", "p3", "p4"]
    assert lake.partitions("p2") == ["p2", "p3", "p4"]
    assert lake.partitions("p9") == []
