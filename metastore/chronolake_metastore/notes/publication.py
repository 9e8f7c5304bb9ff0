"""Notes of publication for Hudi's readers: the lease of the publisher, reports, pauses, failures.

No commands: there are no events, and no commit waits for them (docs/decisions/0041-publication.md).
"""

from __future__ import annotations

from typing import Final

import msgspec

from chronolake_metastore import errors
from chronolake_metastore.domain import properties, publication as domain
from chronolake_metastore.domain.context import Context
from chronolake_metastore.domain.instants import lease_end, seconds_until
from chronolake_metastore.domain.publication import Position
from chronolake_metastore.domain.steady_clock import by_wall
from chronolake_metastore.domain.tables import Table
from chronolake_metastore.queries import identity, publication as queries, publication_steps, tables
from chronolake_metastore.store import clocks, publication as stored, readers
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.postgres.pooled import Connection
from chronolake_metastore.store.publication import Checked
from chronolake_model import publication as wire
from chronolake_model.times import Micros, format_time

REPORT_LEASE_SECONDS: Final = 60
"""A report that moves the position forwards extends the lease to this number of seconds from now."""


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


async def take_lease(
    ctx: Context, database: Database, table_name: str, body: wire.TakePublicationLease
) -> Lease:
    """Become the publisher; raises ``TableNotFound``, ``LeaseLive``, or ``NotPublished``.

    The last one holds while the table is off, paused or being adopted.

    While publication is off, a table that a publisher has begun has a lease to hide it. If it is hidden
    already, the publisher checks whether ``hoodie.properties`` exists again.
    """
    async with database.committing() as connection:
        table = await tables.find(ctx, connection, table_name)
        if domain.is_being_adopted(table.definition):
            raise errors.NotPublished(table.name, properties.UNFINISHED)
        hides = domain.is_off(table.definition)
        if hides:
            position = (await stored.get(connection, table.table_id)).position
            if position is None or not position.was_begun:
                raise errors.NotPublished(table.name, queries.off_reason(table, position))
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


async def _unpaused(connection: Connection, table: Table, position: Position, now: Micros) -> Position:
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


async def _was_off(connection: Connection, table: Table, position: Position) -> bool:
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


async def report(
    ctx: Context, database: Database, table_name: str, body: wire.ReportPublication
) -> wire.Publication:
    """Record that the steps up to a version are executed; raises ``TableNotFound``, ``PublicationFenced``.

    Raises ``IllegalTransition`` for a version that the log does not have.
    """
    pause = await queries.find_pause(ctx, database, table_name, body.version) if body.paused else None
    async with database.committing() as connection:
        table = await tables.find(ctx, connection, table_name)
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
        border = None
        if body.history is not None:
            await stored.lock(connection, table.table_id, table.created_at)
            position = (await stored.get(connection, table.table_id)).position
            assert position is not None
            try:
                border = position.border.reported(body.history)
            except ValueError as exc:
                raise errors.IllegalTransition(
                    f"{exc}: plan the history of {table.name!r} again, and report what is in storage then",
                    table=table.name,
                    version=progress.version,
                ) from exc
        if not await stored.report(connection, table.table_id, reported, checked, border):
            raise errors.PublicationFenced(table.name, body.publisher)
        if pause is not None:
            await stored.pause(connection, table.table_id, pause.version, pause.reason, now.wall)
        return queries.document(table, await stored.get(connection, table.table_id), now)


async def fail(ctx: Context, database: Database, table_name: str, publisher: str, failure: str | None) -> None:
    """Record why a server could not publish a table, and end its lease; raises ``TableNotFound``.

    ``failure`` is None for a new table, whose folder its first writer makes. Of a table that was never
    published, also whether it pauses: the log says so without the storage.
    """
    async with database.committing() as connection:
        table = await tables.find(ctx, connection, table_name)
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
    position, definition = lease.position, lease.table.definition
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
        files_since=None if definition.has_timeline_of_hudi else format_time(lease.table.created_at),
        hides=lease.hides,
        has_history=position.border.before > 0,
        history_is_due=domain.is_history_due(definition, position, lease.version),
    )
