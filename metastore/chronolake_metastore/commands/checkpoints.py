"""Commands on the checkpoints of streams: instants, write metadata, acknowledgements, tasks that restart."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import ClassVar, NoReturn

import msgspec
from typing_extensions import override

from chronolake_metastore import errors
from chronolake_metastore.commands import reports
from chronolake_metastore.commands.completing import CompleteInstantHandler, Completion
from chronolake_metastore.commands.handler import Handler, Loading, Names, Sharing, combined, instant_of
from chronolake_metastore.commands.streams import ChangeStreamHandler, roll_back_one, with_instants
from chronolake_metastore.domain import checkpoints, reported_files, staging
from chronolake_metastore.domain.checkpoints import (
    AbortCheckpoint,
    CompleteCheckpoints,
    ReportWriteMetadata,
    RequestInstant,
    RestartTask,
)
from chronolake_metastore.domain.events import Now, Origin, Payload, StreamTaskEnded, WriteStatsStaged
from chronolake_metastore.domain.instants import CompleteInstant, Instant
from chronolake_metastore.domain.properties import STREAM_EMPTY_COMMITS
from chronolake_metastore.domain.reported_files import NO_FACTS, ReportFacts
from chronolake_metastore.domain.results import (
    AnyResult,
    CheckpointsResult,
    StreamInstantResult,
    TaskResult,
    WriteMetadataResult,
)
from chronolake_metastore.domain.staging import StageWriteStats
from chronolake_metastore.domain.state import State
from chronolake_metastore.domain.streams import Checkpoint, Stream
from chronolake_metastore.domain.tables import Table
from chronolake_metastore.store import staging as stored_staging, streams as stored
from chronolake_metastore.store.staging import StagedVersions, in_sets
from chronolake_model.files import FileGroupName, WriteStat
from chronolake_model.times import Micros, format_time
from chronolake_model.vocabulary import State as InstantState


class RestartTaskHandler(Handler[RestartTask, None]):
    """Gives a task that restarts alone its next attempt."""

    command = RestartTask

    @override
    def names(self, command: RestartTask) -> Names:
        return Names(tables=[command.table], streams=[(command.table, command.stream)])

    @override
    def decide(self, state: State, command: RestartTask, evidence: None, origin: Origin) -> AnyResult:
        table = state.table(command.table)
        stream = state.stream(table, command.stream)
        restarted = checkpoints.restart_task(table, stream, command)
        state.append(table.table_id, origin, restarted)
        return TaskResult(
            log_id=table.table_id,
            table=table.name,
            stream=stream.name,
            task=restarted.task,
            attempt=restarted.attempt,
            dropped_files=checkpoints.dropped_files(stream, restarted),
        )


class RequestInstantHandler(Handler[RequestInstant, None]):
    """Gives the instant of a checkpoint; the first request begins it."""

    command = RequestInstant

    @override
    def names(self, command: RequestInstant) -> Names:
        return Names(tables=[command.table], streams=[(command.table, command.stream)])

    @override
    def decide(self, state: State, command: RequestInstant, evidence: None, origin: Origin) -> AnyResult:
        table = state.table(command.table)
        stream = state.stream(table, command.stream)
        given = checkpoints.request_instant(table, stream, command, origin.now.steady)
        is_new = not isinstance(given, Checkpoint)
        if not isinstance(given, Checkpoint):
            state.append(table.table_id, origin, given)
            given = state.stream(table, command.stream).checkpoints[command.checkpoint]
        return StreamInstantResult(
            log_id=table.table_id,
            table=table.name,
            tick=table.definition.tick,
            stream=stream.name,
            checkpoint=command.checkpoint,
            requested_time=given.requested_time,
            is_blocking=given.is_blocking,
            is_new=is_new,
        )


class ReportWriteMetadataHandler(Handler[ReportWriteMetadata, ReportFacts]):
    """Keeps the files that a task reports for a checkpoint.

    The ``evidence`` has the facts about these files.
    """

    command = ReportWriteMetadata
    no_evidence: ClassVar[ReportFacts] = NO_FACTS

    @override
    def names(self, command: ReportWriteMetadata) -> Names:
        named = command.table, command.stream
        time = _time(command)
        return Names(
            tables=[command.table],
            streams=[named],
            instants=[] if time is None else [(command.table, time)],
            # Without its time, the instant is that of the checkpoint in the buffer.
            instant_queries=[stored.find_instants([named])] if time is None else [],
            file_groups=[
                (command.table, FileGroupName(stat.partition_path, stat.file_id))
                for stat in command.write_stats
            ],
        )

    @override
    def files(self, command: ReportWriteMetadata) -> int:
        return len(command.write_stats)

    @override
    def load(
        self, state: State, command: ReportWriteMetadata, evidence: ReportFacts, now: Now
    ) -> Loading[ReportFacts] | None:
        return reports.load(state, command)

    @override
    def decide(
        self, state: State, command: ReportWriteMetadata, evidence: ReportFacts, origin: Origin
    ) -> AnyResult:
        table = state.table(command.table)
        stream = state.stream(table, command.stream)
        checkpoints.refuse_report(table, stream, command)
        time = _time(command)
        if time is not None and state.is_archived(table, time) and reported_files.are_kept(command, evidence):
            # The job is restored after the instant has left the database: its files stay there.
            _end(state, table, stream, command, origin)
            result = _report_result(table, command, None, 0)
            return msgspec.structs.replace(result, requested_time=time, is_completed=True)
        named = None if time is None else state.instant(table, time)
        checkpoints.refuse_other_instant(table, stream, command, named)
        if named is not None and not named.state.is_pending:
            reported_files.refuse_unpublished(table, stream, named, command, evidence.published)
            _end(state, table, stream, command, origin)
            return _report_result(table, command, named, 0)
        buffered = stream.checkpoints.get(command.checkpoint)
        if buffered is None:
            _end(state, table, stream, command, origin)
            return _report_result(table, command, None, 0)
        instant = state.instant(table, buffered.requested_time)
        known = reports.in_buffers(state, table, command, evidence)
        same_groups = list(chain.from_iterable(known.values()))
        stats = reported_files.unreported(table, stream, command, same_groups)
        checkpoints.refuse_late(table, stream, command.checkpoint, stats)
        checkpoints.refuse_more_metadata(table, stream, command.checkpoint, buffered, command.extra_metadata)
        checkpoints.refuse_more_metadata_of_tasks(table, stream, command)
        if not buffered.is_blocking:
            checkpoints.refuse_dependent(table, instant, command)
            checkpoints.refuse_conflicting(table, instant, stats, state.concurrent)
        reported_files.refuse_exclusive(table, stream, command.checkpoint, stats, known)
        reported_files.refuse_unmarked(stats, evidence.unmarked)
        payload = _staged(state, table, instant, command, stats, origin.now.steady)
        if stats or _says_more(stream, buffered, command):
            state.append(table.table_id, origin, payload, instant.requested_time, stats)
        return _report_result(table, command, instant, len(stats))


class CompleteCheckpointsHandler(Handler[CompleteCheckpoints, list[Completion]]):
    """Completes the instants of acknowledged checkpoints, in their order.

    If one cannot complete, those before it have completed, and the refusal says so.
    """

    command = CompleteCheckpoints
    no_evidence: ClassVar[Sequence[Completion]] = ()

    def __init__(self) -> None:
        self._one = CompleteInstantHandler()

    @override
    def names(self, command: CompleteCheckpoints) -> Names:
        return with_instants(command)

    @override
    def sharing(self, command: CompleteCheckpoints) -> Sharing:
        return Sharing.ALONE

    @override
    def is_bulk(self, command: CompleteCheckpoints) -> bool:
        return True

    @override
    def locks_instants(self, state: State, command: CompleteCheckpoints) -> bool:
        return any(self._one.locks_instants(state, member) for member in _members(state, command))

    @override
    def load(
        self, state: State, command: CompleteCheckpoints, evidence: Sequence[Completion], now: Now
    ) -> Loading[list[Completion]]:
        return self._load(state, _members(state, command), now)

    def _load(self, state: State, members: Sequence[CompleteInstant], now: Now) -> Loading[list[Completion]]:
        completions = yield from combined(self._load_member(state, member, now) for member in members)
        if len(members) < 2:
            return completions
        # A later one may have the files of an earlier one again.
        versions = [version for member in members for version in member.staged]
        table, time = members[0].table, members[0].requested_time
        repeated = stored_staging.repeated(StagedVersions(table, time, versions))
        yield in_sets(repeated)
        first, *later = completions
        return [first, *(_with_repeated(completion, repeated.result) for completion in later)]

    def _load_member(self, state: State, member: CompleteInstant, now: Now) -> Loading[Completion]:
        looking = self._one.look_ahead(member)
        ahead = Completion() if looking is None else (yield from looking)
        loading = self._one.load(state, member, ahead, now)
        return ahead if loading is None else (yield from loading)

    @override
    def decide(
        self, state: State, command: CompleteCheckpoints, evidence: Sequence[Completion], origin: Origin
    ) -> AnyResult:
        table = state.table(command.table)
        stream = state.stream(table, command.stream)
        acknowledged, covered = checkpoints.acknowledge(table, stream, command)
        members = _members(state, command)
        if acknowledged is not None:
            state.append(table.table_id, origin, acknowledged)
        ended: list[Micros] = []
        for (number, checkpoint), member, completion in zip(covered, members, evidence, strict=True):
            try:
                with state.all_or_nothing():
                    checkpoints.refuse_incomplete(table, stream, number, checkpoint)
                    self._end(state, table, stream, member, completion, origin)
            except errors.TimelineError as refusal:
                _refuse(table, number, checkpoint, ended, refusal)
            ended.append(checkpoint.requested_time)
        return _completed_result(state, table, stream, ended)

    def _end(
        self,
        state: State,
        table: Table,
        stream: Stream,
        member: CompleteInstant,
        completion: Completion,
        origin: Origin,
    ) -> None:
        """Complete an instant, or roll it back if it has no files and the table wants no empty ones."""
        if member.staged or table.definition.properties.get(STREAM_EMPTY_COMMITS) == "true":
            instant = state.instant(table, member.requested_time)
            self._one.complete(state, table, instant, member, completion, origin)
            return
        reason = "its checkpoint is complete and has no files"
        roll_back_one(state, table, member.requested_time, stream.writer, reason, origin)


def _members(state: State, command: CompleteCheckpoints) -> list[CompleteInstant]:
    """The completions of the instants that an acknowledgement covers; none if it is refused."""
    table = state.locked_table(command.table)
    stream = None if table is None else state.streams.get((table.table_id, command.stream))
    if table is None or stream is None:
        return []
    try:
        _, covered = checkpoints.acknowledge(table, stream, command)
    except errors.TimelineError:
        return []
    return [
        CompleteInstant(
            table.name,
            checkpoint.requested_time,
            staged=checkpoint.versions,
            extra_metadata={**checkpoint.extra_metadata, **command.extra_metadata},
            based_on_reads=checkpoint.is_based_on_reads,
            keys_looked_up=checkpoint.has_looked_keys_up,
        )
        for _, checkpoint in covered
    ]


def _with_repeated(completion: Completion, repeated: Sequence[tuple[str, str, str]]) -> Completion:
    staged = msgspec.structs.replace(completion.staged, repeated=repeated)
    return msgspec.structs.replace(completion, staged=staged)


def _refuse(
    table: Table, number: int, checkpoint: Checkpoint, ended: Sequence[Micros], refusal: errors.TimelineError
) -> NoReturn:
    """Raise the refusal of one instant, with what happened to the others."""
    tick = table.definition.tick
    time = format_time(checkpoint.requested_time, tick)
    refusal.detail = (
        f"{refusal.detail}. This is the instant {time} of checkpoint {number}: {len(ended)} instant(s) before "
        "it have ended, and no later one has completed"
    )
    refusal.context |= {
        "checkpoint": number,
        "checkpoint_instant": time,
        "ended": [format_time(done, tick) for done in ended],
    }
    raise refusal


def _time(command: ReportWriteMetadata) -> Micros | None:
    return command.requested_time


def _staged(
    state: State,
    table: Table,
    instant: Instant,
    command: ReportWriteMetadata,
    stats: Sequence[WriteStat],
    now: Micros,
) -> WriteStatsStaged:
    stage = StageWriteStats(table.name, instant.requested_time, stats)
    payload = staging.stage(table, instant, stage, state.concurrent, now, [])
    return msgspec.structs.replace(payload, report=checkpoints.report_of(command))


def _says_more(stream: Stream, checkpoint: Checkpoint, command: ReportWriteMetadata) -> bool:
    """Whether a report without new files says what was not known."""
    reports = checkpoint.tasks.get(command.task)
    is_last_known = reports is not None and reports.last_batch
    return (command.last_batch and not is_last_known) or (
        command.end_of_input and command.task not in stream.ended
    )


def _end(state: State, table: Table, stream: Stream, command: ReportWriteMetadata, origin: Origin) -> None:
    """Keep that a task has ended, if it has. The checkpoint has no pending instant to keep it with."""
    if command.end_of_input and command.task not in stream.ended:
        state.append(table.table_id, origin, StreamTaskEnded(name=stream.name, task=command.task))


def _report_result(
    table: Table, command: ReportWriteMetadata, instant: Instant | None, files: int
) -> WriteMetadataResult:
    return WriteMetadataResult(
        log_id=table.table_id,
        table=table.name,
        tick=table.definition.tick,
        stream=command.stream,
        checkpoint=command.checkpoint,
        requested_time=None if instant is None else instant.requested_time,
        files=files,
        is_completed=instant is not None and instant.state is InstantState.COMPLETED,
    )


def _completed_result(state: State, table: Table, stream: Stream, ended: Sequence[Micros]) -> CheckpointsResult:
    states = {time: state.instant(table, time).state for time in ended}
    return CheckpointsResult(
        log_id=table.table_id,
        table=table.name,
        tick=table.definition.tick,
        stream=stream.name,
        instants=[
            instant_of(state, table, time) for time, after in states.items() if after is InstantState.COMPLETED
        ],
        rolled_back=[time for time, after in states.items() if after is InstantState.ROLLED_BACK],
    )


class AbortCheckpointHandler(ChangeStreamHandler[AbortCheckpoint]):
    """Keeps in the log that a checkpoint was aborted."""

    command = AbortCheckpoint

    @override
    def change(self, table: Table, stream: Stream, command: AbortCheckpoint, now: Micros) -> Payload:
        return checkpoints.abort(table, stream, command)
