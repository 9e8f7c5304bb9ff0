"""Histories that tests of the store begin with."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from chronolake_metastore.proof import rebuilding, verification
from chronolake_metastore.settings import Settings
from tests.fix_postgres import claimed, clone_of
from tests.store import archiving, tampering
from tests.store.archiving import local
from tests.store.tables_of_types import TablesOfTypes, projections


@pytest.fixture
def history(dsn: str) -> Iterator[TablesOfTypes]:
    """A history with a table of each type; at the end it is verified, and rebuilt without a change."""
    with TablesOfTypes(dsn) as history:
        history.make()
        yield history
        before = projections(dsn)
        asyncio.run(rebuilding.rebuild(Settings(dsn=dsn)))
        assert projections(dsn) == before
        assert asyncio.run(verification.verify(Settings(dsn=dsn))).findings == []


@pytest.fixture(scope="session")
def history_template(postgres: str, template: str) -> str:
    """The name of a database with a small history of several tables in it, to be cloned."""
    name = f"{template}_history"
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
    tampering.make(claimed(make_conninfo(postgres, dbname=name)))
    return name


@pytest.fixture
def history_dsn(postgres: str, history_template: str) -> Iterator[str]:
    """The DSN of a database with that history."""
    with clone_of(postgres, history_template) as dsn:
        yield dsn


@pytest.fixture
def log_dsn(history_dsn: str) -> str:
    """The DSN of a log with rows in each of its tables."""
    tampering.fill_tables(history_dsn)
    return history_dsn


@pytest.fixture
def pieces(log_dsn: str, tmp_path: Path) -> Path:
    """An archive of that log in several runs of several levels."""
    archiving.write(log_dsn, local(tmp_path / "pieces"), 1)
    return tmp_path / "pieces"
