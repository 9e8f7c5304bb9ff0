"""Reads of the log to prove it: write stats, outcomes, heads, and rows without their event."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec import UNSET

from chronolake_metastore.domain.proof import SharedBasePath
from chronolake_metastore.store.postgres import statements
from chronolake_metastore.store.postgres.transaction import Transaction
from chronolake_model import decoding
from chronolake_model.files import Bound, ColumnStats, WriteStat
from chronolake_model.marker_names import DeletedFile
from chronolake_model.times import Micros

_READ_WRITE_STATS: Final = statements.load("write_stats/read")
_WRITE_STATS_WITHOUT_EVENT: Final = statements.load("write_stats/find_without_event")
_READ_DELETED_FILES: Final = statements.load("deletions/read")
_DELETED_FILES_WITHOUT_EVENT: Final = statements.load("deletions/find_without_event")
_OUTCOMES_WITHOUT_EVENT: Final = statements.load("outcomes/find_without_event")
_CHAIN_HEADS: Final = statements.load("events/find_chain_heads")
_FIND_HASHES: Final = statements.load("events/find_hashes")
_SHARED_BASE_PATHS: Final = statements.load("base_paths/find_shared")
_COLUMN_STATS: Final = decoding.decoder(list[tuple[int, Bound | None, Bound | None, int | None]])
_REQUESTS_WITHOUT_OUTCOME: Final = """
    SELECT request_id
    FROM unnest(%(request_ids)s::text[]) AS named (request_id)
    WHERE NOT EXISTS (SELECT FROM outcome o WHERE o.request_id = named.request_id)
"""
# Of the projections themselves: in a session with replay tables an unqualified name is that of a replay table.
_LOG_LENGTH: Final = """
    SELECT coalesce(sum(version), 0)::bigint FROM chronolake.clock
    WHERE %(table_id)s::uuid IS NULL OR table_id = %(table_id)s
"""
_FIND_TABLE: Final = """
    SELECT table_id FROM chronolake.lake_table WHERE namespace = %(namespace)s AND name = %(name)s
    -- The live one, or the one that was dropped last.
    ORDER BY dropped_at DESC NULLS FIRST LIMIT 1
"""

EventKey = tuple[UUID, int]
"""A table and a version, which name an event."""


class StoredWriteStat(msgspec.Struct, frozen=True):
    """One row of the write stats."""

    event: EventKey
    ordinal: int
    kind: str
    stat: WriteStat


class StoredDeletedFile(msgspec.Struct, frozen=True):
    """One row of the deleted files; ``of`` is the instant that had marked it."""

    event: EventKey
    ordinal: int
    of: Micros
    file: DeletedFile


class EventChainHead(msgspec.Struct, frozen=True):
    """The last event of a table's log; the name of the catalog, and of a table without a row, is empty."""

    table: str
    table_id: UUID
    version: int
    time: Micros
    hash: bytes


async def write_stats(tx: Transaction, events: Sequence[EventKey]) -> AsyncIterator[StoredWriteStat]:
    """The write stats of ``events``, one by one: each event's in their order, however many there are."""
    rows = tx.stream(_READ_WRITE_STATS, _named(events))
    async for row in rows:
        yield stored_write_stat(row)


def stored_write_stat(row: tuple[Any, ...]) -> StoredWriteStat:
    """A row of the write stats."""
    table_id, version, ordinal, kind, *columns, column_stats, has_field_ids = row
    columns.append(UNSET if column_stats is None else _decode_column_stats(column_stats))
    columns.append(UNSET if has_field_ids is None else has_field_ids)
    return StoredWriteStat((table_id, version), ordinal, kind, WriteStat(*columns))


async def deleted_files(tx: Transaction, events: Sequence[EventKey]) -> AsyncIterator[StoredDeletedFile]:
    """The deleted files of ``events``, one by one: each event's in their order, however many there are."""
    async for row in tx.stream(_READ_DELETED_FILES, _named(events)):
        yield stored_deleted_file(row)


