"""The markers of one table in plain Python: instants with the files that they marked, deleted and published."""

from __future__ import annotations

from dataclasses import dataclass, field

from chronolake_model import instants as wire
from chronolake_model.problems import ProblemCode as Code
from chronolake_model.vocabulary import State

DELETED_AT_COMPLETION_MAX = 1
"""Fewer than a server deletes, so that some instants complete with more markers."""
File = tuple[int, int]
"""A bucket, and the attempt that wrote its file."""


@dataclass
class MarkedInstant:
    """A write, or the rollback of ``target``; ``ever_marked`` are all files that it might have in storage."""

    time: int
    state: State
    writer: str
    is_direct: bool = False
    target: int | None = None
    undone_by: int | None = None
    completed: int | None = None
    marked: set[File] = field(default_factory=set)
    ever_marked: set[File] = field(default_factory=set)
    deleted: set[File] = field(default_factory=set)
    is_unswept: bool = False
    """Whether its deletions are to be looked at once more."""
    published: set[File] = field(default_factory=set)
    staged: set[File] = field(default_factory=set)
    """Files that it may publish when it completes, so that no report may name them before."""

    @property
    def is_pending(self) -> bool:
        return self.state in (State.REQUESTED, State.INFLIGHT)

    @property
    def needed(self) -> set[File]:
        """Its files that must not be deleted."""
        return self.published | (self.staged if self.is_pending else set())


@dataclass
class MarkedTable:
    """The instants of the table by requested time, and the targets of its savepoints."""

    instants: dict[int, MarkedInstant] = field(default_factory=dict)
    savepoints: dict[int, int] = field(default_factory=dict)

    def writes(self) -> list[MarkedInstant]:
        return [instant for instant in self.instants.values() if instant.target is None]

    def owner(self, instant: MarkedInstant) -> MarkedInstant:
        """The instant that has the markers: of a rollback its target."""
        return instant if instant.target is None else self.instants[instant.target]

    def may_complete(self, instant: MarkedInstant, files: set[File], writer: str | None) -> set[Code]:
        refusals = not_from(instant, {State.INFLIGHT})
        if refusals:
            return refusals
        refusals = unless_its(instant, writer)
        owner = self.owner(instant)
        if any(self.is_later_than(other, instant, files) for other in self.writes()):
            refusals |= {Code.WRITE_CONFLICT}
        if owner.marked - files:
            refusals |= {Code.UNRECONCILED_MARKERS}
        if instant.target is None and (owner.marked or owner.deleted) and files - owner.marked:
            refusals |= {Code.INVALID_WRITE_STAT}
        return refusals

    def completed(self, instant: MarkedInstant, time: int, files: set[File]) -> None:
        instant.state, instant.completed, instant.published = State.COMPLETED, time, files
        instant.is_unswept |= instant.target is not None and instant.is_direct
        if len(instant.marked) <= DELETED_AT_COMPLETION_MAX:
            instant.marked = set()

    def is_later_than(self, other: MarkedInstant, instant: MarkedInstant, files: set[File]) -> bool:
        """Whether another has completed, since this one was begun, a bucket that it writes too."""
        if other.state is not State.COMPLETED or (other.completed or 0) < instant.time:
            return False
        return bool({bucket for bucket, _ in files} & {bucket for bucket, _ in other.published})

    def rolled_back(self, instant: MarkedInstant, rollback: int, writer: str, *, execute: bool) -> None:
        instant.state, instant.undone_by = State.ROLLED_BACK, rollback
        waits = State.INFLIGHT if execute else State.REQUESTED
        state = waits if instant.marked or instant.is_direct else State.COMPLETED
        self.instants[rollback] = MarkedInstant(rollback, state, writer, instant.is_direct, target=instant.time)

    def rollback_resumed(self, rollback: int | None, request: wire.RollbackInstant) -> None:
        instant = self.instants.get(rollback or 0)
        if instant is not None and instant.state is State.REQUESTED and request.execute:
            instant.state, instant.writer = State.INFLIGHT, request.writer


def not_from(instant: MarkedInstant, allowed: set[State]) -> set[Code]:
    """The refusal of a change that is legal only from some states."""
    if instant.state in allowed:
        return set()
    return {Code.INSTANT_ROLLED_BACK if instant.state is State.ROLLED_BACK else Code.ILLEGAL_TRANSITION}


def unless_its(instant: MarkedInstant, writer: str | None) -> set[Code]:
    """The refusal of a writer that does not have the instant's lease."""
    return set() if writer in (None, instant.writer) else {Code.LEASE_LIVE}
