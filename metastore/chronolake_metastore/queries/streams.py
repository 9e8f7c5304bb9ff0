"""The streams of a table."""

from __future__ import annotations

from typing import Final
from uuid import UUID

import msgspec

from chronolake_metastore import errors
from chronolake_metastore.domain import table_streams
from chronolake_metastore.domain.context import Context
from chronolake_metastore.domain.steady_clock import by_wall
from chronolake_metastore.domain.table_streams import BufferedCheckpoint, TableStream
from chronolake_metastore.queries import cursors, tables
from chronolake_metastore.store import clocks, streams as stored
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.postgres.transaction import read
from chronolake_model import streams as wire
from chronolake_model.times import Tick, format_time

_FIRST: Final = ""
"""Before all names."""


class _Place(msgspec.Struct, tag="streams", frozen=True, array_like=True, forbid_unknown_fields=True):
    table_id: UUID
    name: str


async def get(ctx: Context, database: Database, table_name: str, name: str) -> wire.Stream:
    """One stream; raises ``TableNotFound`` or ``StreamNotFound``."""
    async with database.reading() as connection:
        table = await tables.find(ctx, connection, table_name)
        streams_by_key = await read(connection, stored.find([(table.name, name)]))
        now = await clocks.now(connection)
    stream = streams_by_key.get((table.table_id, name))
    if stream is None:
        raise errors.StreamNotFound(table.name, name)
    return document(table_streams.show(table, stream, now.wall_offset, with_metadata=True))


async def page(
    ctx: Context, database: Database, table_name: str, limit: int, cursor: str | None
) -> wire.StreamPage:
    """A page of the streams by their names; raises ``TableNotFound`` or ``InvalidCursor``."""
    async with database.reading() as connection:
        table = await tables.find(ctx, connection, table_name)
        place = cursors.in_table(cursor, _Place, table.table_id)
        after = _FIRST if place is None else place.name
        of_page = await stored.page(connection, table.table_id, after, limit)
        now = await clocks.now(connection)
    next_cursor = cursors.encode(_Place(table.table_id, of_page[-1].name)) if len(of_page) == limit else None
    documents = [
        document(table_streams.show(table, stream, now.wall_offset, with_tasks=False)) for stream in of_page
    ]
    return wire.StreamPage(table.name, documents, next_cursor)


def document(shown: TableStream) -> wire.Stream:
    """The stream as the REST API shows it: the end of its lease by the wall clock."""
    stream, waits = shown.stream, shown.waits_until
    return wire.Stream(
        table=shown.table,
        name=stream.name,
        epoch=stream.epoch,
        writer=stream.writer,
        opened_at=format_time(stream.opened_at, shown.tick),
        is_open=stream.is_open,
        lease_seconds=stream.lease_seconds,
        lease_expires_at=by_wall(stream.lease_expires_at, shown.wall_offset),
        waits_until=None if waits is None else by_wall(waits, shown.wall_offset),
        tasks=stream.tasks,
        ended_tasks=shown.ended_tasks,
        acknowledged_checkpoint=stream.acknowledged,
        buffered_files=sum(checkpoint.files for checkpoint in shown.checkpoints),
        buffered_bytes=sum(checkpoint.size_bytes for checkpoint in shown.checkpoints),
        checkpoints=[_buffered(checkpoint, shown.tick) for checkpoint in shown.checkpoints],
        version=stream.version,
    )


def _buffered(checkpoint: BufferedCheckpoint, tick: Tick) -> wire.BufferedCheckpoint:
    return wire.BufferedCheckpoint(
        checkpoint=checkpoint.number,
        requested_time=format_time(checkpoint.requested_time, tick),
        epoch=checkpoint.epoch,
        blocking=checkpoint.is_blocking,
        files=checkpoint.files,
        size_bytes=checkpoint.size_bytes,
        tasks={
            task: wire.TaskReport(
                reports.files,
                reports.size_bytes,
                reports.records,
                reports.last_batch,
                dict(reports.extra_metadata or {}),
            )
            for task, reports in checkpoint.tasks.items()
        },
    )
