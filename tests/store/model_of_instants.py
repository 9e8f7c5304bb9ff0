"""Instants in plain Python, as ``model.py`` has them, and the words in which it speaks of them."""

from __future__ import annotations

from dataclasses import dataclass

from chronolake_model.problems import ProblemCode as Code
from chronolake_model.vocabulary import Action, State, TableType, Touch
from tests.store.model_of_cleans import File

Group = tuple[int, int]
"""A file group of a bucket: the bucket, and how many groups of it were replaced before."""
Touched = tuple[Touch, Group]
Refusals = dict[Code, int | None]
"""For each code with which a request may be refused, the instant that wins where it is a conflict."""
Slice = tuple[int | None, tuple[int, ...]]
"""The instants that wrote a slice's base file and, by completion, its log files."""

SERVICES = {Action.CLUSTERING, Action.COMPACTION, Action.LOGCOMPACTION}
WRITES = {Action.COMMIT, Action.DELTACOMMIT, Action.REPLACECOMMIT}
UNDOES = {Action.ROLLBACK, Action.SAVEPOINT, Action.RESTORE}
KEEPS_PLAN = SERVICES | {Action.CLEAN, Action.INDEXING, Action.ROLLBACK}
COMPLETED_AS = {
    Action.CLUSTERING: Action.REPLACECOMMIT,
    Action.COMPACTION: Action.COMMIT,
    Action.LOGCOMPACTION: Action.DELTACOMMIT,
}
_EITHER = {Action.REPLACECOMMIT, Action.CLUSTERING, Action.CLEAN, Action.INDEXING}
BEGUN = {
    TableType.COPY_ON_WRITE: sorted(_EITHER | {Action.COMMIT}),
    TableType.MERGE_ON_READ: sorted(
        _EITHER | {Action.DELTACOMMIT, Action.COMPACTION, Action.LOGCOMPACTION},
    ),
}
TOUCHES = {
    Action.COMMIT: {Touch.BASE},
    Action.DELTACOMMIT: {Touch.BASE, Touch.LOG},
    Action.REPLACECOMMIT: set(Touch),
    Action.CLUSTERING: set(Touch),
    Action.COMPACTION: {Touch.BASE},
    Action.LOGCOMPACTION: {Touch.LOG},
}
SECOND = 1_000_000


@dataclass(frozen=True)
class Instant:
    """One instant; ``action`` is the one that was begun, ``plan`` the file groups that it named then."""

    time: int
    action: Action
    state: State
    writer: str
    lease_seconds: int
    lease_end: int | None
    plan: tuple[Group, ...] = ()
    target: int | None = None
    undone_by: int | None = None
    completed: int | None = None
    was_completed: bool = False
    undone_completion: int | None = None
    undone_at: int | None = None
    touched: frozenset[Touched] = frozenset()
    schema_version: int | None = None
    files_to_delete: frozenset[File] = frozenset()
    """The plan of a clean that the server planned."""
    has_reported: bool = False

    @property
    def records(self) -> int:
        """The records of each file that it writes: a clustering has those of its plan in one file."""
        return 10 * max(1, len(self.plan)) if self.action is Action.CLUSTERING else 10

    @property
    def is_pending(self) -> bool:
        return self.state in (State.REQUESTED, State.INFLIGHT)

    @property
    def is_completed_write(self) -> bool:
        return self.state is State.COMPLETED and self.action in WRITES | SERVICES

    @property
    def is_savepoint(self) -> bool:
        return self.state is State.COMPLETED and self.action is Action.SAVEPOINT

    def touches(self, how: Touch, group: Group) -> bool:
        return (how, group) in self.touched


@dataclass(frozen=True)
class Completed:
    """An instant that has a completion time."""

    time: int
    completed: int
    instant: Instant

    def touches(self, how: Touch, group: Group) -> bool:
        return self.instant.touches(how, group)

    @property
    def touched(self) -> frozenset[Touched]:
        return self.instant.touched


def not_from(instant: Instant) -> Refusals:
    """The refusal of a change for which the instant is in the wrong state."""
    if instant.state is State.ROLLED_BACK:
        return {Code.INSTANT_ROLLED_BACK: None}
    return {Code.ILLEGAL_TRANSITION: None}
