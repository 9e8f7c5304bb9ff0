"""Publication: how far tables are published, and what of the log the next steps need. Rows beside the log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

import msgspec

from chronolake_metastore.domain.active_window import Border
from chronolake_metastore.domain.events import Event, HudiFilesFound, TableAdopted
from chronolake_metastore.domain.publication import (
    UNREADABLE_FILES_MAX,
    FoundFiles,
    Gate,
    Position,
    UnreadableFiles,
)
from chronolake_metastore.domain.publication_steps import LogEvent
from chronolake_metastore.domain.stored_events import PAYLOADS
from chronolake_metastore.store.event_log import Cursor
from chronolake_metastore.store.pending_plans import Place, place_of
from chronolake_metastore.store.postgres import statements
from chronolake_metastore.store.postgres.pooled import Connection
from chronolake_metastore.store.postgres.transaction import Query, Rows, Statement
from chronolake_model import decoding
from chronolake_model.publication import CheckPosition
from chronolake_model.times import Micros

_GET: Final = statements.load("publication/get")
_INSERT: Final = """
    INSERT INTO publication (table_id, published_completion) VALUES (%(table_id)s, moment(%(created_at)s))
    ON CONFLICT DO NOTHING
"""
_LOCK: Final = "SELECT FROM publication WHERE table_id = %(table_id)s FOR UPDATE"
_LOCK_CLOCK: Final = "SELECT version FROM clock WHERE table_id = %(table_id)s FOR UPDATE"
_SAVE: Final = statements.load("publication/save")
_REPORT: Final = statements.load("publication/report")
_PAUSE: Final = statements.load("publication/pause")
_FAIL: Final = """
    UPDATE publication
    SET failure = %(failure)s,
        lease_expires_at = CASE WHEN publisher IS DISTINCT FROM %(publisher)s THEN lease_expires_at END
    WHERE table_id = %(table_id)s
"""
_EVENTS: Final = statements.load("publication/page_of_events")
_CHANGES: Final = statements.load("publication/find_changes_of_table")
_WORK: Final = statements.load("publication/find_work")
_ALTERING: Final = ("TableAdopted", "TableAltered", "TableDropped", "TableSchemaChanged")
_PROGRESSING: Final = ("DeletionsSwept", "FilesDeleted", "InstantCompleted", "InstantRolledBack")
_CHANGED: Final = statements.load("publication/find_changed_tables")
_PLACE: Final = statements.load("publication/find_place")
_COUNTS: Final = statements.load("health/counts")
_UNPUBLISHED: Final = statements.load("health/unpublished")
_TOTALS: Final = statements.load("publication/totals")
_IS_NEW: Final = """
    SELECT NOT EXISTS (SELECT FROM file WHERE table_id = %(table_id)s)
        AND NOT EXISTS (SELECT FROM publication WHERE table_id = %(table_id)s AND published_version > 0)
"""
_UNREADABLE_FILES: Final = """
    SELECT count(*), min(path)
    FROM (
        SELECT concat_ws('/', NULLIF(f.partition_path, ''), f.file_name) AS path
        FROM file f
        WHERE f.table_id = %(table_id)s
            AND f.live_from <= moment(%(time)s)
            AND (f.superseded_at IS NULL OR f.superseded_at > moment(%(time)s))
            AND f.schema_version = ANY (%(schema_versions)s::int[])
            -- An empty base file shows no values. The records of a log file may be deletes.
            AND (f.records > 0 OR f.kind = 'log')
        LIMIT %(files_max)s
    ) AS unreadable
"""
_SHARED_PLAN: Final = statements.load("publication/find_shared_plan")
_HIDDEN_LOG: Final = statements.load("publication/find_hidden_log")
_HAS_LIVE_LOGS: Final = """
    SELECT EXISTS (
        SELECT
        FROM file f
        WHERE f.table_id = %(table_id)s
            AND f.live_from <= moment(%(time)s)
            AND (f.superseded_at IS NULL OR f.superseded_at > moment(%(time)s))
            AND f.kind = 'log'
    )
"""
_FIRST_LIVE_PARTITION: Final = """
    SELECT min(f.partition_path)
    FROM file f
    WHERE f.table_id = %(table_id)s
        AND f.live_from <= moment(%(time)s)
        AND (f.superseded_at IS NULL OR f.superseded_at > moment(%(time)s))
        AND f.partition_path = ANY (%(partition_paths)s::text[])