def stored_deleted_file(row: tuple[Any, ...]) -> StoredDeletedFile:
    """A row of the deleted files."""
    table_id, version, ordinal, of, *name = row
    return StoredDeletedFile((table_id, version), ordinal, Micros(of), DeletedFile(*name))


async def requests_without_outcome(tx: Transaction, request_ids: Sequence[str]) -> set[str]:
    """The ids of ``request_ids`` for which no outcome is kept."""
    rows = await tx.query(_REQUESTS_WITHOUT_OUTCOME, {"request_ids": list(request_ids)})
    return {request_id for (request_id,) in rows}


async def write_stats_without_event(
    tx: Transaction, table_id: UUID | None, limit: int
) -> list[tuple[EventKey, int]]:
    """The first ``limit`` events that write stats name and that published none, with how many name each."""
    rows = await tx.query(_WRITE_STATS_WITHOUT_EVENT, {"table_id": table_id, "limit": limit})
    return [((of_table, version), count) for of_table, version, count in rows]


async def deleted_files_without_event(
    tx: Transaction, table_id: UUID | None, limit: int
) -> list[tuple[EventKey, int]]:
    """The first ``limit`` events that deleted files name and that reported none, with how many name each."""
    rows = await tx.query(_DELETED_FILES_WITHOUT_EVENT, {"table_id": table_id, "limit": limit})
    return [((of_table, version), count) for of_table, version, count in rows]


async def outcomes_without_event(
    tx: Transaction, table_id: UUID | None, limit: int
) -> list[tuple[EventKey, str]]:
    """The first ``limit`` outcomes that name a version which the log does not have, with their request ids."""
    rows = await tx.query(_OUTCOMES_WITHOUT_EVENT, {"table_id": table_id, "limit": limit})
    return [((of_table, version), request_id) for of_table, version, request_id in rows]


async def chain_heads(tx: Transaction) -> list[EventChainHead]:
    """The head of each table that has events, in the order of the ids."""
    rows = await tx.query(_CHAIN_HEADS, {})
    return [
        EventChainHead(name or "", table_id, version, Micros(time), bytes(digest))
        for name, table_id, version, time, digest in rows
    ]


async def hashes(tx: Transaction, events: Sequence[EventKey]) -> dict[EventKey, bytes]:
    """The hash of each of ``events`` that is in the log."""
    rows = await tx.query(_FIND_HASHES, _named(events))
    return {(table_id, version): bytes(digest) for table_id, version, digest in rows}


async def log_length(tx: Transaction, table_id: UUID | None) -> int:
    """The number of events by the clocks, which is exact enough for a progress bar."""
    [[length]] = await tx.query(_LOG_LENGTH, {"table_id": table_id})
    return int(length)


async def find_table(tx: Transaction, namespace: str, name: str) -> UUID | None:
    """The id of the table of this name; when there is none, of the one that was dropped last."""
    rows = await tx.query(_FIND_TABLE, {"namespace": namespace, "name": name})
    return rows[0][0] if rows else None


async def shared_base_paths(tx: Transaction, table_id: UUID | None, limit: int) -> list[SharedBasePath]:
    """The first ``limit`` tables in which nothing is deleted because of their base paths, by name."""
    rows = await tx.query(_SHARED_BASE_PATHS, {"table_id": table_id, "limit": limit})
    return [SharedBasePath(table, other) for table, other in rows]


def _decode_column_stats(text: str) -> list[ColumnStats]:
    try:
        rows = _COLUMN_STATS.decode(text)
    except msgspec.DecodeError:
        # No writer may send such a field id, so the digest of the event cannot fit.
        return [ColumnStats(-1)]
    return [
        ColumnStats(
            field_id,
            UNSET if least is None else least,
            UNSET if greatest is None else greatest,
            UNSET if nulls is None else nulls,
        )
        for field_id, least, greatest, nulls in rows
    ]


def _named(events: Sequence[EventKey]) -> dict[str, list[object]]:
    return {
        "table_ids": [table_id for table_id, _ in events],
        "versions": [version for _, version in events],
    }
