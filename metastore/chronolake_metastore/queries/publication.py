"""Publication for Hudi's readers: its status, the lease of the publisher, the steps, and reports.

No commands: there are no events, and no commit waits for them (docs/decisions/0041-publication.md).
"""

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
from chronolake_metastore.domain.clock import Now
from chronolake_metastore.domain.instants import by_wall, format_if, lease_end, seconds_until
from chronolake_metastore.domain.publication import Position, RecordHudiFiles
from chronolake_metastore.domain.publication_steps import Builder, Material, partition_file
from chronolake_metastore.domain.tables import Table
from chronolake_metastore.queries import identity, publication_steps, tables
from chronolake_metastore.queries.publication_steps import Pause
from chronolake_metastore.store import (
    catalog,
    clocks,
    feed,
    partitions as stored_partitions,
    publication as stored,
    readers,
)
from chronolake_metastore.store.event_log import Cursor
from chronolake_metastore.store.pending_plans import Place
from chronolake_metastore.store.postgres.engine import Database, Reader
from chronolake_metastore.store.publication import Changed, Checked, Progress
from chronolake_model import publication as wire
from chronolake_model.publication import PublicationState, PublicationStep
from chronolake_model.times import MICROS_PER_SECOND, Micros, format_time, to_datetime

STEPS_BYTES_MAX: Final = 16 * 1024 * 1024
"""The content of a page of steps; one step may have more."""
PARTITIONS_MAX: Final = 1_000
"""The partitions of a page, which is what one check compares."""
REPORT_LEASE_SECONDS: Final = 60
"""A report that moves the position forwards extends the lease to so long from now."""


class Lease(msgspec.Struct, frozen=True):
    """The outcome of taking a lease: the position; ``is_new`` if another publisher was there before.

    With ``hides``, it is to hide the table.
    """

    table: Table
    position: Position
    version: int
    wall_offset: int
    is_new: bool
    hides: bool


class Target(msgspec.Struct, frozen=True):
    """A table that may be published, and where its files are.

    ``has_work`` says whether a server is to publish events of it, or to hide it. ``is_of_server`` says whether
    servers publish it, and ``is_hidden`` whether it is hidden because publication is off. ``needs_storage`` is
    false if Hudi's readers cannot read a table of its definition: then it only pauses.
    """

    place: Place
    has_work: bool
    is_of_server: bool
    is_hidden: bool
    needs_storage: bool


async def target(database: Database, table_id: UUID) -> Target | None:
    """What a server is to know of a table before it publishes it; None if the table was dropped."""
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
    is_of_server = domain.publisher_of(definition) is wire.Publisher.SERVER
    return Target(
        place,
        has_work=has_work and is_of_server and not domain.is_being_adopted(definition),
        is_of_server=is_of_server,
        is_hidden=is_off and position is not None and position.hidden_at is not None,
        needs_storage=is_off or publishable.obstacle(definition) is None,
    )


async def find_work(database: Database) -> list[UUID]:
    """All tables whose log is ahead of their publication, and those that are hidden, or are to be."""
    async with database.reading() as connection:
        return await stored.find_work(connection)


async def end_of_log(database: Database) -> Cursor:
    """Behind the last event of all that no open transaction can still precede."""
    async with database.reading() as connection:
        return await feed.end(connection)


async def changed_tables(database: Database, after: Cursor, limit: int) -> Changed:
    """The tables of the first so many events behind a place in the order across tables."""
    async with database.reading() as connection:
        return await stored.changed_tables(connection, after, limit)


async def totals(database: Database) -> tuple[float, int]:
    """The age, in seconds, of the oldest event that is not published, and how many tables are paused."""
    async with database.reading() as connection:
        oldest, paused = await stored.totals(connection)
        now = await clocks.now(connection)
    return 0.0 if oldest is None else max(now.wall - oldest, 0) / MICROS_PER_SECOND, paused


async def status(database: Database, table_name: str) -> wire.Publication:
    """How far a table is published; raises ``TableNotFound``."""
    async with database.reading() as connection:
        table = await tables.find(connection, table_name)
        progress = await stored.get(connection, table.table_id)
        return document(table, progress, await clocks.now(connection))


