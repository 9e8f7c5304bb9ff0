"""Thinning of ended eras: a partition with the events that the state needs takes the place of the whole one.

``thin_eras.sql`` has the steps. The copies are made in short transactions, because followers of the log do not
pass an open one that writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final
from uuid import UUID

from psycopg import sql

from chronolake_metastore import errors
from chronolake_metastore.domain.eras import CountedEvents, EraPart
from chronolake_metastore.domain.leaving_rows import RowRange
from chronolake_metastore.domain.needed_events import KINDS
from chronolake_metastore.store.postgres import engine, statements
from chronolake_metastore.store.postgres.advisory_locks import AdvisoryLock
from chronolake_metastore.store.postgres.connections import BoundedConnection
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.postgres.transaction import Transaction
from chronolake_model.times import Micros

TABLES: Final = ("event", "event_entry", "write_stat", "deleted_file")
WINDOW_EVENTS: Final = 5_000
"""The events that are read for one transaction of copies."""
WAIT_SECONDS: Final = 120.0
"""How long to wait for the transactions that began before the announcement."""
_POLL_SECONDS: Final = 0.1
_TRY: Final = "SELECT pg_try_advisory_lock(%(lock)s)"
_COLUMNS: Final = """
    SELECT attname::text
    FROM pg_attribute
    WHERE attrelid = %(table)s::text::regclass AND attnum > 0 AND NOT attisdropped AND attname <> 'era'
    ORDER BY attnum
