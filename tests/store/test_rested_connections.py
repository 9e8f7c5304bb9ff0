"""Connections that were lost while they rested in the pool are replaced before a read meets them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import psycopg
import pytest
from sqlalchemy.dialects.postgresql.psycopg import PGDialectAsync_psycopg

from chronolake_metastore.settings import Settings
from chronolake_metastore.store.postgres import rested_connections
from chronolake_metastore.store.postgres.engine import Database

POOL = 3


@asynccontextmanager
async def resting_pool(dsn: str) -> AsyncIterator[Database]:
    """A database with ``POOL`` connections that rest."""
    database = Database(Settings(dsn=dsn, pool_size=POOL))
    try:
        async with AsyncExitStack() as used:
            for _ in range(POOL):
                await used.enter_async_context(database.reading())
        yield database
    finally:
        await database.close()


async def backend_of_read(database: Database) -> int:
    async with database.reading() as connection:
        return int((await connection.execute("SELECT pg_backend_pid()")).scalar_one())


def end_connections(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as operator:
        operator.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


@pytest.fixture
def pings(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The connections that were asked."""
    asked: list[object] = []
    dialect = PGDialectAsync_psycopg
    ping: Any = dialect.do_ping

    def counted(self: object, connection: object) -> bool:
        asked.append(connection)
        return bool(ping(self, connection))

    monkeypatch.setattr(dialect, "do_ping", counted)
    return asked


def test_reads_do_not_meet_connections_that_ended_while_they_rested(dsn: str, pings: list[object]) -> None:
    async def check() -> None:
        async with resting_pool(dsn) as database:
            before = await backend_of_read(database)
            end_connections(dsn)
            after = [await backend_of_read(database) for _ in range(2 * POOL)]
            assert before not in after
            # The first one that is found lost stands for those of its age.
            assert len(pings) == 1

    asyncio.run(check())


def test_only_connections_that_have_rested_for_long_are_asked(
    dsn: str, pings: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def check() -> None:
        async with resting_pool(dsn) as database:
            used = {await backend_of_read(database) for _ in range(2 * POOL)}
            assert len(used) == 1
            assert not pings
            monkeypatch.setattr(rested_connections, "RESTED_SECONDS_MAX", -1.0)
            assert {await backend_of_read(database) for _ in range(2)} == used
            assert len(pings) == 2

    asyncio.run(check())