async def take_lease(database: Database, table_name: str, body: wire.TakePublicationLease) -> Lease:
    """Become the publisher; raises ``TableNotFound``, ``LeaseLive``, or ``NotPublished``.

    The last one holds while the table is off, paused or being adopted.

    While publication is off, a table that a publisher has begun has a lease to hide it. If it is hidden
    already, the publisher looks whether ``hoodie.properties`` is there again.
    """
    async with database.committing() as connection:
        table = await tables.find(connection, table_name)
        if domain.is_being_adopted(table.definition):
            raise errors.NotPublished(table.name, properties.UNFINISHED)
        hides = domain.is_off(table.definition)
        if hides:
            position = (await stored.get(connection, table.table_id)).position
            if position is None or not position.was_begun:
                raise errors.NotPublished(table.name, _off_reason(table, position))
        await identity.refuse_foreign_database(connection)
        # No clean is planned meanwhile: it would not see what this publication needs.
        await readers.lock_shared(connection, table.table_id)
        await stored.lock(connection, table.table_id, table.created_at)
        progress = await stored.get(connection, table.table_id)
        assert progress.position is not None
        now = await clocks.now(connection)
        _refuse_other_publisher(table, progress.position, body.publisher, now.steady)
        position = progress.position
        if not hides:
            position = await _unpaused(connection, table, position, now.wall)
        is_new = position.publisher != body.publisher
        is_granted = hides or position.paused_version is None
        if is_granted:
            position = _granted(position, body, now.steady, hides=hides)
        await stored.save(connection, table.table_id, position)
    if not is_granted:
        raise errors.NotPublished(table.name, f"publication is paused: {position.paused_reason}")
    return Lease(table, position, progress.version, now.wall_offset, is_new, hides)


def _granted(position: Position, body: wire.TakePublicationLease, now: Micros, *, hides: bool) -> Position:
    """The position with the lease. One that hides the table, or shows it again, is of an epoch of its own."""
    is_new = position.publisher != body.publisher or hides or position.hidden_at is not None
    # Only a report with progress extends a lease: taking it again does not.
    is_live = position.is_leased(now)
    return msgspec.structs.replace(
        position,
        epoch=position.epoch + is_new,
        publisher=body.publisher,
        lease_expires_at=position.lease_expires_at if is_live else lease_end(now, body.lease_seconds),
        hidden_at=position.hidden_at if hides else None,
    )


async def _unpaused(connection: Reader, table: Table, position: Position, now: Micros) -> Position:
    """The position once it is known whether Hudi's readers can read the table as it is.

    A table that they could not read for a while is hidden from them until it is published up to its present
    version, and so is one that was never published, because files of its earlier states may be gone.
    """
    was_hidden = position.published_version == 0 or position.hidden_at is not None
    hides = was_hidden or await _was_off(connection, table, position)
    if position.paused_version is None and not hides:
        return position
    # A compaction that begins now waits until this is decided (commands/publication.py).
    version = await stored.lock_clock(connection, table.table_id)
    last = await clocks.last_time(connection, table.table_id)
    reason = await publication_steps.head_reason(connection, table, last)
    if reason is None:
        return msgspec.structs.replace(
            position, hidden_until=version, paused_version=None, paused_reason=None, paused_since=None
        )
    return msgspec.structs.replace(
        position,
        paused_version=position.paused_version or position.published_version + 1,
        paused_reason=reason,
        paused_since=position.paused_since or now,
        lease_expires_at=None,
    )


async def _was_off(connection: Reader, table: Table, position: Position) -> bool:
    """Whether publication was off since: cleans did not keep the files that the published state needs."""
    definitions = await publication_steps.definitions_behind(connection, table, position.published_version)
    return any(map(domain.is_off, definitions))


