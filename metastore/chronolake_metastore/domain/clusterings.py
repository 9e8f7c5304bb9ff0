"""Clustering: which small file groups of a partition are rewritten together, and when a round is due.

As Hudi's ``SparkSizeBasedClusteringPlanStrategy``, but a group of them is planned only if there are fewer files
afterwards, or if its records get a new order: Hudi rewrites one small file alone in its partition for ever.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence, Set
from typing import Final

import msgspec

from chronolake_metastore.domain import properties
from chronolake_metastore.domain.policies import HOURS_OF_DAY, ClusteringPolicy, PartitionFilter
from chronolake_metastore.domain.services import (
    ROUND_GROUPS_MAX,
    Commits,
    Held,
    Look,
    Round,
    ServicePlan,
    held_groups,
    named,
)
from chronolake_metastore.domain.tables import Table
from chronolake_model import decoding
from chronolake_model.files import FileGroupName
from chronolake_model.service_properties import (
    CLUSTERING_LAYOUT,
    CLUSTERING_SORT_COLUMNS,
    CLUSTERING_TARGET_BYTES,
)
from chronolake_model.times import Micros, to_datetime
from chronolake_model.vocabulary import HeldReason, IndexType, TableService

_CLUSTERING: Final = TableService.CLUSTERING
LEFT_OUT_MAX: Final = 10_000
"""Partitions that rounds remember to look at again."""


class SmallGroup(msgspec.Struct, frozen=True, array_like=True):
    """A file group whose base file is small, or that has none.

    ``completed`` is the completion of its base file, or of its first log file. ``sort_columns`` and ``layout``
    are those of the clustering that wrote the base file. The group ``is_planned`` if a pending table service
    has it in its plan. ``written_by`` is the requested time of the first pending write that has said that it
    changes it.
    """

    partition_path: str
    file_id: str
    base_bytes: int
    log_bytes: int
    files: int
    completed: Micros
    sort_columns: str | None = None
    layout: str | None = None
    is_planned: bool = False
    written_by: str | None = None

    @property
    def is_written(self) -> bool:
        """Whether a pending write has said that it changes it."""
        return self.written_by is not None

    @property
    def name(self) -> FileGroupName:
        """Its name."""
        return FileGroupName(self.partition_path, self.file_id)

    @property
    def size_bytes(self) -> int:
        """The bytes that a clustering reads."""
        return self.base_bytes + self.log_bytes


class ClusteringHistory(msgspec.Struct, frozen=True):
    """The commits since the last clustering that was requested, pending or not, and was not rolled back.

    ``last_requested`` is its time.
    """

    since_requested: Commits = Commits()
    last_requested: Micros | None = None
    has_pending: bool = False


def refusal(table: Table, policy: ClusteringPolicy, *, force: bool) -> str | None:
    """Why the table is not clustered at all; None if it may be."""
    if table.definition.index.type is IndexType.BUCKET:
        return "the bucket index places the records: resize_buckets() of Spark changes the number of buckets"
    if not policy.is_on and not force:
        return "hoodie.clustering.async.enabled is false"
    return properties.impossible_layout(details_of(policy), table.definition.schema)


def is_due(policy: ClusteringPolicy, history: ClusteringHistory) -> bool:
    """Whether the trigger of clustering fires."""
    return history.since_requested.number >= policy.commits_max


def held_by_trigger(policy: ClusteringPolicy, history: ClusteringHistory) -> Held | None:
    """Why no file group is planned, whatever small files there are; None if one may be."""
    if is_due(policy, history) or (history.last_requested is not None and not history.has_pending):
        return None
    return _not_due(policy, history)


class Choice(msgspec.Struct, frozen=True):
    """The partitions that a filter takes, and those that it may take at another time."""

    taken: Sequence[str]
    postponed: Sequence[str] = ()


def partitions_of(
    policy: ClusteringPolicy, changed: Iterable[str], of_table: Sequence[str], now: Micros
) -> Choice:
    """The partitions to look at, of those that have ``changed``.

    ``of_table`` are the partitions of the table in the order of their paths, for filters that count them; for
    RECENT_DAYS the last ones are enough.
    """
    selected = set(policy.selected)
    paths = sorted(path for path in set(changed) if not selected or path in selected)
    match policy.filter:
        case PartitionFilter.NONE:
            return Choice(paths)
        case PartitionFilter.SELECTED_PARTITIONS:
            begin, end = policy.begin or "", policy.end
            return Choice([path for path in paths if begin <= path and (end is None or path <= end)])
        case PartitionFilter.RECENT_DAYS:
            latest = list(reversed(of_table))
            recent = set(latest[policy.skip : policy.skip + policy.lookback])
            newer = set(latest[: policy.skip])
            return Choice([path for path in paths if path in recent], [path for path in paths if path in newer])
        case PartitionFilter.DAY_ROLLING:
            hour = to_datetime(now).hour
            rolling = {path for index, path in enumerate(of_table) if index % HOURS_OF_DAY == hour}
            return Choice(
                [path for path in paths if path in rolling], [path for path in paths if path not in rolling]
            )


def counted_partitions(policy: ClusteringPolicy) -> int | None:
    """How many of the last partitions of the table its filter counts; None for all of them."""
    match policy.filter:
        case PartitionFilter.NONE | PartitionFilter.SELECTED_PARTITIONS:
            return 0
        case PartitionFilter.RECENT_DAYS:
            return policy.skip + policy.lookback
        case PartitionFilter.DAY_ROLLING:
            return None


class Inspected(msgspec.Struct, frozen=True):
    """The partitions that a round looks at: the look before, the choice, and up to which time it has seen.

    A round that is not ``is_whole`` looks only at partitions that earlier ones left out.
    """

    look: Look
    seen: Micros
    choice: Choice
    is_whole: bool = True


def look_after(inspected: Inspected, groups: Sequence[SmallGroup], of_round: Round) -> Look | None:
    """The look that the next round starts from; None to let the earlier one stand.

    To look at again are partitions that the filter postpones, whose groups are in pending plans or writes,
    or beyond the bound of the round, or in its plans: a plan may be rolled back.
    """
    again = set(inspected.choice.postponed)
    again.update(group.partition_path for group in groups if group.is_planned or group.is_written)
    again.update(name.partition_path for planned in of_round.plans for name in planned.file_groups[:1])
    again.update(of_round.left_out)
    seen = inspected.seen if inspected.is_whole else inspected.look.seen_until
    return Look(seen, sorted(again)) if len(again) <= LEFT_OUT_MAX else None


def plan_document(
    document: bytes,
    policy: ClusteringPolicy,
    history: ClusteringHistory,
    compacted: Set[FileGroupName],
    inspected: Inspected,
    *,
    force: bool,
) -> tuple[Round, Look | None]:
    """As ``plan``, and the look after it, for file groups that are encoded as JSON.

    The round has planned to compact those in ``compacted`` already.
    """
    groups = decoding.decode(document, list[SmallGroup])
    of_round = plan(policy, history, groups, compacted, force=force)
    marked = [
        msgspec.structs.replace(group, is_planned=True) if group.name in compacted else group
        for group in groups
    ]
    return of_round, look_after(inspected, marked, of_round)


def plan(
    policy: ClusteringPolicy,
    history: ClusteringHistory,
    groups: Sequence[SmallGroup],
    compacted: Set[FileGroupName] = frozenset(),
    *,
    force: bool = False,
) -> Round:
    """The clusterings of one round, those that save the most files first. With ``force`` no trigger counts.

    The file groups in ``compacted`` are compacted by the same round.
    """
    others = [group for group in groups if group.name not in compacted]
    free = [group for group in others if not group.is_planned and not group.is_written]
    later = [group.name for group in groups if group.name in compacted]
    message = f"small file groups that this round compacts, and a later one clusters: {len(later)}"
    held = [*_taken(others), *held_groups(_CLUSTERING, HeldReason.BOUNDED, message, later)]
    due = force or is_due(policy, history)
    candidates = free if due else _left_over(history, free)
    plans = sorted(
        (found for part in _parts(policy, candidates) if (found := _worthwhile(policy, part)) is not None),
        key=lambda found: (found.files_after - len(found.file_groups), found.file_groups[0].partition_path),
    )
    number = _taken_number(policy, plans)
    taken, beyond = plans[:number], plans[number:]
    names = [name for left in beyond for name in left.file_groups]
    left_out = sorted({name.partition_path for name in names})
    message = f"clusterings left for the next round: {len(beyond)}"
    held += held_groups(_CLUSTERING, HeldReason.BOUNDED, message, names)
    if not plans and (free or not held or not due):
        held.append(_nothing(policy, history, free, due=due))
    return Round(taken, held, left_out)


def details_of(policy: ClusteringPolicy) -> dict[str, str]:
    """Details for executors, under Hudi's names, so that all of them lay the plan out alike."""
    details = {CLUSTERING_TARGET_BYTES: str(policy.target_bytes)}
    if policy.sort_columns:
        details[CLUSTERING_SORT_COLUMNS] = ",".join(policy.sort_columns)
        details[CLUSTERING_LAYOUT] = policy.layout
    return details