"""
# The one place that says which events stay. A table without a first version needs all.
_IS_NEEDED: Final = statements.load("thinning/is_needed")
_COUNT_EVENTS: Final = statements.load("thinning/count_events").replace("{is_needed}", _IS_NEEDED)
_END_OF_WINDOW: Final = statements.load("thinning/end_of_window")
_NEEDED: Final = {
    "event": statements.load("thinning/needed_event").replace("{is_needed}", _IS_NEEDED),
    "event_entry": statements.load("thinning/needed_event_entry"),
    "write_stat": statements.load("thinning/needed_write_stat"),
    "deleted_file": statements.load("thinning/needed_deleted_file"),
}
_ALL: Final[Mapping[str, object]] = {
    "after_table": UUID(int=0),
    "after_version": 0,
    "until_table": UUID(int=2**128 - 1),
    "until_version": 2**63 - 1,
}
_FIND_LEAVING: Final = statements.load("thinning/find_leaving")
_FIND_KEPT_ENTRIES: Final = statements.load("thinning/find_kept_entries")
_PARTS: Final = statements.load("thinning/find_parts")
_TRANSACTIONS: Final = statements.load("thinning/find_transactions")
_ELECTION: Final[Mapping[str, object]] = {"election": AdvisoryLock.WORKER.value}


async def parts(tx: Transaction) -> list[EraPart]:
    """The partitions of ended eras whose answers have left, the oldest first."""
    return [
        EraPart(first, last, Micros(ended_at), ended_before, has_left)
        for first, last, ended_at, ended_before, has_left in await tx.query(_PARTS, {})
    ]


async def count(tx: Transaction, last_era: int, first: Mapping[UUID, int]) -> dict[int, CountedEvents]:
    """The events of each era up to one, given the first needed event of the tables that do not need all."""
    rows = await tx.query(_COUNT_EVENTS, {**_named(first), "last_era": last_era})
    return {era: CountedEvents(events, leaving) for era, events, leaving in rows}


async def leaving(tx: Transaction, eras: tuple[int, int], first: Mapping[UUID, int]) -> list[RowRange]:
    """The events of some eras that may leave, given the first needed event of tables as in ``count``."""
    found = await tx.query(_FIND_LEAVING, {**_named(first), "first_era": eras[0], "last_era": eras[1]})
    return [(table_id, low, high) for table_id, low, high in found]


async def kept_entries(tx: Transaction, eras: tuple[int, int]) -> list[RowRange]:
    """The events of some eras that have left, and whose lists may leave now."""
    found = await tx.query(_FIND_KEPT_ENTRIES, {"first_era": eras[0], "last_era": eras[1]})
    return [(table_id, version, version) for table_id, version in found]


def _named(first: Mapping[UUID, int]) -> dict[str, object]:
    return {"table_ids": list(first), "versions": list(first.values()), "kinds": list(KINDS)}


async def swap(tx: Transaction, eras: tuple[int, int]) -> None:
    """Put the copies in the place of the partitions of the eras."""
    await tx.query("SELECT thin_eras(%(first_era)s, %(last_era)s)", {"first_era": eras[0], "last_era": eras[1]})


@asynccontextmanager
async def opened(database: Database) -> AsyncIterator[Thinning]:
    """A session of its own; raises ``ConfigurationError`` if another one thins eras."""
    with engine.database_errors():
        connection = await database.connect()
    try:
        thinning = Thinning(connection)
        await thinning.begin()
        yield thinning
    finally:
        await connection.close()


class Thinning:
    """A session that thins eras. While it lasts, there is no other."""

    def __init__(self, connection: BoundedConnection) -> None:
        self.connection = connection
        self._columns: dict[str, list[str]] = {}

    async def begin(self) -> None:
        """Take the lock, and drop what a killed command has left."""
        async with self.transaction() as tx:
            [[is_free]] = await tx.query(_TRY, {"lock": AdvisoryLock.THINNING.value})
            if not is_free:
                raise errors.ConfigurationError(
                    "another command drops events from the log; try again when it has ended"
                )
            # Copies of one transaction are few, but a count goes over all events.
            await tx.query("SET statement_timeout = 0", {})
            self._columns = {
                table: [name for (name,) in await tx.query(_COLUMNS, {"table": f"chronolake.{table}"})]
                for table in TABLES
            }
        await self.clear()

    async def clear(self) -> None:
        """Drop the tables of copies."""
        async with self.transaction() as tx:
            await tx.query("SELECT prepare_thinning(NULL)", {})

    async def copy(self, eras: tuple[int, int], first: Mapping[UUID, int]) -> None:
        """Copy what is needed of some eras, and check that all of it was copied."""
        async with self.transaction() as tx:
            await tx.query("SELECT prepare_thinning(%(last)s)", {"last": eras[1]})
        named = {**_named(first), "first_era": eras[0], "last_era": eras[1]}
        window, is_last = dict(_ALL), False
        while not is_last:
            async with self.transaction() as tx:
                found = await tx.query(_END_OF_WINDOW, {**named, **window, "events": WINDOW_EVENTS})
                is_last = not found
                end = (_ALL["until_table"], _ALL["until_version"]) if is_last else found[0]
                window["until_table"], window["until_version"] = end
                for table in TABLES:
                    await tx.query(self._copying(table), {**named, **window})
                window["after_table"], window["after_version"] = end
        await self._check(named)

    def _copying(self, table: str) -> str:
        columns = self._columns[table]
        inserted = sql.SQL("INSERT INTO {} (era, {}) ").format(
            sql.Identifier(f"{table}_needed"), sql.SQL(", ").join(map(sql.Identifier, columns))
        )
        alias = "e" if table == "event" else "x"
        selected = sql.SQL(", ").join(sql.Identifier(alias, name) for name in columns).as_string()
        return inserted.as_string() + _NEEDED[table].replace("{selected}", f"%(last_era)s, {selected}")

    async def _check(self, named: Mapping[str, object]) -> None:
        """Compare the numbers of rows: one that is lost here would be lost to the state."""
        for table in TABLES:
            async with self.transaction() as tx:
                counting = _NEEDED[table].replace("{selected}", "count(*)")
                [[needed]] = await tx.query(counting, {**named, **_ALL})
                copies = sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(f"{table}_needed"))
                [[copied]] = await tx.query(copies.as_string(), {})
                # Less may be needed than before, but never more of rows that are as old.
                assert copied >= needed, f"{copied} of {needed} rows of {table} were copied"
                await tx.query(sql.SQL("ANALYZE {}").format(sql.Identifier(f"{table}_needed")).as_string(), {})

    async def announce(self, eras: tuple[int, int], first: Mapping[UUID, int]) -> None:
        """Move the border: transactions that begin from now on ask the archive for what leaves."""
        named = {"first_era": eras[0], "last_era": eras[1], **_named(first)}
        async with self.transaction() as tx:
            await tx.query(
                "SELECT announce_thinning(%(first_era)s, %(last_era)s, %(table_ids)s::uuid[],"
                " %(versions)s::bigint[])",
                named,
            )

    async def wait_for_readers(self) -> bool:
        """Wait for the transactions that have begun before; gives whether all of them have ended in time."""
        async with self.transaction() as tx:
            before = {transaction for (transaction,) in await tx.query(_TRANSACTIONS, _ELECTION)}
        waited = 0.0
        while before and waited < WAIT_SECONDS:
            await asyncio.sleep(_POLL_SECONDS)
            waited += _POLL_SECONDS
            async with self.transaction() as tx:
                before &= {transaction for (transaction,) in await tx.query(_TRANSACTIONS, _ELECTION)}
        return not before

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        """A transaction of the session."""
        with engine.database_errors():
            async with self.connection.transaction():
                yield Transaction(self.connection)
