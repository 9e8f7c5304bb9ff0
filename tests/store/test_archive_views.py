"""SQL over the archive with DuckDB: the views have the rows of PostgreSQL's."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import duckdb
import psycopg
import pytest

from chronolake_metastore.domain import tables
from chronolake_model.times import Tick
from tests.docs.test_audit import EXAMPLES
from tests.forked_program import run
from tests.store import archiving
from tests.store.history import History, make_history

VIEWS = (
    *("event", "event_entry", "write_stat", "deleted_file", "outcome", "refusal"),
    *("audit_history", "audit_commands", "audit_deletions", "audit_tables"),
)
NOT_ARCHIVED = {"previous_hash", "hash", "answers_hash", "writer", "era"}
"""Columns that the views lack: hashes follow from rows, the writer is of a projection, the era is a place."""
NAMED = re.compile(r"chronolake\.(\w+)")


class ArchivedLog:
    """A log, and DuckDB over its archive."""

    def __init__(self, dsn: str, archive: Path) -> None:
        self.dsn = dsn
        archiving.write(dsn, archiving.local(archive), 10)
        views = run("archive", "views", "--from", str(archive))
        self._duckdb = duckdb.connect()
        self._duckdb.execute(views.stdout)

    def columns(self, view: str) -> str:
        names = self._duckdb.execute(f"SELECT * FROM chronolake.{view} LIMIT 0").description
        return ", ".join(f'"{name}"' for name, *_ in names)

    def from_archive(self, query: str) -> list[str]:
        table = self._duckdb.execute(query).to_arrow_table()
        return comparable([tuple(row.values()) for row in table.to_pylist()])

    def from_database(self, query: str) -> list[str]:
        with psycopg.connect(self.dsn) as connection:
            connection.execute("SET ROLE chronolake_auditor")
            return comparable(connection.execute(query.encode()).fetchall())


def comparable(rows: list[Any]) -> list[str]:
    """Rows of either database in one form, in one order."""
    return sorted(json.dumps([_value(value) for value in row], sort_keys=True) for row in rows)


def _value(value: Any) -> Any:
    match value:
        case datetime():
            return value.astimezone(UTC).isoformat()
        case UUID() | bytes():
            return str(value)
        case str() if value[:1] in ("{", "["):
            return json.loads(value)
        case str() if value.isdigit():
            # A transaction id is a text in Python.
            return int(value)
        case _:
            return value


@pytest.fixture(scope="module")
def log(shared_dsn: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ArchivedLog]:
    with History(shared_dsn) as history:
        make_history(history)
        history.make_table("shop.precise", Tick.MICROSECOND)
        history.done(tables.AlterTable("shop.precise", "shop.exact", set={"owner": "ann"}))
        history.done(tables.AlterTable("shop.exact", unset=["owner"]))
        yield ArchivedLog(shared_dsn, tmp_path_factory.mktemp("archive"))


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_over_the_archive_has_the_rows_of_the_database(log: ArchivedLog, view: str) -> None:
    query = f"SELECT {log.columns(view)} FROM chronolake.{view}"

    assert log.from_archive(query) == log.from_database(query)
    assert log.from_archive(query)


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_over_the_archive_has_all_columns_but_those_that_follow(log: ArchivedLog, view: str) -> None:
    with psycopg.connect(log.dsn) as connection:
        described = connection.execute(f"SELECT * FROM chronolake.{view} LIMIT 0".encode()).description
    assert described is not None

    assert {column.name for column in described} - NOT_ARCHIVED == {
        name.strip('"') for name in log.columns(view).split(", ")
    }


def is_of_the_archive(query: str) -> bool:
    """Whether a query of the audit page names only what the archive has."""
    return {*NAMED.findall(query)} <= {*VIEWS} and not re.search(r"\b(writer|hash)\b", query)


QUERIES = [query for query in EXAMPLES if is_of_the_archive(query)]


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: " ".join(query.split())[:60])
def test_a_query_of_the_audit_page_gives_the_same_rows(log: ArchivedLog, query: str) -> None:
    assert log.from_archive(query) == log.from_database(query)


def test_eight_queries_of_the_audit_page_run_over_the_archive() -> None:
    assert len(QUERIES) == 8


def test_an_empty_archive_has_empty_views(tmp_path: Path) -> None:
    views = run("archive", "views", "--from", str(tmp_path))
    connection = duckdb.connect()
    connection.execute(views.stdout)

    assert [connection.execute(f"SELECT count(*) FROM chronolake.{view}").fetchone() for view in VIEWS] == [
        (0,)
    ] * len(VIEWS)