def _taken_number(policy: ClusteringPolicy, plans: Sequence[ServicePlan]) -> int:
    """How many of the plans one round takes."""
    groups = itertools.accumulate(len(found.file_groups) for found in plans)
    return min(policy.groups_max, sum(number <= ROUND_GROUPS_MAX for number in groups))


def _left_over(history: ClusteringHistory, free: Sequence[SmallGroup]) -> list[SmallGroup]:
    """The groups from before the last clustering: its round left them out, or their plan was undone."""
    last = history.last_requested
    if last is None or history.has_pending:
        return []
    return [group for group in free if group.completed <= last]


def _parts(policy: ClusteringPolicy, groups: Sequence[SmallGroup]) -> list[list[SmallGroup]]:
    """The groups of each partition, the largest first, in parts that are rewritten together."""
    by_partition: dict[str, list[SmallGroup]] = {}
    for group in groups:
        by_partition.setdefault(group.partition_path, []).append(group)
    parts: list[list[SmallGroup]] = []
    for path in sorted(by_partition):
        part: list[SmallGroup] = []
        part_bytes = 0
        for group in sorted(by_partition[path], key=lambda group: (-group.size_bytes, group.file_id)):
            is_full = part_bytes + group.size_bytes > policy.group_bytes_max or len(part) == ROUND_GROUPS_MAX
            if part and is_full:
                parts.append(part)
                part, part_bytes = [], 0
            part.append(group)
            part_bytes += group.size_bytes
        parts.append(part)
    return parts


