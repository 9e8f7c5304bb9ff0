"""Streams as the REST API shows them."""

from __future__ import annotations

from chronolake_metastore.domain.instants import by_wall
from chronolake_metastore.domain.streams import Checkpoint, Stream, waits_until
from chronolake_metastore.domain.tables import Table
from chronolake_model import streams as wire
from chronolake_model.times import format_time


def document(
    table: Table, stream: Stream, wall_offset: int, *, with_tasks: bool = True, with_metadata: bool = False
) -> wire.Stream:
    """The stream as the REST API shows it: the end of its lease by the wall clock.

    An answer to a command is kept for good, so it has no metadata of tasks.
    """
    tick = table.definition.tick
    buffer = [
        _buffered(
            table, number, checkpoint, _tasks(checkpoint, with_metadata=with_metadata) if with_tasks else {}
        )
        for number, checkpoint in sorted(stream.checkpoints.items())
    ]
    waits = waits_until(table, stream)
    return wire.Stream(
        table=table.name,
        name=stream.name,
        epoch=stream.epoch,
        writer=stream.writer,
        opened_at=format_time(stream.opened_at, tick),
        is_open=stream.is_open,
        lease_seconds=stream.lease_seconds,
        lease_expires_at=by_wall(stream.lease_expires_at, wall_offset),
        waits_until=None if waits is None else by_wall(waits, wall_offset),
        tasks=stream.tasks,
        ended_tasks=len(stream.ended),
        acknowledged_checkpoint=stream.acknowledged,
        buffered_files=sum(checkpoint.files for checkpoint in buffer),
        buffered_bytes=sum(checkpoint.size_bytes for checkpoint in buffer),
        checkpoints=buffer,
        version=stream.version,
    )


def _tasks(checkpoint: Checkpoint, *, with_metadata: bool) -> dict[str, wire.TaskReport]:
    return {
        task: wire.TaskReport(
            report.files,
            report.size_bytes,
            report.records,
            report.last_batch,
            dict(report.extra_metadata or {}) if with_metadata else {},
        )
        for task, report in sorted(checkpoint.tasks.items())
    }


def _buffered(
    table: Table, number: int, checkpoint: Checkpoint, tasks: dict[str, wire.TaskReport]
) -> wire.BufferedCheckpoint:
    reports = checkpoint.tasks.values()
    return wire.BufferedCheckpoint(
        checkpoint=number,
        requested_time=format_time(checkpoint.requested_time, table.definition.tick),
        epoch=checkpoint.epoch,
        blocking=checkpoint.is_blocking,
        files=sum(report.files for report in reports),
        size_bytes=sum(report.size_bytes for report in reports),
        tasks=tasks,
    )
