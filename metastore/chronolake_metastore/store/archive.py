"""Reads of the log for its archive, all of one moment: what is new, and its rows by chain and number."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final
from uuid import UUID

import msgspec

from chronolake_metastore.domain import archives
from chronolake_metastore.domain.archives import ArchiveEnds, ArchiveRun, LogComparison
from chronolake_metastore.store import packed_results
from chronolake_metastore.store.postgres import engine, statements
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.postgres.transaction import Transaction

EVENTS_MAX: Final = 100_000
"""The events of a run, except that it holds whole transactions."""
_PORTION: Final = 500
"""Rows that PostgreSQL reads at once. Commands share its processors, and its sessions have one priority."""
_FIND_END: Final = statements.load("archive/find_end")
_FIND_EVENTS: Final = statements.load("archive/find_events")
_FIND_OUTCOMES: Final = statements.load("archive/find_outcomes")
_EVENT_HASHES: Final = statements.load("events/find_hashes")
_OUTCOME_HASHES: Final = statements.load("answers/find_hashes")
_IDENTITIES: Final = "SELECT metastore_id FROM metastore ORDER BY position"
_FIND_TABLE_FOLDER: Final = """
    SELECT key FROM base_path
    WHERE key IS NOT NULL AND taken_by IS NULL AND folder(key) && folder(%(key)s::text)
    LIMIT 1
"""
_READ: Final = {
    "event": statements.load("archive/read_event"),
    "event_entry": statements.load("archive/read_event_entry"),
    "write_stat": statements.load("archive/read_write_stat"),
    "deleted_file": statements.load("archive/read_deleted_file"),
    "outcome": statements.load("archive/read_outcome"),
    "refusal": statements.load("archive/read_refusal"),
}

# The places of columns in the rows of read_outcome.sql.
_TABLE_ID: Final = 4
_VERSION: Final = 5
_RESULT: Final = 7
_RECORDED_AT: Final = 10


class FoundEntries(msgspec.Struct, frozen=True):
    """New entries of a chain: the last of them, its hash, and of events the first and how many there are."""

    chain_id: UUID
    last: int
    hash: bytes
    first: int = 0
    count: int = 0


@asynccontextmanager
async def at_one_moment(database: Database) -> AsyncIterator[Transaction]:
    """A transaction that only reads, all of one moment; raises ``DatabaseUnavailable``."""
    with engine.database_errors():
        connection = await database.connect_for_whole_log()
    try:
        with engine.database_errors():
            async with connection.transaction():
                tx = Transaction(connection)
                await tx.query("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY", {})
                yield tx
    finally:
        await connection.close()


async def end(tx: Transaction, begin: int, events_max: int) -> tuple[int, int]:
    """The transaction before which a run ends, and the one before which the log does not change any more."""
    [[end, horizon]] = await tx.query(_FIND_END, {"begin": str(begin), "events_max": events_max})
    return end, horizon


async def events(tx: Transaction, begin: int, end: int) -> list[FoundEntries]:
    """The events of each table in a range of transactions, in the order of the tables."""
    rows = await tx.query(_FIND_EVENTS, {"begin": str(begin), "end": str(end)})
    return [
        FoundEntries(table_id, last, bytes(digest), first, count)
        for table_id, first, last, count, digest in rows
    ]


async def outcomes(tx: Transaction, ends: ArchiveEnds) -> list[FoundEntries]:
    """The chains with outcomes to archive, together with the events up to ``ends.events``."""
    named = {
        "table_ids": list(ends.events),
        "versions": [head.number for head in ends.events.values()],
        "chain_ids": list(ends.outcomes),
        "numbers": [head.number for head in ends.outcomes.values()],
    }
    rows = await tx.query(_FIND_OUTCOMES, named)
    return [FoundEntries(chain_id, last, bytes(digest)) for chain_id, last, digest in rows]


async def rows(tx: Transaction, table: str, run: ArchiveRun) -> AsyncIterator[tuple[Any, ...]]:
    """The rows of a table of the log that belong to a run, by chain and number, however many there are."""
    parameters: dict[str, object] = {
        "begin": str(run.begin),
        "end": str(run.end),
        "table_ids": [span.chain_id for span in run.events],
        "first_versions": [span.first for span in run.events],
        "last_versions": [span.last for span in run.events],
        "chain_ids": [span.chain_id for span in run.outcomes],
        "first_numbers": [span.first for span in run.outcomes],
        "last_numbers": [span.last for span in run.outcomes],
        "checkpoint_every": archives.CHECKPOINT_EVERY,
    }
    async for row in tx.stream(_READ[table], parameters, _PORTION):
        yield _unpacked(row) if table == "outcome" else row


def _unpacked(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """An outcome with its result as JSON, which is compressed better together with others."""
    result = packed_results.unpack(bytes(row[_RESULT]), row[_TABLE_ID], row[_VERSION], row[_RECORDED_AT])
    return *row[:_RESULT], result, *row[_RESULT + 1 :]


async def identities(tx: Transaction) -> list[UUID]:
    """The identities of the metastore; the last is the present one."""
    return [metastore_id for (metastore_id,) in await tx.query(_IDENTITIES, {})]


async def folder_of_table(tx: Transaction, key: str) -> str | None:
    """The folder of a table that lies in the folder ``key``, or around it; None if there is none."""
    rows = await tx.query(_FIND_TABLE_FOLDER, {"key": key})
    return rows[0][0] if rows else None


async def compare(tx: Transaction, ends: ArchiveEnds, metastore_id: UUID | None) -> LogComparison:
    """The ends of an archive, which a metastore wrote, beside the log."""
    keys = list(ends.events), [head.number for head in ends.events.values()]
    events = await tx.query(_EVENT_HASHES, dict(zip(("table_ids", "versions"), keys, strict=True)))
    keys = list(ends.outcomes), [head.number for head in ends.outcomes.values()]
    outcomes = await tx.query(_OUTCOME_HASHES, dict(zip(("chain_ids", "numbers"), keys, strict=True)))
    return LogComparison(
        ends=ends,
        events={chain_id: bytes(digest) for chain_id, _, digest in events},
        outcomes={chain_id: bytes(digest) for chain_id, _, digest in outcomes},
        is_own=metastore_id is None or metastore_id in await identities(tx),
    )