"""
_FACTS: Final = {
    "find_instants": statements.load("publication/find_instants"),
    "find_lists": statements.load("publication/find_lists"),
    "find_planned_files": statements.load("publication/find_planned_files"),
    "find_purged_compactions": statements.load("publication/find_purged_compactions"),
    "find_pinned": statements.load("publication/find_pinned"),
    "find_last_completed": statements.load("publication/find_last_completed"),
    "find_saved_files": statements.load("publication/find_saved_files"),
    "find_undone_instants": statements.load("publication/find_undone_instants"),
    "find_written_files": statements.load("publication/find_written_files"),
}
_GATE: Final = """
    SELECT published_version, micros(lease_expires_at), paused_version
    FROM publication
    WHERE table_id = %(table_id)s::uuid
"""


_BEGIN_BEHIND: Final = """
    INSERT INTO publication (table_id, published_version, published_completion, published_at, epoch)
    SELECT
        table_id, CASE WHEN is_published THEN version ELSE 0 END, moment(time),
        CASE WHEN is_published THEN moment(time) END, 1
    FROM unnest(%(table_id)s::uuid[], %(version)s::bigint[], %(time)s::bigint[], %(is_published)s::boolean[])
        AS adopted (table_id, version, time, is_published)
"""


_PASS_OVER: Final = statements.load("publication/pass_over")
_FIND_FOUND: Final = """
    SELECT micros(time), payload::text
    FROM event
    WHERE table_id = %(table_id)s::uuid AND type = 'HudiFilesFound'
    ORDER BY version DESC
    LIMIT 1
"""


class PublicationProgress(msgspec.Struct, frozen=True):
    """The position of a table, if a publisher ever began, the version of its log, and the oldest event left."""

    position: Position | None
    version: int
    oldest: Micros | None


class Checked(msgspec.Struct, frozen=True):
    """The findings of a check, and the place where the next one begins."""

    foreign_files: list[str]
    check_position: CheckPosition


class HiddenLog(msgspec.Struct, frozen=True):
    """A log file that a base file of no completed instant hides from Hudi's readers, by the instant of that."""

    live_from: Micros
    partition_path: str
    file_id: str
    hidden_by: Micros


class SharedPlan(msgspec.Struct, frozen=True):
    """A file group that the plan of a compaction has, and that of an undone one too."""

    requested_time: Micros
    partition_path: str
    file_id: str
    undone: Micros


class Changed(msgspec.Struct, frozen=True):
    """Tables with new events, the place after these events, and their number.

    ``altered`` are those whose definition changed, ``progressed`` those where an instant ended or files were
    deleted.
    """

    table_ids: Sequence[UUID]
    altered: Sequence[UUID]
    progressed: Sequence[UUID]
    end: Cursor
    events: int


def find_gate(table_id: UUID) -> Query[Gate | None]:
    """The progress that the execution of a compaction waits for; None if no publisher ever began."""
    return Query(_GATE, {"table_id": table_id}, _gate)


def _gate(rows: Rows) -> Gate | None:
    if not rows:
        return None
    [[published_version, lease_expires_at, paused_version]] = rows
    return Gate(published_version, lease_expires_at, is_paused=paused_version is not None)


def find_found(table_id: UUID) -> Query[FoundFiles | None]:
    """The last event of a table about foreign files."""
    return Query(_FIND_FOUND, {"table_id": table_id}, _found)


async def found(connection: Connection, table_id: UUID) -> FoundFiles | None:
    """As ``find_found``."""
    return _found([tuple(row) for row in await connection.execute(_FIND_FOUND, {"table_id": table_id})])


def _found(rows: Rows) -> FoundFiles | None:
    if not rows:
        return None
    [[time, payload]] = rows
    event = decoding.decode(payload, HudiFilesFound)
    return FoundFiles(Micros(time), event.paths, event.total)


def pass_over(events: Sequence[Event]) -> Statement:
    """Take events that publish nothing as published, where all before them is."""
    return _PASS_OVER, {
        name: [getattr(event, name) for event in events] for name in ("table_id", "version", "time")
    }


