"""Table services: a round of planning, which a policy decides from facts that were read without a lock.

``compactions`` and ``clusterings`` decide; ``PlanServices`` records. What has changed since the facts were read
is left out when the command is decided, under the table's lock (docs/decisions/0081-planned-services.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from typing_extensions import override

from chronolake_metastore.domain import properties
from chronolake_metastore.domain.cleans import CleanBounds, Retention
from chronolake_metastore.domain.commands import Command
from chronolake_metastore.domain.conflicts import REPLACING, SERVICES, ConcurrentInstants
from chronolake_metastore.domain.files import FileGroup
from chronolake_metastore.domain.instants import BeginInstant
from chronolake_metastore.domain.plans import NewPlan
from chronolake_metastore.domain.policies import CleaningPolicy
from chronolake_metastore.domain.tables import Table
from chronolake_model.files import FileGroupName
from chronolake_model.service_properties import CLEAN_ENABLED
from chronolake_model.times import Micros
from chronolake_model.vocabulary import Action, HeldReason, TableService

ROUND_GROUPS_MAX: Final = 100
"""File groups that a round of a service plans at most: recording them holds the table's lock."""
SERVICE_OF: Final[Mapping[Action, TableService]] = {service.action: service for service in TableService}
"""The service that an instant of an action is, by the name that it was begun with."""


class ServicePlan(msgspec.Struct, frozen=True, omit_defaults=True):
    """One instant to record: the file groups that it rewrites together, and what that is expected to give."""

    service: TableService
    file_groups: Sequence[FileGroupName]
    size_bytes: int
    files_before: int
    files_after: int
    details: dict[str, str] = {}


