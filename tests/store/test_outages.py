"""An outage of the database is one warning, for any number of broken connections."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from types import TracebackType

import psycopg
import pytest
import structlog

from chronolake_metastore import errors, telemetry
from chronolake_metastore.settings import Settings
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.postgres.outages import QUIET_SECONDS, Outages
from chronolake_metastore.store.postgres.transaction import Query, Session, no_rows

POOL = 4


class Clock:
    def __init__(self) -> None:
        self.seconds = 1_000.0

    def __call__(self) -> float:
        return self.seconds


def end_all_connections(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as operator:
        operator.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


async def lose_open_transactions(database: Database, dsn: str) -> None:
    """The connections end after the last statement of each transaction, before it is rolled back."""
    async with AsyncExitStack() as transactions:
        for _ in range(POOL):
            transactions.push(is_lost)
            connection = await transactions.enter_async_context(database.reading())
            await connection.execute("SELECT 1")
        end_all_connections(dsn)


def is_lost(_type: type[BaseException] | None, exc: BaseException | None, _tb: TracebackType | None) -> bool:
    return isinstance(exc, errors.ConnectionLost)


async def use_lost_sessions(sessions: list[Session], dsn: str) -> list[errors.ConnectionLost]:
    """The errors of connections that ended while they were idle and are used again."""
    for session in sessions:
        await session.run_alone(Query("SELECT 1", {}, no_rows))
    end_all_connections(dsn)
    failures = await asyncio.gather(
        *(session.run_alone(Query("SELECT 1", {}, no_rows)) for session in sessions), return_exceptions=True
    )
    return [failure for failure in failures if isinstance(failure, errors.ConnectionLost)]


async def lose_everything_once(dsn: str) -> None:
    database = Database(Settings(dsn=dsn, pool_size=POOL))
    sessions = [Session(database) for _ in range(POOL)]
    assert len(await use_lost_sessions(sessions, dsn)) == POOL
    await lose_open_transactions(database, dsn)
    async with database.reading() as connection:
        await connection.execute("SELECT 1")
    for session in sessions:
        await session.close()
    await database.close()


def test_many_lost_connections_are_one_warning_and_no_trace(dsn: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    caplog.handler.addFilter(telemetry.is_no_lost_connection)
    with structlog.testing.capture_logs() as lines:
        asyncio.run(lose_everything_once(dsn))

    assert [line["event"] for line in lines] == [
        "database unavailable; waiting requests are tried again",
        "database available again",
    ]
    assert caplog.records == []


def test_a_second_outage_is_a_warning_of_its_own() -> None:
    clock = Clock()
    outages = Outages(clock)
    with structlog.testing.capture_logs() as lines:
        outages.unreachable("refused")
        clock.seconds += 3_600
        outages.unreachable("refused still")
        outages.connected()
        outages.lost("one that was open before")
        outages.connected()
        outages.unreachable("refused again")
        outages.connected()
        clock.seconds += QUIET_SECONDS + 1
        outages.lost("ended by an operator")

    assert [(line["log_level"], line.get("reason", line.get("seconds"))) for line in lines] == [
        ("warning", "refused"),
        ("info", 3_600.0),
        ("warning", "refused again"),
        ("info", 0.0),
        ("warning", "ended by an operator"),
    ]


def test_a_trace_of_the_pool_that_is_of_something_else_is_logged() -> None:
    bug = logging.LogRecord(
        "sqlalchemy.pool.impl", logging.ERROR, "", 0, "", None, (TypeError, TypeError(), None)
    )
    away = psycopg.OperationalError("the connection is closed")
    lost = logging.LogRecord("sqlalchemy.pool.impl", logging.ERROR, "", 0, "", None, (type(away), away, None))

    assert telemetry.is_no_lost_connection(bug)
    assert not telemetry.is_no_lost_connection(lost)
