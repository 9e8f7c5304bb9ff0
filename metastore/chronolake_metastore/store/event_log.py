"""The log: events are appended, and read in order."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec import UNSET

from chronolake_metastore.domain import files
from chronolake_metastore.domain.changes import WrittenFiles
from chronolake_metastore.domain.events import Event
from chronolake_metastore.domain.stored_events import StoredEvent
from chronolake_metastore.store.postgres import statements
from chronolake_metastore.store.postgres.pooled import Connection
from chronolake_metastore.store.postgres.transaction import Statement, Transaction
from chronolake_model.deletable import LogHead
from chronolake_model.files import WriteStat
from chronolake_model.times import Micros

_APPEND: Final = statements.load("events/append")
_APPEND_WRITE_STATS: Final = statements.load("write_stats/append")
_READ: Final = """
    SELECT
        table_id, version, micros(time), micros(instant), actor, request_id, type, payload::text,
        previous_hash, hash, answers, answers_hash, payload_bytes, position, transaction_id::text
    FROM event
    WHERE (event.transaction_id, event.position) > (%(transaction_id)s::xid8, %(position)s)
        AND event.transaction_id < coalesce(%(horizon)s::xid8, '18446744073709551615')
        -- Not for the planner: the order of the primary key must be followed, also for one table.
        AND (%(table_id)s::uuid IS NULL OR event.table_id = %(table_id)s)
    -- Said in full: a bare transaction_id would be the text above, and "1000" sorts before "999".
    ORDER BY event.transaction_id, event.position
    LIMIT %(limit)s
"""
_FIND_HEAD: Final = statements.load("events/find_head")
_HORIZON: Final = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text"
_IS_AHEAD: Final = (
    "SELECT EXISTS (SELECT FROM event WHERE transaction_id >= pg_snapshot_xmax(pg_current_snapshot()))"
)
_READ_PAGE: Final = 1_000
_STAT_COLUMNS: Final = (
    "partition_path",
    "file_id",
    "file_name",
    "size_bytes",
    "records",
    "inserts",
    "updates",
    "deletes",
)
_stat_values: Final = operator.attrgetter(*_STAT_COLUMNS)


def append(events: Sequence[Event]) -> Statement:
    """Append ``events``, in their order."""
    # Instants that are begun together have one payload, which is stored once.
    runs = [list(run) for _, run in itertools.groupby(events, key=_identity_of_payload)]
    payloads = [run[0].encoded for run in runs]
    return _APPEND, {
        "table_id": [event.table_id for event in events],
        "version": [event.version for event in events],
        "type": [event.type for event in events],
        "instant": [event.instant for event in events],
        "time": [event.time for event in events],
        "actor": [event.actor for event in events],
        "request_id": [event.request_id for event in events],
        "payload": [payload.decode() for payload in payloads],
        "payload_events": list(map(len, runs)),
        "payload_bytes": [len(payload) for run, payload in zip(runs, payloads, strict=True) for _ in run],
        "previous_hash": [event.previous_hash for event in events],
        "hash": [event.hash for event in events],
        "answers": [event.answers for event in events],
        "answers_hash": [event.answers_hash for event in events],
    }


def _identity_of_payload(event: Event) -> int:
    return id(event.payload)


def append_write_stats(written: Sequence[WrittenFiles]) -> Statement:
    """Append the files that were staged or published."""
    rows = [
        (entry.table_id, entry.version, ordinal, stat)
        for entry in written
        for ordinal, stat in enumerate(entry.write_stats)
    ]
    parameters: dict[str, list[object]] = {
        "table_id": [table_id for table_id, _, _, _ in rows],
        "version": [version for _, version, _, _ in rows],
        "ordinal": [ordinal for _, _, ordinal, _ in rows],
        "kind": [files.kind_of(stat).value for _, _, _, stat in rows],
    }
    columns = zip(*map(_stat_values, (stat for _, _, _, stat in rows)), strict=True)
    parameters |= {name: list(column) for name, column in zip(_STAT_COLUMNS, columns, strict=True)}
    parameters["column_stats"] = [_column_stats(stat) for _, _, _, stat in rows]
    parameters["has_field_ids"] = [_has_field_ids(stat) for _, _, _, stat in rows]
    return _APPEND_WRITE_STATS, parameters


def _column_stats(stat: WriteStat) -> str | None:
    if stat.column_stats is UNSET:
        return None
    # Without the names, and with null for what is unknown: half the bytes.
    rows = [
        [None if value is UNSET else value for value in msgspec.structs.astuple(stats)]
        for stats in stat.column_stats
    ]
    return msgspec.json.encode(rows).decode()


def _has_field_ids(stat: WriteStat) -> bool | None:
    return None if stat.has_field_ids is UNSET else stat.has_field_ids


async def head(connection: Connection, table_id: UUID, recorded: LogHead | None) -> tuple[LogHead, bool | None]:
    """The head of a table's log, and whether the log has the ``recorded`` event; None if it has left."""
    version, event_hash = (None, None) if recorded is None else (recorded.version, recorded.hash)
    named = {"table_id": table_id, "version": version, "hash": event_hash}
    [[head_version, head_hash, has_recorded]] = await connection.execute(_FIND_HEAD, named)
    return LogHead(head_version, head_hash), has_recorded


class Cursor(msgspec.Struct, frozen=True):
    """A place in the order across tables: after the event of this transaction and position."""

    transaction_id: str = "0"
    position: int = 0


class Page(msgspec.Struct, frozen=True):
    """Events in the order across tables; ``end`` is the place after the last of them."""

    events: Sequence[StoredEvent]
    end: Cursor


async def read(
    tx: Transaction, after: Cursor, *, horizon: str | None = None, table_id: UUID | None = None
) -> Page:
    """The next page of events in the order across tables, of all of them or of one table.

    Within a table the order is that of its versions. A reader needs the ``horizon`` while others append.
    Without it this reads all events, for a log to which nothing is appended.
    """
    rows = await tx.query(
        _READ,
        {
            "transaction_id": after.transaction_id,
            "position": after.position,
            "horizon": horizon,
            "table_id": table_id,
            "limit": _READ_PAGE,
        },
    )
    end = Cursor(transaction_id=rows[-1][-1], position=rows[-1][-2]) if rows else after
    return Page([_stored(row) for row in rows], end)


async def is_ahead_of_transactions(connection: Connection) -> bool:
    """Whether an event has a transaction id that this PostgreSQL has not given out yet."""
    ahead = await connection.execute(_IS_AHEAD)
    return bool(ahead.scalar_one())


async def horizon(tx: Transaction) -> str:
    """The oldest open transaction. No event can appear any more before it in the order across tables."""
    [[oldest]] = await tx.query(_HORIZON, {})
    return str(oldest)


def _stored(row: tuple[Any, ...]) -> StoredEvent:
    (
        table_id,
        version,
        time,
        instant,
        actor,
        request_id,
        name,
        payload,
        previous_hash,
        digest,
        *answer_columns,
    ) = row
    answers, answers_hash, payload_bytes, _, transaction_id = answer_columns
    return StoredEvent(
        table_id=table_id,
        version=version,
        time=Micros(time),
        instant=None if instant is None else Micros(instant),
        actor=actor,
        request_id=request_id,
        type=name,
        payload=payload,
        previous_hash=bytes(previous_hash),
        hash=bytes(digest),
        answers=answers,
        answers_hash=None if answers_hash is None else bytes(answers_hash),
        transaction_id=int(transaction_id),
        payload_bytes=payload_bytes,
    )
