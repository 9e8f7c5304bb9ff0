"""Compaction and log compaction: when a round is due, and for which file groups.

The triggers and strategies are Hudi's (``ScheduleCompactionActionExecutor``, ``compact/strategy``). Different
from Hudi: no strategy goes beyond its bound, and file groups that a round left out, or whose plan was rolled
back, wait for no further commits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence, Set
from datetime import date, timedelta
from typing import Final

import msgspec

from chronolake_metastore.domain.policies import CompactionPolicy, Strategy, Trigger
from chronolake_metastore.domain.services import (
    ROUND_GROUPS_MAX,
    Commits,
    Held,
    Round,
    ServicePlan,
    held_groups,
)
from chronolake_model import decoding
from chronolake_model.files import FileGroupName
from chronolake_model.times import MICROS_PER_SECOND, Micros, to_datetime
from chronolake_model.vocabulary import HeldReason, TableService

_PART: Final = r"(?:[^/=]+=)?"
_DAY: Final = re.compile(rf"{_PART}(\d{{4}})[-/]{_PART}(\d{{2}})[-/]{_PART}(\d{{2}})")
_FULL, _LOG = TableService.COMPACTION, TableService.LOG_COMPACTION


class LogGroup(msgspec.Struct, frozen=True, array_like=True):
    """A file group with log files in its latest slice; ``base_bytes`` is None without a base file.

    ``unmerged_logs`` are the log files that a log compaction would merge, ``oldest_log`` is the first
    completion of a log file. The group ``is_planned`` if a pending table service has it in its plan.
    """

    partition_path: str
    file_id: str
    base_bytes: int | None
    log_bytes: int
    logs: int
    unmerged_logs: int
    oldest_log: Micros
    is_planned: bool = False

    @property
    def name(self) -> FileGroupName:
        """Its name."""
        return FileGroupName(self.partition_path, self.file_id)

    @property
    def files(self) -> int:
        """The files that a compaction reads."""
        return self.logs + (self.base_bytes is not None)

    @property
    def size_bytes(self) -> int:
        """The bytes that a compaction reads."""
        return (self.base_bytes or 0) + self.log_bytes

    def io_bytes(self, base_bytes_estimate: int) -> int:
        """The bytes that a compaction reads and writes; a base file that does not exist yet is estimated."""
        return self.size_bytes + (base_bytes_estimate if self.base_bytes is None else self.base_bytes)


class CompactionHistory(msgspec.Struct, frozen=True):
    """Delta commits since the last compaction that completed, since the last requested, the last of logs.

    ``last_requested`` is the time of the last compaction that was not rolled back.
    """

    since_completed: Commits = Commits()
    since_requested: Commits = Commits()
    since_log_compaction: Commits = Commits()
    last_requested: Micros | None = None
    has_pending: bool = False


class Selection(msgspec.Struct, frozen=True):
    """The file groups that strategies take, in their order, and why not the others."""

    groups: Sequence[LogGroup]
    held: Sequence[Held] = ()


def plan_document(
    document: bytes,
    policy: CompactionPolicy,
    history: CompactionHistory,
    wanted: Set[TableService],
    now: Micros,
    *,
    instant_bytes_max: int,
    force: bool,
) -> Round:
    """As ``plan``, for file groups that are encoded as JSON: decoding many of them takes longest."""
    groups = decoding.decode(document, list[LogGroup])
    return plan(policy, history, groups, wanted, now, instant_bytes_max=instant_bytes_max, force=force)


def is_due(policy: CompactionPolicy, history: CompactionHistory, now: Micros) -> bool:
    """Whether the trigger of compaction fires at ``now``, by the wall clock."""
    is_after_request = policy.trigger is Trigger.NUM_COMMITS_AFTER_LAST_REQUEST
    commits = history.since_requested if is_after_request else history.since_completed
    if commits.first is None:
        return False
    enough = commits.number >= policy.delta_commits_max
    # The wall clock was set back: nobody knows how long ago the first of them was.
    elapsed = commits.first > now or now - commits.first >= policy.delta_us_max
    match policy.trigger:
        case Trigger.NUM_COMMITS | Trigger.NUM_COMMITS_AFTER_LAST_REQUEST:
            return enough
        case Trigger.TIME_ELAPSED:
            return elapsed
        case Trigger.NUM_OR_TIME:
            return enough or elapsed
        case Trigger.NUM_AND_TIME:
            return enough and elapsed


def is_log_compaction_due(policy: CompactionPolicy, history: CompactionHistory) -> bool:
    """Whether the trigger of log compaction fires: delta commits since a compaction of either kind."""
    since = (history.since_completed.number, history.since_log_compaction.number)
    return min(since) >= policy.log_threshold


def held_by_triggers(
    policy: CompactionPolicy, history: CompactionHistory, wanted: Set[TableService], now: Micros
) -> list[Held] | None:
    """Why no file group is planned, whatever log files it has; None if one may be.

    So planning costs little while no trigger fires.
    """
    may_be_left_over = history.last_requested is not None and not history.has_pending
    if _FULL in wanted and (is_due(policy, history, now) or may_be_left_over):
        return None
    if _LOG in wanted and policy.merges_logs and is_log_compaction_due(policy, history):
        return None
    held = [Held(_FULL, HeldReason.BELOW_THRESHOLD, _not_due(policy, history, now))] if _FULL in wanted else []
    return [*held, *(_log(policy, history, [], force=False).held if _LOG in wanted else [])]


def plan(
    policy: CompactionPolicy,
    history: CompactionHistory,
    groups: Sequence[LogGroup],
    wanted: Set[TableService],
    now: Micros,
    *,
    instant_bytes_max: int,
    force: bool = False,
) -> Round:
    """The compactions and log compactions of one round. With ``force`` the triggers do not count.

    The choice is made for each file group: the strategies choose those that are compacted. Of the others, those
    with enough log files get a log compaction, if the policy has it on.
    """
    free = [group for group in groups if not group.is_planned]
    held = _planned(policy, groups, wanted, force=force)
    plans: list[ServicePlan] = []
    chosen: set[tuple[str, str]] = set()
    if _FULL in wanted:
        selection = _full(policy, history, free, now, force=force)
        taken, beyond = selection.groups[:ROUND_GROUPS_MAX], selection.groups[ROUND_GROUPS_MAX:]
        chosen = {(group.partition_path, group.file_id) for group in selection.groups}
        plans += _instants(_FULL, taken, instant_bytes_max)
        held += [*selection.held, *_beyond_round(_FULL, beyond)]
    if _LOG in wanted:
        others = [group for group in free if (group.partition_path, group.file_id) not in chosen]
        selection = _log(policy, history, others, force=force)
        room = ROUND_GROUPS_MAX - sum(len(planned.file_groups) for planned in plans)
        plans += _instants(_LOG, selection.groups[:room], instant_bytes_max)
        held += [*selection.held, *_beyond_round(_LOG, selection.groups[room:])]
        if free and not others and not selection.held:
            held.append(
                Held(_LOG, HeldReason.NOTHING_TO_DO, "this round compacts all file groups with log files")
            )
    return Round(plans, held)


def select(policy: CompactionPolicy, groups: Sequence[LogGroup], now: Micros) -> Selection:
    """Apply the strategies of the policy, each to what the ones before have left."""
    selection = Selection(groups)
    for strategy in policy.strategies:
        later = _STRATEGIES[strategy](policy, selection.groups, now)
        selection = Selection(later.groups, [*selection.held, *later.held])
    return selection


def day_of(partition_path: str) -> date | None:
    """The day that a partition path names: yyyy/MM/dd or yyyy-MM-dd, also with the names of the fields."""
    parts = _DAY.fullmatch(partition_path)
    try:
        return None if parts is None else date(*map(int, parts.groups()))
    except ValueError:
        return None


def _full(
    policy: CompactionPolicy,
    history: CompactionHistory,
    free: Sequence[LogGroup],
    now: Micros,
    *,
    force: bool,
) -> Selection:
    if not free:
        return Selection([])
    candidates = free if force or is_due(policy, history, now) else _left_over(history, free)
    if not candidates:
        message = _not_due(policy, history, now)
        return Selection([], held_groups(_FULL, HeldReason.BELOW_THRESHOLD, message, _names(free)))
    return select(policy, candidates, now)


def _left_over(history: CompactionHistory, free: Sequence[LogGroup]) -> list[LogGroup]:
    """The groups with logs from before the last compaction, whose round or plan was not finished."""
    last = history.last_requested
    if last is None or history.has_pending:
        return []
    return [group for group in free if group.oldest_log <= last]


def _log(
    policy: CompactionPolicy, history: CompactionHistory, others: Sequence[LogGroup], *, force: bool
) -> Selection:
    if not policy.merges_logs and not force:
        message = "hoodie.log.compaction.enable is false"
        return Selection([], [Held(_LOG, HeldReason.OFF, message)])
    if not force and not is_log_compaction_due(policy, history):
        since = min(history.since_completed.number, history.since_log_compaction.number)
        message = f"{since} of {policy.log_threshold} delta commits since the last compaction of either kind"
        return Selection([], [Held(_LOG, HeldReason.BELOW_THRESHOLD, message)])
    few = [group for group in others if group.unmerged_logs < policy.log_threshold]
    groups = [group for group in others if group.unmerged_logs >= policy.log_threshold]
    message = f"file groups with fewer than {policy.log_threshold} log files to merge: {len(few)}"
    held = held_groups(_LOG, HeldReason.BELOW_THRESHOLD, message, _names(few))
    return Selection(sorted(groups, key=lambda group: -group.unmerged_logs), held)


def _planned(
    policy: CompactionPolicy, groups: Sequence[LogGroup], wanted: Set[TableService], *, force: bool
) -> list[Held]:
    """The groups in pending plans, for the services that are on; or that no group has log files at all."""
    services = [service for service in (_FULL, _LOG) if service in wanted]
    if not policy.merges_logs and not force and _LOG in services:
        services.remove(_LOG)
    if not groups:
        where = f" in partitions that match {policy.partition_regex}" if policy.partition_regex else ""
        message = f"no file group has log files{where}"
        return [Held(service, HeldReason.NOTHING_TO_DO, message) for service in services]
    planned = _names([group for group in groups if group.is_planned])
    message = f"file groups with log files in plans that are not completed: {len(planned)}"
    return [
        held for service in services for held in held_groups(service, HeldReason.PENDING_PLAN, message, planned)
    ]


def _not_due(policy: CompactionPolicy, history: CompactionHistory, now: Micros) -> str:
    is_after_request = policy.trigger is Trigger.NUM_COMMITS_AFTER_LAST_REQUEST
    commits = history.since_requested if is_after_request else history.since_completed
    said = [f"{commits.number} of {policy.delta_commits_max} delta commits since the last compaction"]
    if policy.trigger in (Trigger.TIME_ELAPSED, Trigger.NUM_OR_TIME, Trigger.NUM_AND_TIME):
        seconds = 0 if commits.first is None else max(now - commits.first, 0) // MICROS_PER_SECOND
        elapsed = f"{seconds} of {policy.delta_us_max // MICROS_PER_SECOND} s since the first of them"
        said = [elapsed] if policy.trigger is Trigger.TIME_ELAPSED else [*said, elapsed]
    return f"the trigger {policy.trigger} has not fired: {', '.join(said)}"


def _by_size(policy: CompactionPolicy, groups: Sequence[LogGroup], now: Micros) -> Selection:
    large = [group for group in groups if group.log_bytes >= policy.size_threshold]
    small = [group for group in groups if group.log_bytes < policy.size_threshold]
    message = f"file groups with fewer than {policy.size_threshold} bytes of log files: {len(small)}"
    held = held_groups(_FULL, HeldReason.BELOW_THRESHOLD, message, _names(small))
    bounded = _bounded(policy, sorted(large, key=lambda group: -group.log_bytes), now)
    return Selection(bounded.groups, [*held, *bounded.held])


def _by_number(policy: CompactionPolicy, groups: Sequence[LogGroup], now: Micros) -> Selection:
    many = [group for group in groups if group.logs >= policy.number_threshold]
    few = [group for group in groups if group.logs < policy.number_threshold]
    message = f"file groups with fewer than {policy.number_threshold} log files: {len(few)}"
    held = held_groups(_FULL, HeldReason.BELOW_THRESHOLD, message, _names(few))
    bounded = _bounded(policy, sorted(many, key=lambda group: -group.logs), now)
    return Selection(bounded.groups, [*held, *bounded.held])


def _bounded(policy: CompactionPolicy, groups: Sequence[LogGroup], now: Micros) -> Selection:
    """Take groups in their order as long as they fit; one that is too large does not stop smaller ones."""
    left_bytes = policy.target_io_bytes
    taken: list[LogGroup] = []
    beyond: list[LogGroup] = []
    too_large: list[LogGroup] = []
    for group in groups:
        io_bytes = group.io_bytes(policy.base_bytes_estimate)
        if io_bytes <= left_bytes:
            left_bytes -= io_bytes
            taken.append(group)
        else:
            (too_large if io_bytes > policy.target_io_bytes else beyond).append(group)
    bound = f"hoodie.compaction.target.io, {policy.target_io_bytes // 2**20} MB"
    return Selection(
        taken,
        [
            *held_groups(
                _FULL,
                HeldReason.BOUNDED,
                f"file groups beyond {bound}, which one round reads and writes: {len(beyond)}",
                _names(beyond),
            ),
            *held_groups(
                _FULL,
                HeldReason.BOUNDED,
                f"file groups that alone are larger than {bound}: {len(too_large)}; raise it",
                _names(too_large),
            ),
        ],
    )


def _by_day(policy: CompactionPolicy, groups: Sequence[LogGroup], now: Micros) -> Selection:
    dated, held = _dated(groups)
    days = sorted({day for day, _ in dated}, reverse=True)
    latest = set(days[: policy.day_partitions])
    older = [group for day, group in dated if day not in latest]
    message = f"file groups not in the {policy.day_partitions} latest days with log files: {len(older)}"
    taken = _latest_first([entry for entry in dated if entry[0] in latest])
    return Selection(taken, [*held, *held_groups(_FULL, HeldReason.BOUNDED, message, _names(older))])


def _recent(policy: CompactionPolicy, groups: Sequence[LogGroup], now: Micros) -> Selection:
    dated, held = _dated(groups)
    earliest = to_datetime(now).date() - timedelta(days=min(policy.day_partitions, 100_000))
    older = [group for day, group in dated if day < earliest]
    message = f"file groups in partitions before {earliest}: {len(older)}"
    taken = _latest_first([entry for entry in dated if entry[0] >= earliest])
    return Selection(taken, [*held, *held_groups(_FULL, HeldReason.OFF, message, _names(older))])


def _not_recent(policy: CompactionPolicy, groups: Sequence[LogGroup], now: Micros) -> Selection:
    recent = {(group.partition_path, group.file_id) for group in _recent(policy, groups, now).groups}
    others = [group for group in groups if (group.partition_path, group.file_id) not in recent]
    left = [group for group in groups if (group.partition_path, group.file_id) in recent]
    message = f"file groups in the partitions of the last {policy.day_partitions} days: {len(left)}"
    return Selection(others, held_groups(_FULL, HeldReason.OFF, message, _names(left)))


def _all(policy: CompactionPolicy, groups: Sequence[LogGroup], now: Micros) -> Selection:
    """Every group; those whose partitions do not match the regular expression were not read at all."""
    return Selection(groups)


_STRATEGIES: Final[dict[Strategy, Callable[[CompactionPolicy, Sequence[LogGroup], Micros], Selection]]] = {
    Strategy.LOG_FILE_SIZE_BASED: _by_size,
    Strategy.LOG_FILE_NUM_BASED: _by_number,
    Strategy.BOUNDED_IO: _bounded,
    Strategy.DAY_BASED: _by_day,
    Strategy.BOUNDED_PARTITION_AWARE: _recent,
    Strategy.UNBOUNDED_PARTITION_AWARE: _not_recent,
    Strategy.PARTITION_REGEX_BASED: _all,
    Strategy.UNBOUNDED: _all,
}
assert _STRATEGIES.keys() == set(Strategy)


def _dated(groups: Sequence[LogGroup]) -> tuple[list[tuple[date, LogGroup]], list[Held]]:
    """The groups with the days that their partitions name, and why not the others."""
    days = {path: day_of(path) for path in {group.partition_path for group in groups}}
    dated = [(day, group) for group in groups if (day := days[group.partition_path]) is not None]
    undated = [group for group in groups if days[group.partition_path] is None]
    message = f"file groups whose partitions are no days, as in 2026/01/31: {len(undated)}"
    return dated, held_groups(_FULL, HeldReason.OFF, message, _names(undated))


def _latest_first(dated: Sequence[tuple[date, LogGroup]]) -> list[LogGroup]:
    return [group for _, group in sorted(dated, key=lambda entry: entry[0], reverse=True)]


def _beyond_round(service: TableService, groups: Sequence[LogGroup]) -> list[Held]:
    message = f"file groups left for the next round: {len(groups)}; one plans {ROUND_GROUPS_MAX}"
    return held_groups(service, HeldReason.BOUNDED, message, _names(groups))


def _instants(service: TableService, groups: Sequence[LogGroup], bytes_max: int) -> list[ServicePlan]:
    """The groups as instants whose input has at most ``bytes_max`` bytes, or is one group."""
    parts: list[list[LogGroup]] = []
    part_bytes = 0
    for group in groups:
        size_bytes = _input_bytes(service, group)
        if not parts or part_bytes + size_bytes > bytes_max:
            parts.append([])
            part_bytes = 0
        parts[-1].append(group)
        part_bytes += size_bytes
    return [_instant(service, part) for part in parts]


def _instant(service: TableService, groups: Sequence[LogGroup]) -> ServicePlan:
    is_full = service is _FULL
    files = [group.files if is_full else group.unmerged_logs for group in groups]
    size_bytes = sum(_input_bytes(service, group) for group in groups)
    return ServicePlan(service, _names(groups), size_bytes, sum(files), len(groups))


def _input_bytes(service: TableService, group: LogGroup) -> int:
    return group.size_bytes if service is _FULL else group.log_bytes


def _names(groups: Sequence[LogGroup]) -> list[FileGroupName]:
    return [group.name for group in groups]