def _refuse_other_publisher(table: Table, position: Position, publisher: str, now: Micros) -> None:
    if position.is_leased(now) and position.publisher != publisher:
        assert position.lease_expires_at is not None
        seconds_left = seconds_until(position.lease_expires_at, now)
        raise errors.LeaseLive(
            f"{table.name!r} is published by {position.publisher!r}, whose lease runs for another "
            f"{seconds_left} s; it publishes what has completed by then: wait until the publication has "
            "reached your instant",
            table=table.name,
            publisher=position.publisher,
            lease_seconds_left=seconds_left,
        )


async def steps(database: Database, table_name: str, after: int) -> wire.PublicationSteps:
    """The steps behind a version; raises ``TableNotFound``, or ``NotPublished`` when it pauses there.

    Few pages are made at a time, because one may take much memory; the others wait.
    """
    async with database.publication_slots:
        return await _page_of_steps(database, table_name, after)


async def _page_of_steps(database: Database, table_name: str, after: int) -> wire.PublicationSteps:
    async with database.reading() as connection:
        table = await tables.find(connection, table_name)
        if domain.is_off(table.definition):
            raise errors.NotPublished(table.name, _off_reason(table, None))
        progress = await stored.get(connection, table.table_id)
        hidden_until = None if progress.position is None else progress.position.hidden_until
        # What is published already was readable, or is not shown any more.
        published = 0 if progress.position is None else progress.position.published_version
        page = await publication_steps.load(connection, table, after, max(hidden_until or 0, published))
    if page.pause is not None and not page.material.events:
        await _pause(database, table, page.pause)
        raise errors.NotPublished(table.name, f"publication is paused: {page.pause.reason}")
    # Many instants take a while, and the loop serves others meanwhile.
    made, version = await asyncio.to_thread(_bounded, page.material, hidden_until, after)
    return wire.PublicationSteps(
        table=table.name,
        table_id=str(table.table_id),
        steps=made,
        version=version,
        is_last=version >= progress.version,
        is_hidden=hidden_until is not None and after < hidden_until,
    )


async def files(database: Database, table_name: str, after: int) -> wire.PublicationFiles:
    """What the published events behind a version have left in ``.hoodie``; raises ``TableNotFound``."""
    async with database.reading() as connection:
        table = await tables.find(connection, table_name)
        position = (await stored.get(connection, table.table_id)).position
        until = 0 if position is None else position.published_version
        adoption = table.definition.adoption
        if adoption is not UNSET and adoption.is_published:
            after = max(after, adoption.version)
        if position is None or until < after:
            return wire.PublicationFiles(table.name, {}, [], after, is_last=True)
        material = await publication_steps.load_names(connection, table, after, until)
    builder = Builder(material)
    written: dict[str, int] = {}
    removed: list[str] = []
    for version, path, is_written in builder.names():
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
    )


async def partitions(database: Database, table_name: str, after: str) -> wire.PublicationPartitions:
    """The metadata of the published partitions behind a path; raises ``TableNotFound``."""
    async with database.reading() as connection:
        table = await tables.find(connection, table_name)
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
    """The first steps up to so many bytes, one at least, and the version that they lead to."""
    made: list[PublicationStep] = []
    size = 0
    for step in Builder(material).steps(hidden_until):
        size += sum(len(file.content) for file in step.writes)
        if made and size > STEPS_BYTES_MAX:
            return made, made[-1].version
        made.append(step)
    return made, material.events[-1].version if material.events else after


async def _pause(database: Database, table: Table, pause: Pause) -> None:
    async with database.committing() as connection:
        now = await clocks.now(connection)
        await stored.pause(connection, table.table_id, pause.version, pause.reason, now.wall)


async def report(database: Database, table_name: str, body: wire.ReportPublication) -> wire.Publication:
    """Record that the steps up to a version are executed; raises ``TableNotFound``, ``PublicationFenced``.

    Raises ``IllegalTransition`` for a version that the log does not have.
    """
    async with database.committing() as connection:
        table = await tables.find(connection, table_name)
        progress = await stored.get(connection, table.table_id)
        now = await clocks.now(connection)
        if body.version > progress.version:
            raise errors.IllegalTransition(
                f"the log of {table.name!r} ends at version {progress.version}, not at {body.version}: nothing "
                "later was executed; read the position, and continue there",
                table=table.name,
                version=progress.version,
            )
        reported = {
            "publisher": body.publisher,
            "epoch": body.epoch,
            "version": body.version,
            "now": now.wall,
            "lease_expires_at": lease_end(now.steady, REPORT_LEASE_SECONDS),
            "release": body.release,
            "hidden": body.hidden,
        }
        checked = None if body.foreign_files is None else Checked(body.foreign_files, body.check_position)
        if not await stored.report(connection, table.table_id, reported, checked):
            raise errors.PublicationFenced(table.name, body.publisher)
        return document(table, await stored.get(connection, table.table_id), now)


