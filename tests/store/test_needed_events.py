"""The first event that each table needs, by one query for all tables, and by reading everything."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from uuid import UUID

import psycopg
import pytest

from chronolake_metastore.domain import cleans, instants, restores, savepoints, tables
from chronolake_metastore.domain.cleans import Retention
from chronolake_model.times import parse_time
from tests.store import needs, shown
from tests.store.history import History, make_history


@pytest.fixture
def history(dsn: str) -> Iterator[History]:
    with History(dsn) as history:
        make_history(history)
        yield history


def execute(dsn: str, statement: str) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute("SET search_path TO chronolake")
        connection.execute(statement.encode())


def publish(dsn: str, share: float) -> None:
    """As if a publisher had published a share of each log, and moved what is before into the history."""
    execute(dsn, f"""
        INSERT INTO publication (table_id, published_version, published_completion, history)
        SELECT c.table_id, round(c.version * {share}), 'epoch', jsonb_build_object('before', (
            SELECT micros(min(e.time)) FROM event e
            WHERE e.table_id = c.table_id AND e.version >= c.version * {share}
        ))
        FROM clock c JOIN lake_table t USING (table_id)
        ON CONFLICT (table_id) DO UPDATE
        SET published_version = excluded.published_version, history = excluded.history
    """)  # fmt: skip


def compare(dsn: str, *windows: int) -> None:
    """Compare, with several windows, and after several shares of the logs are published."""
    for window, share in itertools.product(windows, (0.5, 0.9, 1.0)):
        execute(dsn, f"""
            UPDATE lake_table
            SET definition = jsonb_set(definition, '{{properties,hoodie.keep.min.commits}}', '"{window}"')
        """)  # fmt: skip
        publish(dsn, share)
        assert needs.found(dsn) == needs.naive(dsn)


@pytest.mark.parametrize("seconds", [0, 600, 10_000])
def test_the_first_needed_events_are_those_of_a_plain_reading(dsn: str, history: History, seconds: int) -> None:
    assert needs.found(dsn) == needs.naive(dsn)
    history.done(tables.AlterTable("shop.clicks", set={"deletions.grace-seconds": "60"}))
    for bucket in (1, 2, 1, 3):
        history.write("shop.clicks", bucket)
        history.pass_seconds(100)
    history.pass_seconds(seconds)
    compare(dsn, 1, 2, 4, 2_000)


def test_savepoints_restores_and_cleans_are_counted(dsn: str, history: History) -> None:
    written = [history.write("shop.clicks", 1) for _ in range(6)]
    history.pass_seconds(100_000)
    times = [parse_time(requested) for requested, _ in written]
    pinned = history.done(savepoints.CreateSavepoint("shop.clicks", times[2], "ann"))
    savepoint = parse_time(shown.instant(pinned).requested_time)
    compare(dsn, 1)
    history.done(restores.RestoreTable("shop.clicks", savepoint, "ann", "wrong"))
    compare(dsn, 1)
    history.write("shop.clicks", 1)
    history.done(savepoints.ReleaseSavepoint("shop.clicks", savepoint, "ann"))
    compare(dsn, 1)
    history.done(cleans.PlanClean("shop.clicks", Retention(commits=1), "ann"))
    compare(dsn, 1)


def test_most_events_of_a_table_without_blockers_may_leave(dsn: str, history: History) -> None:
    for _ in range(10):
        history.write("shop.clicks", 1)
    history.pass_seconds(100_000)
    compare(dsn, 3)
    with psycopg.connect(dsn) as connection:
        heads: dict[UUID, int] = dict(
            connection.execute("SELECT table_id, version FROM chronolake.clock").fetchall()
        )
    # The two events of each of the last three commits.
    assert 5 in {heads[table_id] - version for table_id, version in needs.found(dsn).items()}


def test_an_undone_instant_is_needed_until_it_is_swept(dsn: str, history: History) -> None:
    instant = history.begin("shop.clicks")
    history.mark("shop.clicks", instant, 1)
    history.roll_back("shop.clicks", instant)
    history.pass_seconds(100_000)
    for _ in range(5):
        history.write("shop.clicks", 1)
    history.pass_seconds(100_000)
    compare(dsn, 1)
    history.done(instants.BeginInstant("shop.clicks", writer="late"))
    compare(dsn, 1)
