"""The query for streams to expire finds exactly those of which the rule rolls something back."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

import msgspec
import psycopg
import pytest
from hypothesis import given, settings, strategies as st

from chronolake_metastore import errors
from chronolake_metastore.domain import streams, tables
from chronolake_metastore.domain.definitions import NewDefinition
from chronolake_metastore.domain.events import TableCreated
from chronolake_metastore.domain.properties import STREAM_WAIT_SECONDS
from chronolake_metastore.domain.streams import (
    WAIT_SECONDS_DEFAULT,
    Checkpoint,
    ExpireStream,
    Stream,
    TaskReports,
)
from chronolake_metastore.domain.tables import Table
from chronolake_metastore.settings import Settings
from chronolake_metastore.store import catalog, streams as stored
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.postgres.transaction import Statement
from chronolake_model.tables import NewField
from chronolake_model.times import MICROS_PER_SECOND, Micros
from tests.examples import examples
from tests.server import database as sql

NOW: Final = Micros(1_800_000_000 * MICROS_PER_SECOND)
WAIT_SECONDS: Final = 100

_EDGES: Final = [0, WAIT_SECONDS * MICROS_PER_SECOND, WAIT_SECONDS_DEFAULT * MICROS_PER_SECOND]
_WAITED: Final = [micros + near for micros in _EDGES for near in (-1, 0, 1, 10 * MICROS_PER_SECOND)]
_TASKS: Final = st.sampled_from(
    [{}, {"0": False}, {"0": True, "1": False}, {"0": True}, {"0": True}, {"0": True, "1": True}]
)
_BUFFERS: Final = st.dictionaries(st.integers(-1, 3), _TASKS, max_size=3)
_SILENT: Final = st.tuples(
    st.sampled_from([None, 0, WAIT_SECONDS]), st.sampled_from(_WAITED), st.booleans(), _BUFFERS
)


class StreamsOfTables:
    """A database in which streams are saved as commands save them, at a time that stands still."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self.tables = {
            wait_seconds: _table(number, wait_seconds)
            for number, wait_seconds in enumerate([None, 0, WAIT_SECONDS])
        }
        sql.set_clocks(dsn, str(NOW))
        sql.query_nothing(dsn, "INSERT INTO namespace VALUES ('shop', '{}', now())")
        self._run(catalog.save_tables(list(self.tables.values())))

    def save(self, saved: Sequence[tuple[Table, Stream]]) -> None:
        """Replace all streams."""
        checkpoints = {
            ((table.table_id, stream.name), number): checkpoint
            for table, stream in saved
            for number, checkpoint in stream.checkpoints.items()
        }
        self._run(
            ("TRUNCATE stream, stream_checkpoint", {}),
            stored.save([(table.table_id, stream) for table, stream in saved]),
            stored.save_checkpoints(checkpoints),
        )

    def drop(self, table: Table) -> None:
        self._run(catalog.save_tables([msgspec.structs.replace(table, dropped_at=NOW)]))

    def expired(self, limit: int = 1_000) -> list[tuple[str, str]]:
        async def find() -> list[tuple[str, str]]:
            database = Database(Settings(dsn=self._dsn))
            async with database.reading() as connection:
                expired = await stored.expired(connection, limit)
            await database.close()
            return [(stream.table, stream.stream) for stream in expired]

        return asyncio.run(find())

    def _run(self, *statements: Statement) -> None:
        with psycopg.connect(self._dsn, options="-c search_path=chronolake") as connection:
            for statement, parameters in statements:
                connection.execute(statement.encode(), parameters)


def _table(number: int, wait_seconds: int | None) -> Table:
    properties = {} if wait_seconds is None else {STREAM_WAIT_SECONDS: str(wait_seconds)}
    definition = NewDefinition(
        name=f"shop.t{number}",
        base_path=f"/lake/{number}",
        schema=[NewField("id", "int")],
        record_key_fields=["id"],
        properties=properties,
    )
    return tables.evolve_created(TableCreated(definition=definition), UUID(int=number + 1), NOW)


def a_stream(
    number: int, lease_expires_at: int, buffer: Mapping[int, Mapping[str, bool]], *, is_open: bool = True
) -> Stream:
    """A stream with, by checkpoint and task, whether the last batch is reported."""
    return Stream(
        name=f"stream-{number:03}",
        epoch=1,
        writer="w",
        opened_at=NOW,
        is_open=is_open,
        tasks=None,
        lease_seconds=60,
        lease_expires_at=Micros(lease_expires_at),
        acknowledged=None,
        attempts={},
        ended=(),
        version=1,
        checkpoints={
            checkpoint: Checkpoint(
                requested_time=Micros(NOW + 1_000 * number + checkpoint),
                epoch=1,
                tasks={task: TaskReports(last_batch=last_batch) for task, last_batch in tasks.items()},
            )
            for checkpoint, tasks in buffer.items()
        },
    )


def has_to_roll_back(table: Table, stream: Stream) -> bool:
    """Whether the rule has something to roll back."""
    try:
        streams.expire(table, stream, ExpireStream(table.name, stream.name, "reaper"), NOW)
    except errors.LeaseLive:
        return False
    return True


@pytest.fixture(scope="module")
def database(shared_dsn: str) -> StreamsOfTables:
    return StreamsOfTables(shared_dsn)


@settings(max_examples=examples(200))
@given(silent=st.lists(_SILENT, min_size=8, max_size=16))
def test_the_query_finds_the_streams_of_which_the_rule_rolls_something_back(
    database: StreamsOfTables, silent: list[tuple[int | None, int, bool, dict[int, dict[str, bool]]]]
) -> None:
    saved = [
        (database.tables[wait_seconds], a_stream(number, NOW - waited, buffer, is_open=is_open))
        for number, (wait_seconds, waited, is_open, buffer) in enumerate(silent)
    ]
    database.save(saved)
    expected = {(table.name, stream.name) for table, stream in saved if has_to_roll_back(table, stream)}
    assert set(database.expired()) == expected


def test_the_stream_that_is_silent_the_longest_comes_first(database: StreamsOfTables) -> None:
    table = database.tables[None]
    database.save([(table, a_stream(number, NOW - 10 + number, {1: {}})) for number in (3, 1, 2)])
    assert database.expired(2) == [(table.name, "stream-001"), (table.name, "stream-002")]


def test_streams_of_dropped_tables_are_left_alone(dsn: str) -> None:
    database = StreamsOfTables(dsn)
    table = database.tables[None]
    database.save([(table, a_stream(1, NOW - 1, {1: {}}))])
    assert database.expired()
    database.drop(table)
    assert database.expired() == []