def begin_behind(events: Sequence[Event]) -> Statement:
    """Begin the publication of adopted tables, whose readers see what Hudi has published in its own layout."""
    columns = {name: [getattr(event, name) for event in events] for name in ("table_id", "version", "time")}
    published = [isinstance(event.payload, TableAdopted) and event.payload.is_published for event in events]
    return _BEGIN_BEHIND, columns | {"is_published": published}


async def get(connection: Connection, table_id: UUID) -> PublicationProgress:
    """How far a table is published."""
    row = (await connection.execute(_GET, {"table_id": table_id})).one()
    *columns, version, oldest = row
    position = None
    if columns[0] is not None:
        fields = dict(zip(_COLUMNS, columns, strict=True))
        fields["check_position"] = decoding.convert(fields["check_position"], CheckPosition)
        fields["border"] = Border() if fields["border"] is None else decoding.convert(fields["border"], Border)
        position = Position(**fields)
    return PublicationProgress(position, version, None if oldest is None else Micros(oldest))


_COLUMNS: Final = Position.__struct_fields__


async def lock(connection: Connection, table_id: UUID, created_at: Micros) -> None:
    """Lock the position of a table, which is made when the table has none."""
    await connection.execute(_INSERT, {"table_id": table_id, "created_at": created_at})
    await connection.execute(_LOCK, {"table_id": table_id})


async def lock_clock(connection: Connection, table_id: UUID) -> int:
    """Lock the clock of a table until the transaction ends: no command runs meanwhile; gives its version."""
    return int((await connection.execute(_LOCK_CLOCK, {"table_id": table_id})).scalar_one())


async def save(connection: Connection, table_id: UUID, position: Position) -> None:
    """Save the lease and the pause of a position that is locked."""
    named = {name: getattr(position, name) for name in _COLUMNS}
    await connection.execute(_SAVE, {**named, "table_id": table_id})


async def report(
    connection: Connection,
    table_id: UUID,
    reported: Mapping[str, object],
    checked: Checked | None,
    border: Border | None = None,
) -> bool:
    """Move the position forwards; False when the publisher has lost the table to another."""
    encoded: dict[str, str | None] = {"foreign_files": None, "check_position": None}
    if checked is not None:
        encoded = {name: msgspec.json.encode(getattr(checked, name)).decode() for name in encoded}
    history = None if border is None else msgspec.json.encode(border).decode()
    named = {**reported, **encoded, "history": history, "table_id": table_id}
    return bool((await connection.execute(_REPORT, named)).changed)


async def pause(connection: Connection, table_id: UUID, version: int, reason: str, now: Micros) -> None:
    """Pause before a version, which Hudi's readers cannot read. The lease ends."""
    named = {"table_id": table_id, "version": version, "reason": reason, "now": now}
    await connection.execute(_PAUSE, named)


async def fail(
    connection: Connection, table_id: UUID, created_at: Micros, publisher: str, failure: str | None
) -> None:
    """Record why a publisher could not publish; None if that is no failure. Its lease ends, if it has one."""
    await connection.execute(_INSERT, {"table_id": table_id, "created_at": created_at})
    text = None if failure is None else failure[:4_096]
    await connection.execute(_FAIL, {"table_id": table_id, "publisher": publisher, "failure": text})


async def is_new(connection: Connection, table_id: UUID) -> bool:
    """Whether a table was never written, with files superseded or not, and never published."""
    return bool((await connection.execute(_IS_NEW, {"table_id": table_id})).scalar_one())


async def unreadable_files(
    connection: Connection, table_id: UUID, time: Micros, schema_versions: Sequence[int]
) -> UnreadableFiles | None:
    """The files of these schema versions that were live at a time; None if there were none with values."""
    named = {
        "table_id": table_id,
        "time": time,
        "schema_versions": list(schema_versions),
        "files_max": UNREADABLE_FILES_MAX,
    }
    number, path = (await connection.execute(_UNREADABLE_FILES, named)).one()
    return UnreadableFiles(number, path) if number else None


async def find_hidden_log(
    connection: Connection, table_id: UUID, after: Micros, until: Micros, *, live_only: bool = False
) -> HiddenLog | None:
    """The first hidden log file of those that became live in a range, or of all that are live."""
    named = {"table_id": table_id, "after": after, "until": until, "live_only": live_only}
    row = (await connection.execute(_HIDDEN_LOG, named)).one_or_none()
    return None if row is None else HiddenLog(*row)