class Held(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a service, or ``file_groups`` file groups of it, are not planned; ``example`` is one of these."""

    service: TableService
    reason: HeldReason
    message: str
    file_groups: int = 0
    example: FileGroupName | None = None


class Round(msgspec.Struct, frozen=True):
    """The result of a round of planning. ``left_out`` are the partitions of plans beyond its bound."""

    plans: Sequence[ServicePlan] = ()
    held: Sequence[Held] = ()
    left_out: Sequence[str] = ()


class Commits(msgspec.Struct, frozen=True):
    """Commits that completed after something: their number, up to the one asked for, and when the first did."""

    number: int = 0
    first: Micros | None = None


class PlanServices(Command, frozen=True):
    """Records a round. ``seen`` is the time of the table's log up to which its facts were read.

    ``clean`` is the retention of a clean that is planned too. It names no file: cleans are planned under the
    lock.
    """

    table: str
    writer: str
    services: Sequence[TableService] = ()
    force: bool = False
    details: dict[str, str] = msgspec.field(default_factory=dict)
    plans: Sequence[ServicePlan] = ()
    held: Sequence[Held] = ()
    clean: Retention | None = None
    seen: Micros = Micros(0)

    @override
    def identity(self) -> Command:
        """The request alone: the same request, sent again, may meet other facts."""
        return PlanServices(self.table, self.writer, self.services, self.force, self.details)


def held_groups(
    service: TableService, reason: HeldReason, message: str, groups: Sequence[FileGroupName]
) -> list[Held]:
    """The reason that holds these file groups; nothing if there are none."""
    return [Held(service, reason, message, len(groups), groups[0])] if groups else []


def instants_of(
    table: Table, command: PlanServices, concurrent: ConcurrentInstants
) -> tuple[list[BeginInstant], list[Held]]:
    """The instants of the round that still fit, and what is held because it was planned or changed since.

    A compaction goes on without the file groups that are gone. A clustering is worth the files that it saves
    together, so it is left out whole.
    """
    begins: list[BeginInstant] = []
    lost: dict[TableService, list[FileGroupName]] = {}
    for plan in command.plans:
        is_whole = plan.service is TableService.CLUSTERING
        changed = {
            name for name in plan.file_groups if _has_changed(table, name, concurrent, command.seen, is_whole)
        }
        lost.setdefault(plan.service, []).extend(name for name in plan.file_groups if name in changed)
        left = [name for name in plan.file_groups if name not in changed]
        details = command.details | plan.details
        # The schema may have changed since the round was decided.
        is_possible = properties.impossible_layout(details, table.definition.schema) is None
        if left and is_possible and not (changed and is_whole):
            new_plan = NewPlan(left, details)
            begin = BeginInstant(
                command.table, command.writer, plan.service.action, inflight=False, plan=new_plan
            )
            begins.append(begin)
    message = "file groups planned, replaced or rewritten while this round was decided"
    return begins, [
        held
        for service, names in lost.items()
        for held in held_groups(service, HeldReason.PENDING_PLAN, f"{message}: {len(names)}", names)
    ]


def _has_changed(
    table: Table, name: FileGroupName, concurrent: ConcurrentInstants, seen: Micros, is_whole: bool
) -> bool:
    """Whether a file group is planned or gone, or was changed since ``seen`` and is to be rewritten whole."""
    others = concurrent.get(FileGroup(table.table_id, name.partition_path, name.file_id), ())
    completed = [other.completion_time for other in others if other.completion_time is not None]
    if not completed or any(
        other.change in (SERVICES if other.completion_time is None else REPLACING) for other in others
    ):
        return True
    return is_whole and max(completed) > seen


class CleansSince(msgspec.Struct, frozen=True):
    """The writes since the last clean was requested.

    And what may hold a clean: savepoints by requested time, ``readers`` of one time and those that follow the
    changes by name.
    """

    since_requested: Commits = Commits()
    has_pending: bool = False
    savepoints: Sequence[str] = ()
    readers: Sequence[str] = ()
    followers: Sequence[str] = ()


class CleanFacts(msgspec.Struct, frozen=True):
    """Files that a clean may delete now; numbers end at the limit of one clean, and ``has_more`` says so.

    Savepoints, and readers of one time, keep ``pinned`` files more: ``pinning`` names them. ``limits`` are the
    other reasons that hold the clean back, with the names of the holders.
    """

    files: int
    size_bytes: int
    has_more: bool
    pinned: int
    pinned_by: HeldReason
    pinning: str
    limits: Mapping[HeldReason, str] = {}


class Look(msgspec.Struct, frozen=True):
    """How far clustering has looked at a table: the time of its log, and the partitions to look at again."""

    seen_until: Micros = Micros(0)
    left_out: Sequence[str] = ()


def named(noun: str, names: Sequence[str]) -> str:
    """The holders of a service by their names: ``savepoint A``, ``savepoints A, B, C and 2 more``."""
    more = f" and {len(names) - _NAMED_MAX} more" if len(names) > _NAMED_MAX else ""
    return f"{noun}{'' if len(names) == 1 else 's'} {', '.join(names[:_NAMED_MAX])}{more}"


def pinning(history: CleansSince) -> str:
    """The savepoints and readers that keep files."""
    known = (("savepoint", history.savepoints), ("reader", history.readers))
    return " and the ".join(named(noun, names) for noun, names in known if names)


def follower(history: CleansSince, bounds: CleanBounds) -> str:
    """The holder of all files from a time on: readers that follow the changes, or the publication."""
    if bounds.published is None or (bounds.followed is not None and bounds.followed <= bounds.published):
        return named("reader", history.followers)
    return "publication for Hudi's readers"


def is_clean_due(policy: CleaningPolicy, history: CleansSince) -> bool:
    """Whether the trigger of cleans fires."""
    return history.since_requested.number >= policy.commits_max


def clean_refusal(policy: CleaningPolicy, history: CleansSince, *, force: bool) -> Held | None:
    """Why no clean is planned, whatever files there are; None if one may be."""
    if not policy.is_on and not force:
        return Held(_CLEAN, HeldReason.OFF, f"{CLEAN_ENABLED} is false")
    if history.has_pending:
        return Held(_CLEAN, HeldReason.PENDING_PLAN, "a clean is pending: its executor completes it first")
    if not force and not is_clean_due(policy, history):
        commits = f"{history.since_requested.number} of {policy.commits_max} commits since the last clean"
        return Held(_CLEAN, HeldReason.BELOW_THRESHOLD, f"its trigger has not fired: {commits}")
    return None


def plan_clean(facts: CleanFacts) -> Round:
    """The clean of a round. Its files are chosen again under the lock, so it names none."""
    held = [Held(_CLEAN, limit, f"{_LIMITS[limit]} the {holder}") for limit, holder in facts.limits.items()]
    held += pinned_files(facts)
    if facts.has_more:
        message = f"one clean deletes {facts.files} files; the next takes more"
        held.append(Held(_CLEAN, HeldReason.BOUNDED, message))
    if not facts.files:
        return Round([], held or [Held(_CLEAN, HeldReason.NOTHING_TO_DO, "its policy keeps all files")])
    return Round([ServicePlan(_CLEAN, [], facts.size_bytes, facts.files, 0)], held)


def pinned_files(facts: CleanFacts) -> list[Held]:
    """The files that savepoints and readers keep from a clean."""
    if not facts.pinned:
        return []
    return [Held(_CLEAN, facts.pinned_by, f"files kept: {facts.pinned}, by the {facts.pinning}")]


_NAMED_MAX: Final = 3
_CLEAN: Final = TableService.CLEAN
_LIMITS: Final[Mapping[HeldReason, str]] = {
    HeldReason.PENDING_WRITE: "files that were live when it began may be read by",
    HeldReason.READER: "later files are needed by",
}
