"""Streams: the checkpoints of a streaming writer, and the instants that they complete.

The buffer of a stream is checkpoint id -> instant -> task -> reports (docs/decisions/0058-streams.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

import msgspec
from msgspec import UNSET, UnsetType

from chronolake_metastore import errors
from chronolake_metastore.domain import instants
from chronolake_metastore.domain.commands import Command
from chronolake_metastore.domain.events import (
    CheckpointAborted,
    CheckpointAcknowledged,
    Event,
    ImpossibleEvent,
    InstantRequested,
    LeaseRenewed,
    Payload,
    ReportOfTask,
    StreamClosed,
    StreamOpened,
    StreamRenewed,
    StreamTaskEnded,
    StreamTaskRestarted,
    WriteStatsStaged,
)
from chronolake_metastore.domain.instants import Instant, lease_end
from chronolake_metastore.domain.properties import STREAM_WAIT_SECONDS
from chronolake_metastore.domain.tables import Table
from chronolake_model.times import MICROS_MAX, MICROS_PER_SECOND, Micros, format_time
from chronolake_model.vocabulary import LEASE_SECONDS_DEFAULT, StreamPlace, WriteSummary

WAIT_SECONDS_DEFAULT: Final = 7 * 86_400
"""How long reported files wait for their stream to be opened again."""
EVENTS: Final = (
    StreamOpened,
    StreamRenewed,
    StreamClosed,
    CheckpointAcknowledged,
    CheckpointAborted,
    StreamTaskRestarted,
    StreamTaskEnded,
)

StreamKey = tuple[UUID, str]
"""The id of a table, and the name of one of its streams."""


class TaskReports(msgspec.Struct, frozen=True):
    """Reports of a task for a checkpoint: ``versions`` are those that staged its files.

    The buffer has many of them, so what most tasks do not report is left out of its rows.
    """

    versions: Sequence[int] = ()
    files: int = 0
    size_bytes: int = 0
    records: int = 0
    last_batch: bool = False
    extra_metadata: Mapping[str, str] | UnsetType = UNSET
    based_on_reads: bool | UnsetType = UNSET
    keys_looked_up: bool | UnsetType = UNSET


class Checkpoint(msgspec.Struct, frozen=True):
    """A checkpoint with a pending instant. ``tasks`` has the reports by task."""

    requested_time: Micros
    epoch: int
    is_blocking: bool = False
    tasks: Mapping[str, TaskReports] = {}

    @property
    def versions(self) -> list[int]:
        """The versions that staged its files."""
        return [version for reports in self.tasks.values() for version in reports.versions]

    @property
    def size_bytes(self) -> int:
        """The bytes of its files."""
        return sum(reports.size_bytes for reports in self.tasks.values())

    @property
    def extra_metadata(self) -> dict[str, str]:
        """The metadata that its tasks have reported, by the order of their ids."""
        return {
            name: text
            for _, reports in sorted(self.tasks.items())
            for name, text in (reports.extra_metadata or {}).items()
        }

    @property
    def is_based_on_reads(self) -> bool:
        """Whether files of any task depend on what it has read since the instant began."""
        return any(reports.based_on_reads is True for reports in self.tasks.values())

    @property
    def has_looked_keys_up(self) -> bool:
        """Whether any task has looked up the keys that it inserts since the instant began."""
        return any(reports.keys_looked_up is True for reports in self.tasks.values())

    @property
    def is_complete(self) -> bool:
        """Whether all tasks that have reported anything have reported their last batch."""
        return all(reports.last_batch for reports in self.tasks.values())

    @property
    def may_be_acknowledged(self) -> bool:
        """Whether a later checkpoint may be complete: before a barrier each task reports its last batch."""
        return self.is_complete and bool(self.tasks)


class Stream(msgspec.Struct, frozen=True):
    """A stream as it stands. ``attempts`` are of tasks that were restarted alone, ``ended`` those at their end.

    ``acknowledged`` is the last checkpoint that is known to be complete. ``lost`` is the first one that was
    rolled back since the stream was opened, because its writer was silent too long.
    """

    name: str
    epoch: int
    writer: str
    opened_at: Micros
    is_open: bool
    tasks: int | None
    lease_seconds: int
    lease_expires_at: Micros
    acknowledged: int | None
    attempts: Mapping[str, int]
    ended: Sequence[str]
    version: int
    lost: int | None = None
    checkpoints: Mapping[int, Checkpoint] = {}


class StreamCommand(Command, frozen=True):
    """A command on one stream of one table."""

    table: str
    stream: str


class OpenStream(StreamCommand, frozen=True):
    writer: str
    lease_seconds: int = LEASE_SECONDS_DEFAULT
    tasks: int | None = None
    restored_checkpoint: int | None = None
    reason: str = ""


class RenewStream(StreamCommand, frozen=True):
    epoch: int
    lease_seconds: int | None = None


class CloseStream(StreamCommand, frozen=True):
    epoch: int
    reason: str = ""


class ExpireStream(StreamCommand, frozen=True):
    """Closes a stream whose lease has ended, and rolls back its checkpoints. Servers send it."""

    writer: str


def open_stream(table: Table, stream: Stream | None, command: OpenStream, now: Micros) -> StreamOpened:
    """Give the stream its next epoch. ``now`` is by the steady clock.

    Raises ``IllegalTransition`` for a job that continues after a checkpoint whose files were rolled back.
    """
    if stream is not None:
        _refuse_lost(table, stream, command.restored_checkpoint)
    return StreamOpened(
        name=command.stream,
        epoch=1 if stream is None else stream.epoch + 1,
        writer=command.writer,
        tasks=command.tasks,
        lease_seconds=command.lease_seconds,
        lease_expires_at=lease_end(now, command.lease_seconds),
        restored_checkpoint=command.restored_checkpoint,
    )


def _refuse_lost(table: Table, stream: Stream, restored_checkpoint: int | None) -> None:
    if stream.lost is None or restored_checkpoint is None or restored_checkpoint <= stream.lost:
        return
    raise errors.IllegalTransition(
        f"{named(table, stream)} cannot continue from checkpoint {restored_checkpoint}: the files of the "
        f"checkpoints from {stream.lost} on were rolled back, because its lease had ended and nobody opened it "
        f"within {STREAM_WAIT_SECONDS} = {wait_seconds(table)} seconds. Start the job from checkpoint "
        f"{stream.lost} or an earlier one, or from its beginning, so that it writes the rows again; or open "
        "the stream without restored_checkpoint to go on without them",
        **context(table, stream),
        lost_checkpoint=stream.lost,
    )


def hand_over(stream: Stream) -> LeaseRenewed:
    """Give an instant of the stream to its present writer."""
    return LeaseRenewed(
        lease_seconds=stream.lease_seconds, lease_expires_at=Micros(MICROS_MAX), writer=stream.writer
    )


def behind(stream: Stream | None, restored_checkpoint: int | None) -> list[Checkpoint]:
    """The checkpoints that a job does not have that continues from this one, newest first; all without one."""
    if stream is None:
        return []
    newest_first = sorted(stream.checkpoints.items(), reverse=True)
    return [checkpoint for number, checkpoint in newest_first if is_behind(number, restored_checkpoint)]


def renew(table: Table, stream: Stream, command: RenewStream, now: Micros) -> StreamRenewed:
    """Renew the lease from now; raises ``StreamFenced``."""
    refuse_other_epoch(table, stream, command.epoch)
    seconds = command.lease_seconds or stream.lease_seconds
    return StreamRenewed(name=stream.name, lease_seconds=seconds, lease_expires_at=lease_end(now, seconds))


def close(table: Table, stream: Stream, command: CloseStream) -> StreamClosed:
    """Close a stream; raises ``StreamFenced``, and ``IllegalTransition`` while instants are pending."""
    refuse_other_epoch(table, stream, command.epoch)
    if stream.checkpoints:
        raise errors.IllegalTransition(
            f"{named(table, stream)} has {len(stream.checkpoints)} pending instant(s); complete their "
            "checkpoints first, or open the stream without restored_checkpoint to roll them back",
            **context(table, stream),
            pending=len(stream.checkpoints),
        )
    return StreamClosed(name=stream.name, by=stream.writer, reason=command.reason)


def waits_until(table: Table, stream: Stream) -> Micros | None:
    """The time at which the server rolls back checkpoints that may be acknowledged; None if there are none."""
    if not any(checkpoint.may_be_acknowledged for checkpoint in stream.checkpoints.values()):
        return None
    return Micros(stream.lease_expires_at + wait_seconds(table) * MICROS_PER_SECOND)


def expire(
    table: Table, stream: Stream, command: ExpireStream, now: Micros
) -> tuple[StreamClosed, list[Checkpoint]]:
    """End a stream whose writer is silent: its closing, and the checkpoints to roll back, newest first.

    Checkpoints that may be acknowledged remain for a while. Raises ``LeaseLive`` if nothing is to be rolled
    back.
    """
    until = waits_until(table, stream)
    has_waited = until is not None and now >= until
    # No checkpoint after an incomplete one can be complete.
    incomplete = (number for number, checkpoint in stream.checkpoints.items() if not checkpoint.is_complete)
    first = min(incomplete, default=None)
    dropped = [
        (number, checkpoint)
        for number, checkpoint in sorted(stream.checkpoints.items(), reverse=True)
        if has_waited or not checkpoint.tasks or (first is not None and number >= first)
    ]
    if now < stream.lease_expires_at or not dropped:
        raise errors.LeaseLive(f"nothing of {named(table, stream)} is to be rolled back", writer=stream.writer)
    ago = (now - stream.lease_expires_at) / MICROS_PER_SECOND
    reason = f"the lease of {stream.writer} ended {ago:.1f} s ago"
    complete = (
        number
        for number, checkpoint in dropped
        if checkpoint.may_be_acknowledged and (first is None or number < first)
    )
    lost = min(complete, default=None)
    closed = StreamClosed(name=stream.name, by=command.writer, reason=reason, expired=True, lost=lost)
    return closed, [checkpoint for _, checkpoint in dropped]


def refuse_member(table: Table, instant: Instant, what: str) -> None:
    """Raise ``IllegalTransition`` for an instant of a stream, which ends with its checkpoint only."""
    if instant.stream is not None:
        raise instants.illegal(
            table,
            instant,
            (
                f"it belongs to the stream {instant.stream.name!r} and cannot {what} by itself: it completes "
                "with its checkpoint, and is rolled back when the stream is opened without it"
            ),
        )


def evolve(stream: Stream | None, event: Event) -> Stream:
    """The stream after an event that names it; raises ``ImpossibleEvent``."""
    payload = event.payload
    if isinstance(payload, StreamOpened):
        return _opened(stream, payload, event)
    if stream is None:
        raise ImpossibleEvent("there is no such stream")
    return msgspec.structs.replace(stream, version=event.version, **_change(stream, event))


def _opened(stream: Stream | None, payload: StreamOpened, event: Event) -> Stream:
    return Stream(
        name=payload.name,
        epoch=payload.epoch,
        writer=payload.writer,
        opened_at=event.time,
        is_open=True,
        tasks=payload.tasks,
        lease_seconds=payload.lease_seconds,
        lease_expires_at=payload.lease_expires_at,
        acknowledged=payload.restored_checkpoint,
        attempts={},
        ended=(),
        version=event.version,
        checkpoints={} if stream is None else stream.checkpoints,
    )


def name_of(payload: Payload) -> str:
    """The stream that an event names which is of no instant; raises ``ImpossibleEvent`` if it names none."""
    if not isinstance(payload, EVENTS):
        raise ImpossibleEvent("the event names neither an instant nor a stream")
    return payload.name


def _change(stream: Stream, event: Event) -> dict[str, object]:
    change: dict[str, object] = {}
    match event.payload:
        case StreamRenewed() as payload:
            change = {"lease_seconds": payload.lease_seconds, "lease_expires_at": payload.lease_expires_at}
        case StreamClosed() as payload:
            lost = [number for number in (stream.lost, payload.lost) if number is not None]
            change = {"is_open": False, "lost": min(lost, default=None)}
        case CheckpointAcknowledged() as payload:
            change = {"acknowledged": _latest(stream.acknowledged, payload.checkpoint)}
        case CheckpointAborted():
            pass
        case StreamTaskEnded() as payload:
            change = {"ended": _with(stream.ended, payload.task)}
        case StreamTaskRestarted() as payload:
            change = _restarted(stream, payload)
        case InstantRequested(stream=StreamPlace() as place) as payload:
            checkpoint = Checkpoint(event.time, place.epoch, payload.is_blocking)
            change = {"checkpoints": {**stream.checkpoints, place.checkpoint: checkpoint}}
        case WriteStatsStaged(report=ReportOfTask() as report) as payload:
            change = _reported(stream, event, report, payload.summary)
        case _:
            raise ImpossibleEvent(f"{event.type} is not an event of a stream")
    return change


def without(stream: Stream, ended: Micros) -> Stream:
    """The stream after an instant of it has ended."""
    kept = {
        number: checkpoint
        for number, checkpoint in stream.checkpoints.items()
        if checkpoint.requested_time != ended
    }
    return msgspec.structs.replace(stream, checkpoints=kept)


def tasks_by_version(checkpoint: Checkpoint) -> dict[int, str]:
    """The events whose files are in the buffer of a checkpoint, each with its task."""
    return {version: task for task, reports in checkpoint.tasks.items() for version in reports.versions}


def dropped(before: Stream | None, after: Stream, payload: Payload) -> list[tuple[Micros, int]]:
    """The instants and versions of reports that an event drops, because their task restarts."""
    if before is None or not isinstance(payload, StreamTaskRestarted):
        return []
    return [
        (checkpoint.requested_time, version)
        for number, checkpoint in before.checkpoints.items()
        if payload.task in checkpoint.tasks and payload.task not in after.checkpoints[number].tasks
        for version in checkpoint.tasks[payload.task].versions
    ]


def changed(before: Stream | None, after: Stream) -> list[int]:
    """The checkpoints in the buffer after an event that are not as they were before it."""
    known = {} if before is None else before.checkpoints
    return [number for number, checkpoint in after.checkpoints.items() if known.get(number) is not checkpoint]


def _restarted(stream: Stream, payload: StreamTaskRestarted) -> dict[str, object]:
    checkpoints = {
        number: _without_task(checkpoint, payload.task)
        if drops(stream, number, payload.restored_checkpoint)
        else checkpoint
        for number, checkpoint in stream.checkpoints.items()
    }
    return {
        "attempts": {**stream.attempts, payload.task: payload.attempt},
        "ended": [task for task in stream.ended if task != payload.task],
        "checkpoints": checkpoints,
    }


def _reported(stream: Stream, event: Event, report: ReportOfTask, summary: WriteSummary) -> dict[str, object]:
    number, checkpoint = _of_instant(stream, event.instant)
    before = checkpoint.tasks.get(report.task, TaskReports())
    reports = TaskReports(
        versions=[*before.versions, event.version] if summary.files else before.versions,
        files=before.files + summary.files,
        size_bytes=before.size_bytes + summary.size_bytes,
        records=before.records + summary.records,
        last_batch=before.last_batch or report.last_batch,
        extra_metadata={**(before.extra_metadata or {}), **report.extra_metadata} or UNSET,
        based_on_reads=before.based_on_reads or report.based_on_reads or UNSET,
        keys_looked_up=before.keys_looked_up or report.keys_looked_up or UNSET,
    )
    changed = msgspec.structs.replace(checkpoint, tasks={**checkpoint.tasks, report.task: reports})
    change: dict[str, object] = {"checkpoints": {**stream.checkpoints, number: changed}}
    if report.end_of_input:
        change["ended"] = _with(stream.ended, report.task)
    return change


def _of_instant(stream: Stream, requested_time: Micros | None) -> tuple[int, Checkpoint]:
    for number, checkpoint in stream.checkpoints.items():
        if checkpoint.requested_time == requested_time:
            return number, checkpoint
    raise ImpossibleEvent("the stream has no such instant")


def _without_task(checkpoint: Checkpoint, task: str) -> Checkpoint:
    tasks = {name: reports for name, reports in checkpoint.tasks.items() if name != task}
    return msgspec.structs.replace(checkpoint, tasks=tasks)


def is_behind(number: int, restored_checkpoint: int | None) -> bool:
    """Whether a job that continues from a checkpoint does not have this one; every one without a checkpoint."""
    return restored_checkpoint is None or number >= restored_checkpoint


def is_acknowledged(stream: Stream, number: int) -> bool:
    """Whether the engine has said that a later checkpoint is complete: no task writes this one again."""
    return stream.acknowledged is not None and number < stream.acknowledged


def drops(stream: Stream, number: int, restored_checkpoint: int | None) -> bool:
    """Whether a task that restarts alone from a checkpoint writes this one again."""
    return is_behind(number, restored_checkpoint) and not is_acknowledged(stream, number)


def _latest(before: int | None, checkpoint: int | None) -> int | None:
    known = [number for number in (before, checkpoint) if number is not None]
    return max(known, default=None)


def _with(names: Sequence[str], name: str) -> list[str]:
    return [*names, *([] if name in names else [name])]


def refuse_other_epoch(table: Table, stream: Stream, epoch: int) -> None:
    """Raise ``StreamFenced`` unless the stream is open with this epoch."""
    opened_at = format_time(stream.opened_at, table.definition.tick)
    if epoch != stream.epoch:
        earlier = "an earlier" if epoch < stream.epoch else "an unknown"
        raise errors.StreamFenced(
            f"{epoch} is {earlier} epoch of {named(table, stream)}: {stream.writer!r} opened it at {opened_at} "
            f"with epoch {stream.epoch}; stop writing",
            **context(table, stream),
        )
    if not stream.is_open:
        raise errors.StreamFenced(
            f"epoch {epoch} of {named(table, stream)} was closed: by its writer, because its lease had ended, "
            "or because the table was restored; open the stream again. A query of Spark does so when it is "
            "started again with the same checkpoint folder",
            **context(table, stream),
        )


def wait_seconds(table: Table) -> int:
    """How long the checkpoints of a silent stream remain that may be acknowledged."""
    return int(table.definition.properties.get(STREAM_WAIT_SECONDS, WAIT_SECONDS_DEFAULT))


def named(table: Table, stream: Stream) -> str:
    return f"the stream {stream.name!r} of {table.name!r}"


def context(table: Table, stream: Stream) -> dict[str, object]:
    return {
        "table": table.name,
        "stream": stream.name,
        "epoch": stream.epoch,
        "writer": stream.writer,
        "opened_at": format_time(stream.opened_at, table.definition.tick),
    }
