"""Publication for Hudi's readers: its status, its steps, and what it has left in storage."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Final
from uuid import UUID

import msgspec
from msgspec import UNSET

from chronolake_hudi import publishable
from chronolake_metastore import errors
from chronolake_metastore.domain import properties, publication as domain
from chronolake_metastore.domain.active_window import ADVICE, Border, HeldBy
from chronolake_metastore.domain.context import Context
from chronolake_metastore.domain.events import Now
from chronolake_metastore.domain.instants import format_if
from chronolake_metastore.domain.publication import Position, RecordHudiFiles
from chronolake_metastore.domain.publication_steps import (
    Builder,
    Material,
    partition_file,
    requested_time_of,
)
from chronolake_metastore.domain.steady_clock import by_wall
from chronolake_metastore.domain.tables import Table
from chronolake_metastore.queries import archived, publication_log, publication_steps, tables
from chronolake_metastore.queries.publication_log import ArchivedRows, Logs
from chronolake_metastore.queries.publication_steps import Pause, StepPage
from chronolake_metastore.store import (
    catalog,
    clocks,
    partitions as stored_partitions,
    publication as stored,
    published_history,
)
from chronolake_metastore.store.event_log import Cursor
from chronolake_metastore.store.pending_plans import Place
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.postgres.pooled import Connection
from chronolake_metastore.store.publication import Changed, PublicationProgress
from chronolake_model import publication as wire
from chronolake_model.publication import PublicationState, PublicationStep
from chronolake_model.times import MICROS_PER_SECOND, Micros, Tick, format_time, parse_time, to_datetime

STEPS_BYTES_MAX: Final = 16 * 1024 * 1024
"""The content of a page of steps; one step may have more."""
PARTITIONS_MAX: Final = 1_000
"""The partitions of a page, which is what one check compares."""


class Target(msgspec.Struct, frozen=True):
    """A table that may be published, and where its files are.

    ``has_work`` says whether a server is to publish events of it, or to hide it. ``is_of_server`` says whether
    servers publish it, and ``is_hidden`` whether it is hidden because publication is off. ``needs_storage`` is
    false if Hudi's readers cannot read a table of its definition: then it only pauses. ``waits_for_change``
    says whether only a change of the definition can bring work.
    """

    place: Place
    has_work: bool
    is_of_server: bool
    is_hidden: bool
    needs_storage: bool
    waits_for_change: bool = False


async def target(database: Database, table_id: UUID) -> Target | None:
    """Facts about a table that a server needs before it publishes the table; None if it was dropped."""
    async with database.reading() as connection:
        place = await stored.place(connection, table_id)
        table = None if place is None else await catalog.get_table(connection, place.table)
        if place is None or table is None or table.table_id != table_id:
            return None
        progress = await stored.get(connection, table_id)
    definition, position = table.definition, progress.position
    is_off = domain.is_off(definition)
    if is_off:
        has_work = position is not None and position.may_be_seen
    else:
        has_work = progress.version > (0 if position is None else position.published_version)
        has_work |= position is not None and domain.is_history_due(
            definition, position, position.published_version
        )
    is_of_server = domain.publisher_of(definition) is wire.Publisher.SERVER
    is_hidden = is_off and position is not None and position.hidden_at is not None
    return Target(
        place,
        has_work=has_work and is_of_server and not domain.is_being_adopted(definition),
        is_of_server=is_of_server,
        is_hidden=is_hidden,
        waits_for_change=not is_of_server or (is_off and not has_work and not is_hidden),
        needs_storage=is_off or publishable.obstacle(definition) is None,
    )


async def find_work(database: Database) -> list[UUID]:
    """All tables whose log is ahead of their publication, and those that are hidden, or are to be."""
    async with database.reading() as connection:
        return await stored.find_work(connection)


async def end_of_log(database: Database) -> Cursor:
    """The place after the last event that no open transaction can still precede."""
    async with database.reading() as connection:
        return await archived.end_of(database, connection)


async def changed_tables(database: Database, after: Cursor, limit: int) -> Changed:
    """The tables of the first ``limit`` events after a place in the order across tables."""
    async with database.reading() as connection:
        return await stored.changed_tables(connection, after, limit)


async def totals(database: Database) -> tuple[float, int]:
    """The age, in seconds, of the oldest event that is not published, and how many tables are paused."""
    async with database.reading() as connection:
        oldest, paused = await stored.totals(connection)
        now = await clocks.now(connection)
    return 0.0 if oldest is None else _age(oldest, now), paused


async def held_timelines(database: Database) -> dict[HeldBy, float]:
    """For metrics: of each cause, the age, in seconds, of the oldest instant that holds an active timeline."""
    async with database.reading() as connection:
        oldest = await published_history.oldest_blockers(connection)
        now = await clocks.now(connection)
    return {held_by: _age(time, now) for held_by, time in oldest.items()}


async def status(ctx: Context, database: Database, table_name: str) -> wire.Publication:
    """How far a table is published; raises ``TableNotFound``."""
    async with database.reading() as connection:
        table = await tables.find(ctx, connection, table_name)
        progress = await stored.get(connection, table.table_id)
        return document(table, progress, await clocks.now(connection))


async def steps(ctx: Context, database: Database, table_name: str, after: int) -> wire.PublicationSteps:
    """The steps after a version; raises ``TableNotFound``, or ``NotPublished`` when publication pauses there.

    Few pages are made at a time, because one may take much memory; the others wait.
    """

    async def read(archived_rows: ArchivedRows) -> wire.PublicationSteps:
        async with database.publication_slots:
            return await _page_of_steps(ctx, database, table_name, after, archived_rows)

    return await publication_log.read(database, read)


async def find_pause(ctx: Context, database: Database, table_name: str, after: int) -> Pause | None:
    """The pause that follows a version, or the position of the table if that is later; None if none does.

    Raises ``TableNotFound``.
    """

    async def read(archived_rows: ArchivedRows) -> Pause | None:
        async with database.publication_slots, publication_log.reading(database, archived_rows) as logs:
            table, progress = await _find(ctx, logs.connection, table_name)
            if domain.is_off(table.definition):
                return None
            page = await _load_page(logs, table, progress, max(after, _published(progress)))
        return page.pause if not page.material.events else None

    return await publication_log.read(database, read)


async def _page_of_steps(
    ctx: Context, database: Database, table_name: str, after: int, archived_rows: ArchivedRows
) -> wire.PublicationSteps:
    async with publication_log.reading(database, archived_rows) as logs:
        table, progress = await _find(ctx, logs.connection, table_name)
        if domain.is_off(table.definition):
            raise errors.NotPublished(table.name, off_reason(table, None))
        page = await _load_page(logs, table, progress, after)
    if page.pause is not None and not page.material.events:
        raise errors.NotPublished(table.name, f"publication is paused: {page.pause.reason}")
    # Many instants take a while, and the loop serves others meanwhile.
    hidden_until = _hidden_until(progress)
    made, version = await asyncio.to_thread(_bounded, page.material, hidden_until, after)
    return wire.PublicationSteps(
        table=table.name,
        table_id=str(table.table_id),
        steps=made,
        version=version,
        is_last=version >= progress.version,
        is_hidden=hidden_until is not None and after < hidden_until,
    )


async def _find(ctx: Context, connection: Connection, table_name: str) -> tuple[Table, PublicationProgress]:
    table = await tables.find(ctx, connection, table_name)
    return table, await stored.get(connection, table.table_id)


async def _load_page(logs: Logs, table: Table, progress: PublicationProgress, after: int) -> StepPage:
    # What is published already was readable, or is not shown any more.
    hidden_until = max(_hidden_until(progress) or 0, _published(progress))
    return await publication_steps.load(logs, table, after, hidden_until)


def _published(progress: PublicationProgress) -> int:
    return 0 if progress.position is None else progress.position.published_version


def _hidden_until(progress: PublicationProgress) -> int | None:
    return None if progress.position is None else progress.position.hidden_until


async def files(ctx: Context, database: Database, table_name: str, after: int) -> wire.PublicationFiles:
    """The files in ``.hoodie`` by the published events after a version; raises ``TableNotFound``."""

    async def read(archived_rows: ArchivedRows) -> wire.PublicationFiles:
        return await _files(ctx, database, table_name, after, archived_rows)

    return await publication_log.read(database, read)


async def _files(
    ctx: Context, database: Database, table_name: str, after: int, archived_rows: ArchivedRows
) -> wire.PublicationFiles:
    async with publication_log.reading(database, archived_rows) as logs:
        table, progress = await _find(ctx, logs.connection, table_name)
        position = progress.position
        until = 0 if position is None else position.published_version
        adoption = table.definition.adoption
        if adoption is not UNSET and table.definition.has_timeline_of_hudi:
            after = max(after, adoption.version)
        if position is None or until == 0 or until < after:
            return wire.PublicationFiles(table.name, {}, [], after, is_last=True)
        before = None if position.border.written is None else position.border.written.before
        if before is not None:
            log = await logs.of_table(table.table_id)
            after = max(after, await log.version_before(parse_time(before)))
        material = await publication_steps.load_names(logs, table, after, until)
    builder = Builder(material)
    written: dict[str, int] = {}
    removed: list[str] = []
    for version, path, is_written in builder.names():
        if before is not None and requested_time_of(path) < before:
            continue
        if is_written:
            written[path] = version
        else:
            written.pop(path, None)
            removed.append(path)
    version = material.events[-1].version if material.events else until
    return wire.PublicationFiles(
        table=table.name,
        written=written,
        removed=removed,
        version=version,
        is_last=version >= until,
        properties=builder.properties() if _is_shown(position) else None,
        adopted_at=None if adoption is UNSET else format_time(adoption.time),
        history=position.border.written,
    )


async def partitions(
    ctx: Context, database: Database, table_name: str, after: str
) -> wire.PublicationPartitions:
    """The metadata of the published partitions after a path; raises ``TableNotFound``."""
    async with database.reading() as connection:
        table = await tables.find(ctx, connection, table_name)
        position = (await stored.get(connection, table.table_id)).position
        if position is None or not position.published_version:
            return wire.PublicationPartitions(table.name, [], "")
        paths = await stored_partitions.page_of_paths(
            connection, table.table_id, after, PARTITIONS_MAX, position.published_completion
        )
    return wire.PublicationPartitions(
        table.name,
        [partition_file(path, table.created_at) for path in paths],
        paths[-1] if len(paths) == PARTITIONS_MAX else "",
    )


def _bounded(material: Material, hidden_until: int | None, after: int) -> tuple[list[PublicationStep], int]:
    """The first steps up to ``STEPS_BYTES_MAX``, at least one, and the version that they lead to."""
    made: list[PublicationStep] = []
    size = 0
    for step in Builder(material).steps(hidden_until):
        size += sum(len(file.content) for file in step.writes)
        if made and size > STEPS_BYTES_MAX:
            return made, made[-1].version
        made.append(step)
    return made, material.events[-1].version if material.events else after


async def files_to_record(
    ctx: Context, database: Database, table_name: str, body: wire.ReportPublication
) -> RecordHudiFiles | None:
    """The command that records the foreign files of a report; None when there is nothing to record.

    The command decides that again, under its lock. Without this look, each report would leave an outcome.
    """
    if body.foreign_files is None:
        return None
    command = RecordHudiFiles(table_name, body.foreign_files, body.foreign_files_total)
    async with database.reading() as connection:
        table = await tables.find(ctx, connection, table_name)
        last = await stored.found(connection, table.table_id)
        event = domain.record_files(last, command, (await clocks.now(connection)).wall)
    return None if event is None else command


async def is_new(database: Database, table_id: UUID) -> bool:
    """Whether no completed instant of a table ever had files, and the table was never published."""
    async with database.reading() as connection:
        return await stored.is_new(connection, table_id)


def document(table: Table, progress: PublicationProgress, now: Now) -> wire.Publication:
    """How far a table is published, as the REST API shows it."""
    position = progress.position
    state, reason = _state(table, position)
    published = 0 if position is None else position.published_version
    lag = 0.0 if progress.oldest is None else _age(progress.oldest, now)
    completion = position.published_completion if position is not None and published else None
    is_off = state is PublicationState.OFF
    document = wire.Publication(
        table=table.name,
        state=state,
        publishes=domain.publisher_of(table.definition),
        version=progress.version,
        published_version=published,
        published_completion=format_if(completion, table.definition.tick),
        lag_versions=0 if is_off else progress.version - published,
        lag_seconds=0.0 if is_off else lag,
        reason=reason,
    )
    if position is None:
        return document
    expires = position.lease_expires_at if position.is_leased(now.steady) else None
    return msgspec.structs.replace(
        document,
        published_at=_moment(position.published_at),
        is_visible=published > 0 and _is_shown(position),
        paused_since=_moment(position.paused_since),
        # While publication is off, the failure says why the table is not hidden yet.
        failure=position.failure if position.may_be_seen or not is_off else None,
        publisher=None if expires is None else position.publisher,
        lease_expires_at=None if expires is None else by_wall(expires, now.wall_offset),
        foreign_files=position.foreign_files,
        checked_at=_moment(position.checked_at),
        active_timeline=_active_timeline(position.border, table.definition.tick, now),
    )


def _age(time: Micros, now: Now) -> float:
    return max(now.wall - time, 0) / MICROS_PER_SECOND


def _active_timeline(border: Border, tick: Tick, now: Now) -> wire.ActiveTimeline | None:
    if not border.looked_version and border.written is None:
        return None
    written, blocker = border.written, border.blocker
    since = None if blocker is None else blocker.requested_time
    former = None if written is None else written.former
    files = (0 if written is None else len(written.files)) + (0 if former is None else len(former.files))
    return wire.ActiveTimeline(
        before=written.before if written is not None and files else None,
        history_files=files,
        held_by=None if blocker is None else blocker.held_by.value,
        held_since=format_if(since, tick),
        held_seconds=None if since is None else _age(since, now),
        advice=None if blocker is None else ADVICE[blocker.held_by],
    )


def _state(table: Table, position: Position | None) -> tuple[PublicationState, str | None]:
    if domain.is_off(table.definition):
        return PublicationState.OFF, off_reason(table, position)
    if domain.is_being_adopted(table.definition):
        return PublicationState.PAUSED, properties.UNFINISHED
    if position is not None and position.paused_reason is not None:
        return PublicationState.PAUSED, position.paused_reason
    obstacle = publishable.obstacle(table.definition)
    return (PublicationState.PUBLISHING, None) if obstacle is None else (PublicationState.PAUSED, obstacle)


def _is_shown(position: Position) -> bool:
    return position.hidden_until is None and position.hidden_at is None


def off_reason(table: Table, position: Position | None) -> str:
    """Why a table is not published."""
    if table.definition.properties.get(wire.PUBLISH_PROPERTY) != "false":
        return publishable.TICK_OBSTACLE
    reason = f"its property {wire.PUBLISH_PROPERTY} is false"
    if position is not None and position.hidden_at is not None:
        hidden_at = to_datetime(position.hidden_at).isoformat()
        return f"{reason}, and it is hidden from Hudi's readers since {hidden_at}"
    if position is not None and position.may_be_seen:
        return (
            f"{reason}, but it is not hidden from Hudi's readers yet: until a publisher has done that, cleans "
            "keep the files that these readers see; chronolake hudi publish hides it"
        )
    return reason


def _moment(time: Micros | None) -> datetime | None:
    return None if time is None else to_datetime(time)
