"""Errors of PostgreSQL, and their meaning: to be retried, or a bug."""

from __future__ import annotations

import asyncio

import psycopg
import pytest
from psycopg import errors as postgres_errors

from chronolake_metastore import errors
from chronolake_metastore.batching.sequencer import Notifier, Sequencer
from chronolake_metastore.commands import group
from chronolake_metastore.domain.context import Context
from chronolake_metastore.domain.namespaces import DropNamespace
from chronolake_metastore.metrics import Metrics
from chronolake_metastore.settings import Settings
from chronolake_metastore.store.postgres import engine
from chronolake_metastore.store.postgres.engine import Database

AWAY = "08000 08006 25006 25P03 40001 40P01 53100 53200 55P03 57014 57P01 57P05"
BUGS = ["22P02", "23505", "42601", "42P01"]


@pytest.mark.parametrize("sqlstate", AWAY.split())
def test_a_database_that_is_away_or_busy_is_tried_again(sqlstate: str) -> None:
    with pytest.raises(errors.DatabaseUnavailable), engine.database_errors():
        raise postgres_errors.lookup(sqlstate)("so")


@pytest.mark.parametrize("sqlstate", BUGS)
def test_any_other_error_is_a_bug_and_passes_through(sqlstate: str) -> None:
    with pytest.raises(psycopg.Error), engine.database_errors():
        raise postgres_errors.lookup(sqlstate)("so")


def test_a_connection_that_was_never_made_is_tried_again() -> None:
    with pytest.raises(errors.DatabaseUnavailable), engine.database_errors():
        raise psycopg.OperationalError("connection refused")


def test_a_stopped_sequencer_refuses_commands(dsn: str) -> None:
    async def submit_too_late() -> None:
        settings = Settings(dsn=dsn)
        database = Database(settings)
        request = group.request_of(Context("test", "request"), DropNamespace("shop"))
        async with Sequencer(database, settings, Metrics(), Notifier()).running() as sequencer:
            pass
        await sequencer.submit(group.task_of(request))

    with pytest.raises(errors.DatabaseUnavailable, match="stops"):
        asyncio.run(submit_too_late())
