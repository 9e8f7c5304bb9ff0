"""Streams as they are shown: with what their table says of them, and the totals of their checkpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import UNSET

from chronolake_metastore.domain.streams import Checkpoint, Stream, TaskReports, waits_until
from chronolake_metastore.domain.tables import Table
from chronolake_model.times import Micros, Tick


class BufferedCheckpoint(msgspec.Struct, frozen=True, omit_defaults=True):
    """A checkpoint with a pending instant, and the totals of its files. ``tasks`` may be left out."""

    number: int
    requested_time: Micros
    epoch: int
    is_blocking: bool
    files: int
    size_bytes: int
    tasks: Mapping[str, TaskReports] = {}


class TableStream(msgspec.Struct, frozen=True):
    """A stream of a table. Its checkpoints, and how many tasks have ended, are beside the ``stream``.

    ``waits_until`` is when the server rolls its checkpoints back. This time, and the end of the lease, are of
    the steady clock; the wall clock is ahead of it by ``wall_offset``.
    """

    table: str
    tick: Tick
    stream: Stream
    checkpoints: Sequence[BufferedCheckpoint]
    ended_tasks: int
    waits_until: Micros | None
    wall_offset: int


def show(
    table: Table, stream: Stream, wall_offset: int, *, with_tasks: bool = True, with_metadata: bool = False
) -> TableStream:
    """The stream. A result of a command is kept for good, so it has no metadata of tasks."""
    checkpoints = [
        _buffered(number, checkpoint, _tasks(checkpoint, with_metadata=with_metadata) if with_tasks else {})
        for number, checkpoint in sorted(stream.checkpoints.items())
    ]
    bare = msgspec.structs.replace(stream, attempts={}, ended=(), checkpoints={})
    waits, ended = waits_until(table, stream), len(stream.ended)
    return TableStream(table.name, table.definition.tick, bare, checkpoints, ended, waits, wall_offset)


def _tasks(checkpoint: Checkpoint, *, with_metadata: bool) -> dict[str, TaskReports]:
    return {
        task: msgspec.structs.replace(
            reports, versions=(), extra_metadata=reports.extra_metadata if with_metadata else UNSET
        )
        for task, reports in sorted(checkpoint.tasks.items())
    }


def _buffered(number: int, checkpoint: Checkpoint, tasks: Mapping[str, TaskReports]) -> BufferedCheckpoint:
    reports = checkpoint.tasks.values()
    return BufferedCheckpoint(
        number=number,
        requested_time=checkpoint.requested_time,
        epoch=checkpoint.epoch,
        is_blocking=checkpoint.is_blocking,
        files=sum(report.files for report in reports),
        size_bytes=sum(report.size_bytes for report in reports),
        tasks=tasks,
    )
