"""Serves with a server that is broken on purpose, to see whether the checker finds out.

    python broken_server.py <mutation> serve ...

Each mutation is a small mistake that no single client notices.
"""

from __future__ import annotations

import asyncio
import enum
import random
import sys
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, assert_never
from uuid import UUID

import msgspec
from pytest import MonkeyPatch

from chronolake_metastore import errors
from chronolake_metastore.cli.main import main as serve
from chronolake_metastore.domain import conflicts, events, logs
from chronolake_metastore.domain.context import Context
from chronolake_metastore.domain.logs import Clock
from chronolake_metastore.domain.state import State
from chronolake_metastore.domain.tables import Table
from chronolake_metastore.queries import files as queried_files
from chronolake_metastore.service import registry
from chronolake_metastore.store import catalog, feed, outcomes
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.postgres.pooled import Connection
from chronolake_metastore.store.postgres.transaction import Query, Session, Statement, Transaction
from chronolake_model.files import Snapshot
from chronolake_model.times import Micros

BEHIND_US_MAX = 5_000_000
KEPT_SECONDS = 10.0
COMMIT_SECONDS_MAX = 0.2


class Mutation(enum.StrEnum):
    """The fault of the server."""

    OWN_CLOCK = "each server goes by its own clock, and knows only the times that it issued itself"
    FORGETFUL = "the outcome of a request is not looked up, so a retry is carried out again"
    HASTY_FEED = "the feed passes transactions that are still open"
    CARELESS = "whether two instants wrote the same file groups is not checked"
    TRUSTING = "a transaction whose connection was lost is taken for committed"
    KEEPING = "each server keeps snapshots for a while, regardless of what the others publish"
    KEEPING_NAMES = "each server keeps the tables of names for a while, regardless of renames"
    UNCHECKED = "commands are not refused where the name is another table's than the one that they require"


def program(mutation: Mutation) -> Sequence[str]:
    """The arguments with which python serves with this mutation."""
    return "-P", str(Path(__file__)), mutation.name


def break_server(mutation: Mutation, server: MonkeyPatch) -> None:
    """Change the server of this process."""
    match mutation:
        case Mutation.OWN_CLOCK:
            _go_by_own_clock(server)
        case Mutation.FORGETFUL:
            _forget_outcomes(server)
        case Mutation.HASTY_FEED:
            _pass_open_transactions(server)
        case Mutation.CARELESS:
            server.setattr(conflicts, "refuse", lambda *_: None)
        case Mutation.TRUSTING:
            _trust_lost_connections(server)
        case Mutation.KEEPING:
            _keep_snapshots(server)
        case Mutation.KEEPING_NAMES:
            _keep_names(server)
        case Mutation.UNCHECKED:
            server.setattr(State, "refuse_other", lambda *_: None)
        case _:
            assert_never(mutation)


def _go_by_own_clock(server: MonkeyPatch) -> None:
    behind_us = random.SystemRandom().randrange(BEHIND_US_MAX)
    issued: dict[UUID, int] = {}

    def next_time(clock: Clock, _: Micros) -> Micros:
        tick = clock.tick.micros
        wall = time.time_ns() // 1_000 - behind_us
        issued[clock.table_id] = max(issued.get(clock.table_id, 0) + tick, wall - wall % tick)
        return Micros(issued[clock.table_id])

    def advance(clock: Clock, event: events.Event) -> Clock:
        return msgspec.structs.replace(clock, last_time=event.time, version=event.version, head=event.hash)

    server.setattr(logs, "next_time", next_time)
    server.setattr(logs, "advance", advance)


def _forget_outcomes(server: MonkeyPatch) -> None:
    find, append = outcomes.find, outcomes.append

    def find_nothing(_: Iterable[str]) -> Query[dict[str, outcomes.StoredOutcome]]:
        return find(())

    def append_unless_there(decided: Sequence[outcomes.StoredOutcome]) -> Statement:
        sql, parameters = append(decided)
        return f"{sql} ON CONFLICT DO NOTHING", parameters

    server.setattr(outcomes, "find", find_nothing)
    server.setattr(outcomes, "append", append_unless_there)


def _pass_open_transactions(server: MonkeyPatch) -> None:
    horizon = "AND event.transaction_id < pg_snapshot_xmin(pg_current_snapshot())"
    assert horizon in feed._FEED, "the feed is not the one that this mutation knows"
    server.setattr(feed, "_FEED", feed._FEED.replace(horizon, ""))
    # With commits as slow as on a busy disk, which a right server has no trouble with, it shows at once.
    commit = Transaction.commit

    async def commit_slowly(tx: Transaction, statements: Sequence[Statement] = ()) -> None:
        await tx.batch(statements)
        await asyncio.sleep(random.SystemRandom().uniform(0.0, COMMIT_SECONDS_MAX))
        await commit(tx)

    server.setattr(Transaction, "commit", commit_slowly)


def _trust_lost_connections(server: MonkeyPatch) -> None:
    begin = Session.begin

    @asynccontextmanager
    async def begin_and_trust(session: Session) -> AsyncIterator[Transaction]:
        with suppress(errors.DatabaseUnavailable):
            async with begin(session) as tx:
                yield tx

    server.setattr(Session, "begin", begin_and_trust)


def _keep_snapshots(server: MonkeyPatch) -> None:
    snapshot = queried_files.snapshot
    kept: dict[object, tuple[float, Snapshot]] = {}

    async def keep_snapshot(ctx: Context, database: Database, *query: Any) -> Snapshot:
        if query not in kept or kept[query][0] < time.monotonic() - KEPT_SECONDS:
            kept[query] = (time.monotonic(), await snapshot(ctx, database, *query))
        return kept[query][1]

    server.setattr(queried_files, "snapshot", keep_snapshot)
    server.setitem(registry.READS, keep_snapshot, registry.READS[snapshot])


def _keep_names(server: MonkeyPatch) -> None:
    get_table = catalog.get_table
    kept: dict[str, tuple[float, Table | None]] = {}

    async def keep_table(connection: Connection, name: str) -> Table | None:
        if name not in kept or kept[name][0] < time.monotonic() - KEPT_SECONDS:
            kept[name] = (time.monotonic(), await get_table(connection, name))
        return kept[name][1]

    server.setattr(catalog, "get_table", keep_table)


if __name__ == "__main__":
    break_server(Mutation[sys.argv.pop(1)], MonkeyPatch())
    serve()