async def files_to_record(
    database: Database, table_name: str, body: wire.ReportPublication
) -> RecordHudiFiles | None:
    """The command that records the foreign files of a report; None when there is nothing to record.

    The command decides that again, under its lock. Without this look, each report would leave an outcome.
    """
    if body.foreign_files is None:
        return None
    command = RecordHudiFiles(table_name, body.foreign_files, body.foreign_files_total)
    async with database.reading() as connection:
        table = await tables.find(connection, table_name)
        last = await stored.found(connection, table.table_id)
        event = domain.record_files(last, command, (await clocks.now(connection)).wall)
    return None if event is None else command


async def has_files(database: Database, table_id: UUID) -> bool:
    """Whether a completed instant of a table ever had files."""
    async with database.reading() as connection:
        return await stored.has_files(connection, table_id)


async def fail(database: Database, table_name: str, publisher: str, failure: str) -> None:
    """Record why a server could not publish a table, and end its lease; raises ``TableNotFound``.

    Of a table that was never published, also whether it pauses: the log says so without the storage.
    """
    async with database.committing() as connection:
        table = await tables.find(connection, table_name)
        await stored.lock(connection, table.table_id, table.created_at)
        position = (await stored.get(connection, table.table_id)).position
        assert position is not None
        now = await clocks.now(connection)
        is_off = domain.is_off(table.definition)
        if position.published_version == 0 and not position.is_leased(now.steady) and not is_off:
            await stored.save(
                connection, table.table_id, await _unpaused(connection, table, position, now.wall)
            )
        await stored.fail(connection, table.table_id, table.created_at, publisher, failure)


def document_of_lease(lease: Lease) -> wire.PublicationLease:
    """The lease as the REST API shows it."""
    position, adoption = lease.position, lease.table.definition.adoption
    is_of_hudi = adoption is not UNSET and adoption.is_published
    assert position.publisher is not None
    assert position.lease_expires_at is not None
    return wire.PublicationLease(
        table=lease.table.name,
        table_id=str(lease.table.table_id),
        publisher=position.publisher,
        epoch=position.epoch,
        published_version=position.published_version,
        version=lease.version,
        is_new=lease.is_new,
        lease_expires_at=by_wall(position.lease_expires_at, lease.wall_offset),
        check_position=position.check_position,
        files_since=None if is_of_hudi else format_time(lease.table.created_at),
        hides=lease.hides,
    )


def document(table: Table, progress: Progress, now: Now) -> wire.Publication:
    """How far a table is published, as the REST API shows it."""
    position = progress.position
    state, reason = _state(table, position)
    published = 0 if position is None else position.published_version
    lag = 0.0 if progress.oldest is None else max(now.wall - progress.oldest, 0) / MICROS_PER_SECOND
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
    )


def _state(table: Table, position: Position | None) -> tuple[PublicationState, str | None]:
    if domain.is_off(table.definition):
        return PublicationState.OFF, _off_reason(table, position)
    if domain.is_being_adopted(table.definition):
        return PublicationState.PAUSED, properties.UNFINISHED
    if position is not None and position.paused_reason is not None:
        return PublicationState.PAUSED, position.paused_reason
    obstacle = publishable.obstacle(table.definition)
    return (PublicationState.PUBLISHING, None) if obstacle is None else (PublicationState.PAUSED, obstacle)


def _is_shown(position: Position) -> bool:
    return position.hidden_until is None and position.hidden_at is None


def _off_reason(table: Table, position: Position | None) -> str:
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
