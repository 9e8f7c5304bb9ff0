"""What a write knows of itself, whether it waits by blocking or by awaiting; no I/O."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from chronolake import _deletions, calls, errors
from chronolake._transport import new_key
from chronolake.calls.base import Call
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
    TouchedFileGroup,
)
from chronolake_model.markers import (
    CreatedMarkers,
    CreateMarkers,
    DeletedFile,
    DeletedFilePage,
    Marker,
    MarkerPage,
    ReportDeletions,
    ReportedDeletions,
    file_at,
    is_file_of,
)
from chronolake_model.vocabulary import Action, State, Touch
from chronolake_storage.guard import Deleting

_REASON_CHARS_MAX = 4_096

KEEP_THEIR_PLAN: Final = frozenset(
    {
        Action.CLUSTERING,
        Action.COMPACTION,
        Action.LOGCOMPACTION,
        Action.CLEAN,
        Action.INDEXING,
        Action.ROLLBACK,
    }
)
"""What goes back to requested when its execution fails, and waits there to be executed again."""

STAGED_FROM: Final = 5_000
"""With more files than that they are reported before the instant completes, so that nobody waits for them."""
STAGED_AT_ONCE: Final = 2_000
RECONCILIATIONS_MAX: Final = 5
"""How often what was left over is deleted before a completion: late attempts may mark more meanwhile."""
MARKERS_AT_ONCE: Final = 10_000

BEST_EFFORT_SECONDS = 10.0
"""How long a rollback is tried for that is only a courtesy: the lease ends in any case."""


class Progress:
    """An instant as last heard of, the files it wrote, and the commands that are still without an answer."""

    def __init__(self, instant: Instant) -> None:
        self._lock = threading.Lock()
        self._instant = instant
        # In whose name the write goes on, whatever is heard: if another takes the instant over, this one stops.
        self._writer = instant.writer
        self._stats: list[WriteStat] = []
        self._replaced: list[FileGroupName] = []
        self._unanswered: dict[Call[Any], str] = {}
        self._staged: dict[Call[StagedWriteStats], int] = {}
        self.extra_metadata: dict[str, str] = {}
        self.cleaned_before: str | None = None
        self.schema_version: int | None = None
        self.given_up_here = False

    @property
    def instant(self) -> Instant:
        """The instant as last heard of."""
        return self._instant

    @property
    def writer(self) -> str:
        """In whose name the write goes on."""
        return self._writer

    @property
    def stats(self) -> tuple[WriteStat, ...]:
        """The write stats added so far."""
        with self._lock:
            return tuple(self._stats)

    def add(self, stat: WriteStat) -> None:
        """Remember a written file."""
        with self._lock:
            self._stats.append(stat)

    def replace(self, file_group: FileGroupName) -> None:
        """Remember a file group that is to disappear."""
        with self._lock:
            self._replaced.append(file_group)

    def touched(self) -> list[TouchedFileGroup]:
        """The file groups of what was added, and those that are to disappear; each once."""
        with self._lock:
            written = [TouchedFileGroup(one.partition_path, one.file_id, _touch_of(one)) for one in self._stats]
            gone = [TouchedFileGroup(one.partition_path, one.file_id, Touch.REPLACED) for one in self._replaced]
        return list(dict.fromkeys(written + gone))

    def learn(self, instant: Instant) -> Instant:
        """Take in an answer, unless a later one is known."""
        # The answer to a heartbeat may arrive after that to complete.
        with self._lock:
            if instant.version >= self._instant.version:
                self._instant = instant
        return instant

    def key_of(self, call: Call[Any]) -> str:
        """The idempotency key of a command, its own until the server has answered it.

        So the caller may repeat what ended in ``ConnectionFailed``: it is the same command, not a second.
        """
        with self._lock:
            return self._unanswered.setdefault(call, new_key())

    def answered(self, call: Call[Any]) -> None:
        """The server answered ``call``, yes or no: the next one like it is another command."""
        with self._lock:
            self._unanswered.pop(call, None)

    def is_settled(self) -> bool:
        """Whether there is nothing left to complete: it has completed, or the caller himself gave it up."""
        return self._instant.state is State.COMPLETED or self.given_up_here

    def is_gone(self, exc: BaseException, lost: errors.RequestRefused | None) -> bool:
        """Whether there is nothing left to roll back after ``exc``."""
        known = lost is not None or isinstance(exc, errors.InstantRolledBack | errors.LeaseLive)
        return known or self.given_up_here or not self._instant.state.is_pending

    def keeps_plan_after(self, exc: BaseException) -> bool:
        """Whether the plan is worth another execution: not when it lost to what has completed."""
        if self._instant.action not in KEEP_THEIR_PLAN or self._instant.state is not State.INFLIGHT:
            return False
        return not (isinstance(exc, errors.WriteConflict) and exc.context.get("rebase_on") is not None)

    def inflight_call(self) -> Call[Instant]:
        """Go to inflight."""
        return calls.instants.to_inflight(*self._name)

    def staging_calls(self, write_stats: Iterable[WriteStat]) -> list[Call[StagedWriteStats]]:
        """Report what was added, and what is given here, before it is published; nothing where it is little."""
        stats = [*self.stats, *write_stats]
        if len(stats) <= STAGED_FROM:
            return []
        return [
            calls.instants.stage_write_stats(
                *self._name, StageWriteStats(stats[first : first + STAGED_AT_ONCE], self._writer)
            )
            for first in range(0, len(stats), STAGED_AT_ONCE)
        ]

    def staged_under(self, call: Call[StagedWriteStats]) -> int | None:
        """The version under which ``call`` has staged; None as long as it has not."""
        return self._staged.get(call)

    def has_staged(self, call: Call[StagedWriteStats], version: int) -> int:
        """Remember the answer: whoever completes once more need not stage once more."""
        self._staged[call] = version
        return version

    def complete_call(
        self,
        write_stats: Iterable[WriteStat],
        extra_metadata: Mapping[str, str] | None,
        replaced_file_groups: Iterable[FileGroupName] = (),
        schema_version: int | None = None,
        staged: Sequence[int] = (),
    ) -> Call[Instant]:
        """Publish what was ``staged``, or else what was added and what is given here."""
        with self._lock:
            body = CompleteInstant(
                [] if staged else [*self._stats, *write_stats],
                {**self.extra_metadata, **(extra_metadata or {})},
                [*self._replaced, *replaced_file_groups],
                self._writer,
                self.schema_version if schema_version is None else schema_version,
                list(staged),
                self.cleaned_before,
            )
        return calls.instants.complete(*self._name, body)

    def member(self) -> CompleteOne:
        """What was added, as one of several that complete together."""
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
        """Give up executing the plan, in the name of whoever executes it."""
        return calls.instants.return_to_requested(
            *self._name, ReturnToRequested(self._writer, _storable(reason))
        )

    def conflicts_call(self, file_groups: Sequence[TouchedFileGroup]) -> Call[Conflicts]:
        """Ask whether touching these would conflict."""
        return calls.instants.find_conflicts(*self._name, FindConflicts(list(file_groups)))

    def rollback_call(self, reason: str, *, execute: bool) -> Call[Instant]:
        """Give the instant up, in its writer's name: so the writer's own lease does not stand in the way.

        Unless it is to ``execute`` the rollback, what it has marked is left to whoever does.
        """
        body = RollbackInstant(self._writer, _storable(reason), execute=execute)
        return calls.instants.rollback(*self._name, body)

    def heartbeat_call(self, lease_seconds: int | None) -> Call[Instant]:
        """Renew the lease."""
        return calls.instants.heartbeat(*self._name, Heartbeat(lease_seconds, self._writer))

    def mark_call(self, markers: Iterable[Marker]) -> Call[CreatedMarkers]:
        """Create markers."""
        return calls.markers.create(*self._name, CreateMarkers(list(markers), self._writer))

    def hand_over_calls(self, markers: Iterable[Marker]) -> list[Call[CreatedMarkers]]:
        """Create markers that were in storage so far."""
        some = list(markers)
        return [
            self.mark_call(some[first : first + MARKERS_AT_ONCE])
            for first in range(0, len(some), MARKERS_AT_ONCE)
        ]

    def markers_call(self) -> Call[MarkerPage]:
        """Its markers; of a rollback those of the instant that it undoes."""
        return calls.markers.list_all(self._instant.table, self.marked_by, unpublished=False)

    @property
    def marked_by(self) -> str:
        """The instant whose markers count: of a rollback that which it undoes."""
        return self._instant.target or self._instant.requested_time

    @property
    def deleting(self) -> Deleting:
        """In whose name its files are deleted."""
        return deleting_by(self._instant, self._writer)

    @property
    def has_direct_markers(self) -> bool:
        """Whether they are in storage."""
        return self._instant.plan is not None and self._instant.plan.direct_markers

    @property
    def goes_by_markers(self) -> bool:
        """Whether markers say what is in storage: a rollback may have been told which files to delete."""
        return not self.is_rollback or (self._instant.plan is not None and self._instant.plan.by_markers)

    @property
    def is_rollback(self) -> bool:
        """Whether it undoes another instant."""
        return self._instant.action is Action.ROLLBACK

    def planned_files_call(self) -> Call[PlannedFiles]:
        """The files that its plan names, to be deleted."""
        return calls.plans.files(*self._name)

    @property
    def is_planned_clean(self) -> bool:
        """Whether it is a clean whose files the server named."""
        return self._instant.plan is not None and self._instant.plan.cleaned_before is not None

    def deletions_call(self) -> Call[DeletedFilePage]:
        """What was reported deleted of it."""
        return calls.deletions.list_all(*self._name)

    @staticmethod
    def without_reported(planned: Iterable[str], reported: Iterable[DeletedFile]) -> list[DeletedFile]:
        """The files of its plan that are not among those."""
        gone = set(reported)
        return [file for file in map(file_at, planned) if file not in gone]

    def without_stats(
        self, markers: Iterable[Marker], write_stats: Iterable[WriteStat] = ()
    ) -> list[DeletedFile]:
        """The data files of ``markers`` that were not added, nor are given here, each once."""
        added = {(stat.partition_path, stat.file_name) for stat in (*self.stats, *write_stats)}
        named = dict.fromkeys((one.partition_path, one.file_name) for one in markers)
        return [DeletedFile(*name) for name in named if name not in added]

    def to_report(self, deleted: Iterable[DeletedFile]) -> list[DeletedFile]:
        """Those of deleted files that are recorded: a rollback may name what is no data file of its target."""
        if self.goes_by_markers:
            return list(deleted)
        return [file for file in deleted if is_file_of(file, self.marked_by)]

    def deletion_calls(self, files: Iterable[DeletedFile]) -> list[Call[ReportedDeletions]]:
        """Report files as deleted, some thousand at a time."""
        return [
            calls.deletions.report(*self._name, ReportDeletions([*part], self._writer))
            for part in _deletions.parts(files)
        ]

    def refresh_call(self) -> Call[Instant]:
        """Ask how it stands."""
        return calls.instants.get(*self._name)

    def note_on(self, exc: BaseException, failure: errors.ChronolakeError) -> None:
        """Say with ``exc``, which caused it, that the rollback failed, or how far it came."""
        which = f"instant {self._instant.requested_time} of {self._instant.table}"
        if self.given_up_here:
            exc.add_note(f"chronolake: files of the {which} wait to be deleted: {failure}")
        else:
            exc.add_note(f"chronolake: {which} was not rolled back: {failure}")

    @property
    def _name(self) -> tuple[str, str]:
        return self._instant.table, self._instant.requested_time


def deleting_by(instant: Instant, writer: str | None = None) -> Deleting:
    """Whose files an instant deletes: a rollback those of its target, a clean those of earlier instants."""
    match instant.action:
        case Action.CLEAN:
            return Deleting(instant.requested_time, None, writer)
        case Action.ROLLBACK:
            return Deleting(instant.requested_time, instant.target, writer)
        case _:
            return Deleting(instant.requested_time, instant.requested_time, writer)


def together_call(members: Sequence[Progress]) -> Call[CompletedTogether]:
    """Publish several writes: all of them, or none."""
    return calls.instants.complete_together(CompleteTogether([one.member() for one in members]))


def _touch_of(stat: WriteStat) -> Touch:
    return Touch.LOG if stat.file_name.startswith(".") else Touch.BASE


def _storable(reason: str) -> str:
    """A reason is often the text of an exception, and that may hold anything, even what JSON cannot."""
    return reason.encode(errors="replace").decode().replace("\0", "?")[:_REASON_CHARS_MAX]