def _worthwhile(policy: ClusteringPolicy, part: Sequence[SmallGroup]) -> ServicePlan | None:
    """The plan of a part, if it gives fewer files or a new order."""
    size_bytes = sum(group.size_bytes for group in part)
    files_after = max(-(-size_bytes // policy.target_bytes), 1)
    if files_after >= len(part) and not any(_is_new_order(policy, group) for group in part):
        return None
    return ServicePlan(
        _CLUSTERING,
        [group.name for group in part],
        size_bytes,
        sum(group.files for group in part),
        files_after,
        details_of(policy),
    )


def _is_new_order(policy: ClusteringPolicy, group: SmallGroup) -> bool:
    if not policy.sort_columns:
        return False
    wanted = details_of(policy)
    return (group.sort_columns, group.layout) != (wanted[CLUSTERING_SORT_COLUMNS], wanted[CLUSTERING_LAYOUT])


def _taken(groups: Sequence[SmallGroup]) -> list[Held]:
    planned = [group.name for group in groups if group.is_planned]
    written = [group for group in groups if group.is_written and not group.is_planned]
    writes = sorted({group.written_by for group in written if group.written_by is not None})
    return [
        *held_groups(
            _CLUSTERING,
            HeldReason.PENDING_PLAN,
            f"small file groups in plans that are not completed: {len(planned)}",
            planned,
        ),
        *held_groups(
            _CLUSTERING,
            HeldReason.PENDING_WRITE,
            f"small file groups in plans or reports: {len(written)}, of the {named('pending write', writes)}",
            [group.name for group in written],
        ),
    ]


def _not_due(policy: ClusteringPolicy, history: ClusteringHistory) -> Held:
    commits = f"{history.since_requested.number} of {policy.commits_max} commits since the last clustering"
    return Held(_CLUSTERING, HeldReason.BELOW_THRESHOLD, f"its trigger has not fired: {commits}")


def _nothing(
    policy: ClusteringPolicy, history: ClusteringHistory, free: Sequence[SmallGroup], *, due: bool
) -> Held:
    if not due:
        return _not_due(policy, history)
    if not free:
        message = f"no changed partition has free file groups below {policy.small_file_limit} bytes"
        return Held(_CLUSTERING, HeldReason.NOTHING_TO_DO, message)
    message = (
        f"small file groups that would give as many files of {policy.target_bytes} bytes, in the order that "
        f"they have: {len(free)}"
    )
    return Held(_CLUSTERING, HeldReason.NOTHING_TO_DO, message, len(free), free[0].name)