async def find_shared_plan(
    connection: Connection, table_id: UUID, compactions: Sequence[Micros] | None
) -> SharedPlan | None:
    """The first of some compactions, or of the pending ones, with a file group of an undone one's plan."""
    named = {"table_id": table_id, "requested_times": None if compactions is None else list(compactions)}
    row = (await connection.execute(_SHARED_PLAN, named)).one_or_none()
    return None if row is None else SharedPlan(*row)


async def has_live_logs(connection: Connection, table_id: UUID, time: Micros) -> bool:
    """Whether log files were live at a time."""
    named = {"table_id": table_id, "time": time}
    return bool((await connection.execute(_HAS_LIVE_LOGS, named)).scalar_one())


async def first_live_partition(
    connection: Connection, table_id: UUID, time: Micros, partition_paths: Sequence[str]
) -> str | None:
    """The first of these partitions that had live files at a time."""
    if not partition_paths:
        return None
    named = {"table_id": table_id, "time": time, "partition_paths": list(partition_paths)}
    rows = await connection.execute(_FIRST_LIVE_PARTITION, named)
    path: str | None = rows.scalar_one_or_none()
    return path


async def page_of_events(
    connection: Connection, table_id: UUID, after: int, limit: int, bytes_max: int
) -> list[LogEvent]:
    """The events of a table after a version; about ``bytes_max`` bytes with their files, at least one event."""
    named = {"table_id": table_id, "after": after, "limit": limit, "bytes_max": bytes_max}
    rows = await connection.execute(_EVENTS, named)
    return [log_event(*row) for row in rows]


async def changes_of_table(connection: Connection, table_id: UUID, until: int) -> list[LogEvent]:
    """The events that made the table and changed its name and properties, up to a version."""
    rows = await connection.execute(_CHANGES, {"table_id": table_id, "until": until})
    return [log_event(version, time, None, name, payload) for version, time, name, payload in rows]


def log_event(version: int, time: int, instant: int | None, name: str, payload: str) -> LogEvent:
    """An event as its row has it."""
    decoded = decoding.decode(payload, PAYLOADS[name])
    return LogEvent(version, Micros(time), None if instant is None else Micros(instant), decoded)


async def facts(
    connection: Connection, name: str, table_id: UUID, parameters: Mapping[str, object]
) -> list[tuple[Any, ...]]:
    """The rows of the statement ``publication/<name>``, for the steps of a page of events."""
    rows = await connection.execute(_FACTS[name], {**parameters, "table_id": table_id})
    return [tuple(row) for row in rows]


async def find_work(connection: Connection) -> list[UUID]:
    """All tables whose log is ahead of their publication."""
    return [table_id for (table_id,) in await connection.execute(_WORK)]


async def changed_tables(connection: Connection, after: Cursor, limit: int) -> Changed:
    """The tables of the first ``limit`` events after a place in the order across tables."""
    named = {
        "transaction_id": after.transaction_id,
        "position": after.position,
        "limit": limit,
        "altering": list(_ALTERING),
        "progressing": list(_PROGRESSING),
    }
    row = (await connection.execute(_CHANGED, named)).one()
    transaction_id, position, table_ids, altered, progressed, events = row
    end = after if transaction_id is None else Cursor(transaction_id, position)
    return Changed(table_ids, altered, progressed, end, events)


async def place(connection: Connection, table_id: UUID) -> Place | None:
    """Where the files of a table are; None when it was dropped."""
    row = (await connection.execute(_PLACE, {"table_id": table_id})).one_or_none()
    return None if row is None else place_of(row)


async def counts(connection: Connection, table_ids: Sequence[UUID]) -> dict[UUID, tuple[int, int]]:
    """The log files of the latest slices of tables, and their pending plans."""
    rows = await connection.execute(_COUNTS, {"table_ids": list(table_ids)})
    return {table_id: (log_files, pending_plans) for table_id, log_files, pending_plans in rows}


async def unpublished(connection: Connection, limit: int) -> list[tuple[str, str]]:
    """The first tables that are not published as they are, each with ``paused`` or ``failing``."""
    return [(table, why) for table, why in await connection.execute(_UNPUBLISHED, {"limit": limit})]


async def totals(connection: Connection) -> tuple[Micros | None, int]:
    """The time of the oldest event that is not published, and how many tables are paused."""
    oldest, paused = (await connection.execute(_TOTALS)).one()
    return None if oldest is None else Micros(oldest), int(paused)
