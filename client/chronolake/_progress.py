"""The state of one write: its instant, its files, and its unanswered commands. No I/O."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from chronolake import calls, errors
from chronolake._http import new_key
from chronolake.calls.base import Call
from chronolake_model import operations
from chronolake_model.files import FileGroupName, WriteStat
from chronolake_model.instants import (
    CompletedTogether,
    CompleteInstant,
    CompleteOne,
    CompleteTogether,
    Conflicts,
    FindConflicts,
    Heartbeat,
    Instant,
    PlannedFiles,
    ReturnToRequested,
    RollbackInstant,
    StagedWriteStats,
    StageWriteStats,
    TakeInflight,
    TouchedFileGroup,
)
from chronolake_model.markers import (
    DELETIONS_MAX,
    MARKERS_MAX,
    CreatedMarkers,
    CreateMarkers,
    DeletedFile,
    DeletedFilePage,
    Marker,
    MarkerPage,
    ReportDeletions,
    ReportedDeletions,
)
from chronolake_model.vocabulary import Action, State, Touch
from chronolake_storage.deletions import Source, sources_of
from chronolake_storage.guard import Deleting

_REASON_CHARS_MAX = 4_096

PLAN_KEEPING_ACTIONS: Final = frozenset(
    {
        Action.CLUSTERING,
        Action.COMPACTION,
        Action.LOGCOMPACTION,
        Action.CLEAN,
        Action.INDEXING,
        Action.ROLLBACK,
    }
)
"""Actions whose instants return to requested when an execution fails, so that they can be executed again."""

STAGED_FROM: Final = 5_000
"""A write with more files stages them before it completes, so that other writers do not wait for it."""
STAGED_AT_ONCE: Final = 2_000
"""The files in one staging request."""
RECONCILIATIONS_MAX: Final = 5
"""How often a completion deletes left-over files: late attempts of tasks may mark more of them."""
BEST_EFFORT_SECONDS = 10.0
"""How long the rollback of a failed block is retried. Without a rollback the lease expires."""


class Progress:
    """The state of one write. Threads may share it."""

    def __init__(self, instant: Instant) -> None:
        self._lock = threading.Lock()
        self._instant = instant
        # Kept even if another writer takes the instant over: then the server refuses the commands of this one.
        self._writer = instant.writer
        self._stats: list[WriteStat] = []
        self._replaced: list[FileGroupName] = []
        self._unanswered: dict[Call[Any], str] = {}
        self._staged: dict[Call[StagedWriteStats], int] = {}
        self.extra_metadata: dict[str, str] = {}
        self.cleaned_before: str | None = None
        self.schema_version: int | None = None
        self.is_given_up = False

    @property
    def instant(self) -> Instant:
        """The instant as of the last answer."""
        return self._instant

    @property
    def writer(self) -> str:
        """The writer in whose name commands are sent."""
        return self._writer

    @property
    def stats(self) -> tuple[WriteStat, ...]:
        """The write stats added so far."""
        with self._lock:
            return tuple(self._stats)

    def add(self, stat: WriteStat) -> None:
        """Add a written file."""
        with self._lock:
            self._stats.append(stat)

    def replace(self, file_group: FileGroupName) -> None:
        """Add a file group that the write replaces."""
        with self._lock:
            self._replaced.append(file_group)

    def touched(self) -> list[TouchedFileGroup]:
        """The file groups of the added files and the replaced file groups, each once."""
        with self._lock:
            touched = [
                TouchedFileGroup(stat.partition_path, stat.file_id, _touch_of(stat)) for stat in self._stats
            ]
            touched += [
                TouchedFileGroup(group.partition_path, group.file_id, Touch.REPLACED)
                for group in self._replaced
            ]
        return list(dict.fromkeys(touched))

    def update(self, instant: Instant) -> Instant:
        """Keep the instant of an answer, unless a later version of it is known."""
        # The answer to a heartbeat may arrive after the answer to complete.
        with self._lock:
            if instant.version >= self._instant.version:
                self._instant = instant
        return instant

    def key_of(self, call: Call[Any]) -> str:
        """The idempotency key of a command; it stays the same until the server has answered.

        So a caller can repeat a command after ``ConnectionFailed``: the server executes it once.
        """
        with self._lock:
            return self._unanswered.setdefault(call, new_key())

    def forget_key(self, call: Call[Any]) -> None:
        """Forget the key of an answered ``call``: the next equal call is another command."""
        with self._lock:
            self._unanswered.pop(call, None)

    def is_settled(self) -> bool:
        """Whether nothing is left to complete: the instant has completed, or the caller gave it up."""
        return self._instant.state is State.COMPLETED or self.is_given_up

    def is_gone(self, exc: BaseException, lost: errors.RequestRefused | None) -> bool:
        """Whether nothing is left to roll back after ``exc``."""
        is_lost = lost is not None or isinstance(exc, errors.InstantRolledBack | errors.LeaseLive)
        return is_lost or self.is_given_up or not self._instant.state.is_pending

    def keeps_plan_after(self, exc: BaseException) -> bool:
        """Whether the plan can be executed again: not after a conflict with an instant that has completed."""
        if self._instant.action not in PLAN_KEEPING_ACTIONS or self._instant.state is not State.INFLIGHT:
            return False
        if self._instant.plan is not None and self._instant.plan.buckets is not None:
            # The plan of a resize has all file groups of the moment of its begin.
            return False
        return not (isinstance(exc, errors.WriteConflict) and exc.context.get("rebase_on") is not None)

    def inflight_call(self) -> Call[Instant]:
        """Move the instant to inflight."""
        return calls.call(operations.timeline.TAKE_INFLIGHT, *self._name, body=TakeInflight())

    def staging_calls(self, write_stats: Iterable[WriteStat]) -> list[Call[StagedWriteStats]]:
        """The calls that stage the added files and ``write_stats``; none for up to ``STAGED_FROM`` files."""
        stats = [*self.stats, *write_stats]
        if len(stats) <= STAGED_FROM:
            return []
        return [
            calls.call(
                operations.timeline.STAGE_WRITE_STATS,
                *self._name,
                body=StageWriteStats(stats[first : first + STAGED_AT_ONCE], self._writer),
            )
            for first in range(0, len(stats), STAGED_AT_ONCE)
        ]

    def staged_under(self, call: Call[StagedWriteStats]) -> int | None:
        """The version under which ``call`` has staged its files; None if it has not."""
        return self._staged.get(call)

    def has_staged(self, call: Call[StagedWriteStats], version: int) -> int:
        """Keep the version, so that a repeated completion does not stage the same files again."""
        self._staged[call] = version
        return version

    def complete_call(
        self,
        write_stats: Iterable[WriteStat],
        extra_metadata: Mapping[str, str] | None,
        replaced_file_groups: Iterable[FileGroupName] = (),
        schema_version: int | None = None,
        staged: Sequence[int] = (),
        *,
        based_on_reads: bool = False,
        keys_looked_up: bool = False,
        buckets: int | None = None,
    ) -> Call[Instant]:
        """Publish the ``staged`` files, or if there are none, the added files and ``write_stats``."""
        with self._lock:
            body = CompleteInstant(
                [] if staged else [*self._stats, *write_stats],
                {**self.extra_metadata, **(extra_metadata or {})},
                [*self._replaced, *replaced_file_groups],
                self._writer,
                self.schema_version if schema_version is None else schema_version,
                list(staged),
                self.cleaned_before,
                based_on_reads,
                keys_looked_up,
                buckets,
            )
        return calls.call(operations.timeline.COMPLETE_INSTANT, *self._name, body=body)

    def member(self) -> CompleteOne:
        """The part of this write in a command that completes several writes together."""
        table, requested_time = self._name
        with self._lock:
            return CompleteOne(
                list(self._stats),
                dict(self.extra_metadata),
                list(self._replaced),
                self._writer,
                self.schema_version,
                cleaned_before=self.cleaned_before,
                table=table,
                requested_time=requested_time,
            )

    def return_call(self, reason: str) -> Call[Instant]:
        """Return the plan to requested."""
        return calls.call(
            operations.timeline.RETURN_TO_REQUESTED,
            *self._name,
            body=ReturnToRequested(self._writer, _storable(reason)),
        )

    def conflicts_call(self, file_groups: Sequence[TouchedFileGroup]) -> Call[Conflicts]:
        """Find a conflict over these file groups."""
        return calls.call(
            operations.timeline.FIND_CONFLICTS, *self._name, body=FindConflicts(list(file_groups))
        )

    def rollback_call(self, reason: str, *, execute: bool) -> Call[Instant]:
        """Roll the instant back in its writer's name, whose own lease does not prevent it.

        Without ``execute``, the rollback waits for another executor to delete the files.
        """
        body = RollbackInstant(self._writer, _storable(reason), execute=execute)
        return calls.call(operations.timeline.ROLL_BACK_INSTANT, *self._name, body=body)

    def heartbeat_call(self, lease_seconds: int | None) -> Call[Instant]:
        """Renew the lease."""
        return calls.call(
            operations.timeline.RENEW_LEASE, *self._name, body=Heartbeat(lease_seconds, self._writer)
        )

    def mark_call(self, markers: Iterable[Marker]) -> Call[CreatedMarkers]:
        """Create markers."""
        return calls.call(
            operations.files.CREATE_MARKERS, *self._name, body=CreateMarkers(list(markers), self._writer)
        )

    def hand_over_calls(self, markers: Sequence[Marker]) -> list[Call[CreatedMarkers]]:
        """Create direct markers on the server too."""
        return [
            self.mark_call(markers[first : first + MARKERS_MAX])
            for first in range(0, len(markers), MARKERS_MAX)
        ]

    def markers_call(self) -> Call[MarkerPage]:
        """List the markers of the instant; for a rollback those of its target."""
        return calls.files.list_markers(self._instant.table, self.marked_by, unpublished=False)

    @property
    def marked_by(self) -> str:
        """The requested time of the instant whose markers count: for a rollback its target."""
        return self._instant.target or self._instant.requested_time

    @property
    def deleting(self) -> Deleting:
        """The instant and writer in whose name files are deleted."""
        return deleting_by(self._instant, self._writer)

    @property
    def has_direct_markers(self) -> bool:
        """Whether its markers are direct markers in storage."""
        return self._instant.plan is not None and self._instant.plan.direct_markers

    @property
    def deletes_markers(self) -> bool:
        """Whether its direct markers are deleted after it has completed: not if its plan lists the files."""
        return self.has_direct_markers and self.sources != [Source.PLAN]

    @property
    def is_planned_deletion(self) -> bool:
        """Whether it only deletes files: a rollback, or a clean that the server has planned."""
        return self._is_planned_clean or self.is_rollback

    @property
    def is_rollback(self) -> bool:
        """Whether it rolls another instant back."""
        return self._instant.action is Action.ROLLBACK

    @property
    def sources(self) -> list[Source]:
        """The lists of files that it must delete before it completes."""
        return sources_of(
            self._instant.action,
            is_planned=self._is_planned_clean,
            by_markers=self._instant.plan is not None and self._instant.plan.by_markers,
            direct_markers=self.has_direct_markers,
        )

    def planned_files_call(self) -> Call[PlannedFiles]:
        """List the files in its plan."""
        return calls.timeline.planned_files(*self._name)

    @property
    def _is_planned_clean(self) -> bool:
        return self._instant.plan is not None and self._instant.plan.cleaned_before is not None

    def reported_deletions_call(self) -> Call[DeletedFilePage]:
        """List the files that were reported deleted."""
        return calls.files.list_deletions(*self._name)

    def written_files(self, write_stats: Iterable[WriteStat] = ()) -> set[DeletedFile]:
        """The added files, and those of ``write_stats``, by their names."""
        return {DeletedFile(stat.partition_path, stat.file_name) for stat in (*self.stats, *write_stats)}

    def deletion_calls(self, files: Iterable[DeletedFile]) -> list[Call[ReportedDeletions]]:
        """The calls that report files as deleted, ``DELETIONS_MAX`` in each."""
        reported = list(files)
        return [
            calls.call(
                operations.files.REPORT_DELETIONS,
                *self._name,
                body=ReportDeletions(reported[first : first + DELETIONS_MAX], self._writer),
            )
            for first in range(0, len(reported), DELETIONS_MAX)
        ]

    def refresh_call(self) -> Call[Instant]:
        """Fetch the instant."""
        return calls.call(operations.timeline.GET_INSTANT, *self._name)

    def note_on(self, exc: BaseException, failure: errors.ChronolakeError) -> None:
        """Add a note about the failed rollback to ``exc``, the error that caused the rollback."""
        name = f"instant {self._instant.requested_time} of {self._instant.table}"
        if self.is_given_up:
            exc.add_note(f"chronolake: files of {name} could not be deleted yet: {failure}")
        else:
            exc.add_note(f"chronolake: {name} was not rolled back: {failure}")

    @property
    def _name(self) -> tuple[str, str]:
        return self._instant.table, self._instant.requested_time


def deleting_by(instant: Instant, writer: str | None = None) -> Deleting:
    """The name in which an instant deletes: a rollback files of its target, a clean files of earlier ones."""
    match instant.action:
        case Action.CLEAN:
            return Deleting(instant.requested_time, None, writer)
        case Action.ROLLBACK:
            return Deleting(instant.requested_time, instant.target, writer)
        case _:
            return Deleting(instant.requested_time, instant.requested_time, writer)


def together_call(members: Sequence[Progress]) -> Call[CompletedTogether]:
    """Complete several writes together: all of them, or none."""
    return calls.call(
        operations.timeline.COMPLETE_TOGETHER, body=CompleteTogether([member.member() for member in members])
    )


def _touch_of(stat: WriteStat) -> Touch:
    return Touch.LOG if stat.file_name.startswith(".") else Touch.BASE


def _storable(reason: str) -> str:
    """The reason without characters that JSON cannot represent: it is often the text of an exception."""
    return reason.encode(errors="replace").decode().replace("\0", "?")[:_REASON_CHARS_MAX]
