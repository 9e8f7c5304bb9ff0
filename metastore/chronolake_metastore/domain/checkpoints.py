"""The checkpoints of streams: their instants, the write metadata of tasks, and acknowledgements.

A task names a checkpoint by the id of the last barrier that it has passed. When an engine says that checkpoint
n is complete, all tasks have passed barrier n, so the instants of all ids below n have all of their files
(docs/decisions/0058-streams.md; the protocol is that of Hudi's StreamWriteOperatorCoordinator, with
corrections).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NoReturn

import msgspec

from chronolake_metastore import errors
from chronolake_metastore.domain import conflicts, files, instants, plans, streams
from chronolake_metastore.domain.conflicts import ConcurrentInstants
from chronolake_metastore.domain.events import (
    CheckpointAborted,
    CheckpointAcknowledged,
    InstantRequested,
    ReportOfTask,
    StreamTaskRestarted,
)
from chronolake_metastore.domain.files import FileGroup
from chronolake_metastore.domain.instants import BeginInstant, Instant
from chronolake_metastore.domain.properties import STREAM_PENDING_MAX
from chronolake_metastore.domain.streams import Checkpoint, Stream
from chronolake_metastore.domain.tables import Table
from chronolake_model.columns import PROPERTIES_BYTES_MAX
from chronolake_model.files import WriteStat
from chronolake_model.times import MICROS_MAX, Micros, format_time
from chronolake_model.vocabulary import (
    NO_CHECKPOINT,
    TASKS_MAX,
    Action,
    IndexType,
    Operation,
    State,
    StreamPlace,
    TableType,
    Touch,
)

PENDING_DEFAULT: Final = 100
"""Pending instants of a stream, if the property of the table does not say otherwise."""
METADATA_BYTES_MAX: Final = 1024 * 1024
"""The metadata that all tasks together report for a checkpoint, as JSON. Each report writes all of it again."""
AHEAD_MAX: Final = 1_000_000
AHEAD_FACTOR_MAX: Final = 1_000
"""Bounds of a checkpoint that completes an instant. It is above the newest checkpoint that the stream has seen
by at most ``AHEAD_MAX``, or is at most ``AHEAD_FACTOR_MAX`` times the newest."""
NAMED_MAX: Final = 20
"""Tasks that a refusal names."""


class RequestInstant(streams.StreamCommand, frozen=True):
    epoch: int
    task: str
    checkpoint: int
    attempt: int = 0
    operation: Operation = Operation.UNKNOWN
    blocking: bool = False


class ReportWriteMetadata(streams.StreamCommand, frozen=True):
    epoch: int
    task: str
    checkpoint: int
    attempt: int = 0
    requested_time: Micros | None = None
    write_stats: Sequence[WriteStat] = ()
    last_batch: bool = False
    end_of_input: bool = False
    bootstrap: bool = False
    extra_metadata: dict[str, str] = msgspec.field(default_factory=dict)
    based_on_reads: bool = False
    keys_looked_up: bool = False


class CompleteCheckpoints(streams.StreamCommand, frozen=True):
    epoch: int
    checkpoint: int | None = None
    extra_metadata: dict[str, str] = msgspec.field(default_factory=dict)


class AbortCheckpoint(streams.StreamCommand, frozen=True):
    epoch: int
    checkpoint: int
    reason: str = ""


class RestartTask(streams.StreamCommand, frozen=True):
    epoch: int
    task: str
    restored_checkpoint: int | None = None


def request_instant(
    table: Table, stream: Stream, command: RequestInstant, now: Micros
) -> InstantRequested | Checkpoint:
    """The checkpoint in the buffer, or the begin of its instant.

    Raises ``StreamFenced``, ``CheckpointPassed`` when the checkpoint is known to be complete, and
    ``InstantNotYet`` while too many instants are pending, or in blocking mode any other one.
    """
    _refuse_task(table, stream, command.epoch, command.task, command.attempt)
    buffered = stream.checkpoints.get(command.checkpoint)
    if buffered is not None:
        return buffered
    _refuse_passed(table, stream, command.checkpoint)
    if command.task in stream.ended:
        raise errors.CheckpointPassed(
            f"the task {command.task!r} of {streams.named(table, stream)} has reported the end of its input; "
            "it cannot write again",
            **streams.context(table, stream),
            task=command.task,
        )
    if command.blocking and stream.checkpoints:
        _refuse_not_yet(table, stream, "the instants of earlier checkpoints are pending")
    if len(stream.checkpoints) >= pending_max(table):
        _refuse_not_yet(table, stream, f"{len(stream.checkpoints)} instants are pending, the most that may be")
    begun = _begin(table, stream, command, now)
    return msgspec.structs.replace(
        begun,
        # The stream has the lease. This one never ends before the stream ends the instant.
        lease_expires_at=MICROS_MAX,
        stream=StreamPlace(stream.name, stream.epoch, command.checkpoint),
        is_blocking=command.blocking,
    )


def _begin(table: Table, stream: Stream, command: RequestInstant, now: Micros) -> InstantRequested:
    is_merged = table.definition.type is TableType.MERGE_ON_READ
    begin = BeginInstant(
        table=table.name,
        writer=stream.writer,
        action=Action.DELTACOMMIT if is_merged else Action.COMMIT,
        operation=command.operation,
        lease_seconds=stream.lease_seconds,
    )
    return instants.begin(table, begin, {}, now)


def refuse_report(table: Table, stream: Stream, command: ReportWriteMetadata) -> None:
    """Raise ``StreamFenced`` for a report of another epoch, or of an earlier attempt of its task.

    Raises ``InvalidWriteStat`` for a task beyond the largest number of them, because a buffer is bounded, and
    for the end of input of more tasks than the stream has.
    """
    _refuse_task(table, stream, command.epoch, command.task, command.attempt)
    buffered = stream.checkpoints.get(command.checkpoint)
    _refuse_more_tasks(table, stream, command.task, {} if buffered is None else buffered.tasks, stream.ended)
    if command.end_of_input:
        _refuse_more_ended(table, stream, command.task)


def _refuse_more_tasks(table: Table, stream: Stream, task: str, *known: Collection[str]) -> None:
    if all(task not in names for names in known) and sum(map(len, known)) >= TASKS_MAX:
        raise errors.InvalidWriteStat(
            f"{streams.named(table, stream)} has {TASKS_MAX} tasks, the most that it may have; a task has the "
            "same id in all of its requests",
            **streams.context(table, stream),
            task=task,
        )


def _refuse_more_ended(table: Table, stream: Stream, task: str) -> None:
    if stream.tasks is not None and task not in stream.ended and len(stream.ended) >= stream.tasks:
        raise errors.InvalidWriteStat(
            f"{streams.named(table, stream)} was opened for {stream.tasks} task(s), and {len(stream.ended)} "
            f"other(s) than {task!r} have reported the end of their input; open it with the number of tasks "
            "that write it",
            **streams.context(table, stream),
            task=task,
        )


def refuse_other_instant(
    table: Table, stream: Stream, command: ReportWriteMetadata, instant: Instant | None
) -> None:
    """Raise ``InvalidWriteStat`` unless a report is of the instant of its checkpoint.

    ``instant`` is the one that the report names. Raises ``InstantRolledBack`` or ``IllegalTransition`` if it
    has ended, unless a restored task reports the files of a completed instant again.
    """
    place = None if instant is None else instant.stream
    is_other = place is None or (place.name, place.checkpoint) != (stream.name, command.checkpoint)
    if instant is not None and is_other:
        time = format_time(instant.requested_time, table.definition.tick)
        raise errors.InvalidWriteStat(
            f"the instant {time} of {table.name!r} is not that of checkpoint {command.checkpoint} of the "
            f"stream {stream.name!r}; report the files with the instant that the stream gave for it",
            **streams.context(table, stream),
            checkpoint=command.checkpoint,
            requested_time=time,
        )
    if instant is not None and not (command.bootstrap and instant.state is State.COMPLETED):
        instants.refuse_unless(table, instant, {State.INFLIGHT}, "take write metadata")
    if instant is None and command.write_stats:
        raise errors.InvalidWriteStat(
            f"the report of checkpoint {command.checkpoint} to {streams.named(table, stream)} has files and no "
            "requested_time; name the instant that the stream gave for the checkpoint",
            **streams.context(table, stream),
            checkpoint=command.checkpoint,
        )


def refuse_more_metadata(
    table: Table, stream: Stream, number: int, checkpoint: Checkpoint, added: Mapping[str, str]
) -> None:
    """Raise ``InvalidWriteStat`` when a request adds more metadata to a checkpoint than an instant may have."""
    if not added:
        return
    size_bytes = len(msgspec.json.encode({**checkpoint.extra_metadata, **added}))
    if size_bytes > PROPERTIES_BYTES_MAX:
        raise errors.InvalidWriteStat(
            f"the metadata for checkpoint {number} of {streams.named(table, stream)} would have {size_bytes:,} "
            f"bytes as JSON, and an instant may have {PROPERTIES_BYTES_MAX:,}; send less of it",
            **streams.context(table, stream),
            checkpoint=number,
        )


def refuse_more_metadata_of_tasks(table: Table, stream: Stream, command: ReportWriteMetadata) -> None:
    """Raise ``InvalidWriteStat`` when a report makes the metadata of all tasks of a checkpoint too long.

    The buffer has the metadata of each task, because a task that restarts drops its own.
    """
    if not command.extra_metadata:
        return
    by_task = {
        task: reports.extra_metadata or {}
        for task, reports in stream.checkpoints[command.checkpoint].tasks.items()
    }
    before = by_task.get(command.task, {})
    by_task[command.task] = {**before, **command.extra_metadata}
    if by_task[command.task] == before:
        return
    size_bytes = sum(len(msgspec.json.encode(metadata)) for metadata in by_task.values() if metadata)
    if size_bytes > METADATA_BYTES_MAX:
        raise errors.InvalidWriteStat(
            f"the tasks of {streams.named(table, stream)} would have {size_bytes:,} bytes of metadata as JSON "
            f"for checkpoint {command.checkpoint}, and all of them together may have {METADATA_BYTES_MAX:,}; "
            "send less of it: report what all tasks have in common from one task, or with the acknowledgement",
            **streams.context(table, stream),
            checkpoint=command.checkpoint,
            task=command.task,
        )


def refuse_dependent(table: Table, instant: Instant, command: ReportWriteMetadata) -> None:
    """Raise ``MayConflict`` for files that depend on reads, in an instant that began without blocking."""
    if command.based_on_reads or command.keys_looked_up:
        time = format_time(instant.requested_time, table.definition.tick)
        raise errors.MayConflict(
            f"the instant {time} of {table.name!r} began without blocking, so it takes no files that depend on "
            "what was read of the table: another instant could change it before the checkpoint is complete. "
            "Ask for instants with blocking",
            table=table.name,
            requested_time=time,
        )


def refuse_conflicting(
    table: Table, instant: Instant, stats: Sequence[WriteStat], concurrent: ConcurrentInstants
) -> None:
    """Raise ``MayConflict`` for a file that another instant could conflict with before the completion.

    No engine writes an acknowledged checkpoint again. So without blocking, an instant has log files and new
    file groups only, and with a bucket index, where two writers may open one group, log files only. Raises
    ``InvalidPlan`` for a file group of a bucket whose previous one is not replaced.
    """
    written = files.touches(stats)
    for touch, name in written:
        others = concurrent.get(FileGroup(table.table_id, name.partition_path, name.file_id), ())
        is_open = any(other.requested_time != instant.requested_time for other in others)
        if touch is Touch.BASE and (is_open or table.definition.index.type is IndexType.BUCKET):
            time = format_time(instant.requested_time, table.definition.tick)
            raise errors.MayConflict(
                f"the instant {time} of {table.name!r} began without blocking, so it takes no base file of the "
                f"file group {name.file_id!r}: another instant could write the group before the checkpoint is "
                "complete. Ask for instants with blocking, or write log files",
                table=table.name,
                requested_time=time,
                partition_path=name.partition_path,
                file_id=name.file_id,
            )
    plans.check_groups(table, conflicts.group_changes(instant.begun_as, written, []), concurrent)


def report_of(command: ReportWriteMetadata) -> ReportOfTask:
    """The task of a report, as its event keeps it."""
    return ReportOfTask(
        command.task,
        command.attempt,
        command.last_batch,
        command.end_of_input,
        dict(command.extra_metadata),
        command.based_on_reads,
        command.keys_looked_up,
    )


def acknowledge(
    table: Table, stream: Stream, command: CompleteCheckpoints
) -> tuple[CheckpointAcknowledged | None, list[tuple[int, Checkpoint]]]:
    """The event of an acknowledgement, none if it is known, and the checkpoints that it completes, in order.

    Raises ``StreamFenced``, ``CheckpointIncomplete`` if the input has not ended and must have, and
    ``UnknownCheckpoint`` for an id that cannot be the engine's next one.
    """
    streams.refuse_other_epoch(table, stream, command.epoch)
    if command.checkpoint is None:
        _refuse_unended(table, stream)
    covered = [
        (number, checkpoint)
        for number, checkpoint in sorted(stream.checkpoints.items())
        if command.checkpoint is None or number < command.checkpoint
    ]
    if covered:
        _refuse_far_ahead(table, stream, command.checkpoint)
    for number, checkpoint in covered:
        refuse_more_metadata(table, stream, number, checkpoint, command.extra_metadata)
    # If a task has more to report, the engine is wrong. Its acknowledgement holds for the earlier checkpoints.
    incomplete = next((number for number, checkpoint in covered if not checkpoint.is_complete), None)
    known = command.checkpoint if incomplete is None else incomplete
    # Nothing is written for the checkpoints of an idle stream.
    if not covered or covered[0][0] == incomplete or _is_known(stream, known):
        return None, covered
    return CheckpointAcknowledged(name=stream.name, epoch=stream.epoch, checkpoint=known), covered


def _refuse_far_ahead(table: Table, stream: Stream, checkpoint: int | None) -> None:
    # Every checkpoint of the engine would count as passed, so no task could write again. Engines may number
    # their checkpoints by times, which are far apart; and the first checkpoint may have any number.
    newest = max([*stream.checkpoints, NO_CHECKPOINT if stream.acknowledged is None else stream.acknowledged])
    possible_max = max(newest + AHEAD_MAX, newest * AHEAD_FACTOR_MAX)
    if newest != NO_CHECKPOINT and checkpoint is not None and checkpoint > possible_max:
        raise errors.UnknownCheckpoint(
            f"the newest checkpoint that {streams.named(table, stream)} has seen is {newest}, so {checkpoint} "
            "cannot be the one that is complete; acknowledge with the id that the engine gave to the "
            "checkpoint, not with a time",
            **streams.context(table, stream),
            checkpoint=checkpoint,
            newest_checkpoint=newest,
        )


def _is_known(stream: Stream, checkpoint: int | None) -> bool:
    """Whether the log says that the checkpoint is complete; never of the end of the input."""
    return checkpoint is not None and stream.acknowledged is not None and checkpoint <= stream.acknowledged


def refuse_incomplete(table: Table, stream: Stream, number: int, checkpoint: Checkpoint) -> None:
    """Raise ``CheckpointIncomplete`` if a task has not reported its last batch for the checkpoint."""
    missing = sorted(task for task, reports in checkpoint.tasks.items() if not reports.last_batch)
    if missing:
        raise errors.CheckpointIncomplete(
            f"{len(missing)} task(s) of {streams.named(table, stream)} have not reported their last batch for "
            f"checkpoint {number}, the first is {missing[0]!r}; a task reports it before the next barrier. "
            "Let them report, and acknowledge again; if they are gone, restore the job: open the stream with "
            "restored_checkpoint, its last complete checkpoint, which rolls back the instants after it",
            **streams.context(table, stream),
            checkpoint=number,
            tasks=missing[:NAMED_MAX],
        )


def _refuse_unended(table: Table, stream: Stream) -> None:
    if stream.tasks is None:
        raise errors.CheckpointIncomplete(
            f"{streams.named(table, stream)} was opened without its number of tasks, so nothing says that all "
            "have ended; name the checkpoint that is complete, or open the stream with tasks",
            **streams.context(table, stream),
        )
    if len(stream.ended) < stream.tasks:
        raise errors.CheckpointIncomplete(
            f"{len(stream.ended)} of {stream.tasks} tasks of {streams.named(table, stream)} have reported the "
            "end of their input; the rest completes when all have. If they are gone, restore the job: open the "
            "stream with restored_checkpoint and the tasks that there are",
            **streams.context(table, stream),
            ended=len(stream.ended),
            tasks=stream.tasks,
        )


def abort(table: Table, stream: Stream, command: AbortCheckpoint) -> CheckpointAborted:
    """Keep in the log that a checkpoint was aborted; raises ``StreamFenced``."""
    streams.refuse_other_epoch(table, stream, command.epoch)
    return CheckpointAborted(
        name=stream.name, epoch=stream.epoch, checkpoint=command.checkpoint, reason=command.reason
    )


def restart_task(table: Table, stream: Stream, command: RestartTask) -> StreamTaskRestarted:
    """Give a task its next attempt; raises ``StreamFenced``, and ``InvalidWriteStat`` for too many tasks."""
    streams.refuse_other_epoch(table, stream, command.epoch)
    _refuse_more_tasks(table, stream, command.task, stream.attempts)
    return StreamTaskRestarted(
        name=stream.name,
        task=command.task,
        attempt=stream.attempts.get(command.task, 0) + 1,
        restored_checkpoint=command.restored_checkpoint,
    )


def dropped_files(stream: Stream, restarted: StreamTaskRestarted) -> int:
    """How many reported files of the task do not count after its restart."""
    return sum(
        checkpoint.tasks[restarted.task].files
        for number, checkpoint in stream.checkpoints.items()
        if restarted.task in checkpoint.tasks and streams.drops(stream, number, restarted.restored_checkpoint)
    )


def _refuse_task(table: Table, stream: Stream, epoch: int, task: str, attempt: int) -> None:
    streams.refuse_other_epoch(table, stream, epoch)
    present = stream.attempts.get(task, 0)
    if attempt != present:
        raise errors.StreamFenced(
            f"attempt {attempt} of the task {task!r} of {streams.named(table, stream)} is not its present one, "
            f"{present}; stop this attempt",
            **streams.context(table, stream),
            task=task,
            attempt=present,
        )


def refuse_late(table: Table, stream: Stream, checkpoint: int, stats: Sequence[WriteStat]) -> None:
    """Raise ``CheckpointPassed`` for a file that comes after the acknowledgement of its checkpoint."""
    if stats and streams.is_acknowledged(stream, checkpoint):
        raise errors.CheckpointPassed(
            f"checkpoint {stream.acknowledged} of {streams.named(table, stream)} is complete, so {checkpoint} "
            f"takes no more files, such as {stats[0].file_name!r}; a task reports its last batch before the "
            "next barrier",
            **streams.context(table, stream),
            checkpoint=checkpoint,
            acknowledged_checkpoint=stream.acknowledged,
        )


def _refuse_passed(table: Table, stream: Stream, checkpoint: int) -> None:
    if streams.is_acknowledged(stream, checkpoint):
        raise errors.CheckpointPassed(
            f"checkpoint {stream.acknowledged} of {streams.named(table, stream)} is complete, so no task has "
            f"{checkpoint} as its last barrier; ask with the id of the last barrier that the task has passed",
            **streams.context(table, stream),
            checkpoint=checkpoint,
            acknowledged_checkpoint=stream.acknowledged,
        )


def _refuse_not_yet(table: Table, stream: Stream, why: str) -> NoReturn:
    pending = [checkpoint.requested_time for _, checkpoint in sorted(stream.checkpoints.items())]
    raise errors.InstantNotYet(
        f"{streams.named(table, stream)} gives no new instant yet: {why}; ask again when a checkpoint is "
        "complete",
        **streams.context(table, stream),
        pending=[format_time(time, table.definition.tick) for time in pending[:NAMED_MAX]],
    )


def pending_max(table: Table) -> int:
    """How many instants of one stream may be pending."""
    return int(table.definition.properties.get(STREAM_PENDING_MAX, PENDING_DEFAULT))
