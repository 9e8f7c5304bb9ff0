"""Compaction by example: triggers, strategies, and the choice between full and log compaction."""

from __future__ import annotations

import pytest

from chronolake_metastore.domain import compactions
from chronolake_metastore.domain.compactions import CompactionHistory, LogGroup
from chronolake_metastore.domain.policies import MB, CompactionPolicy, Policies, Strategy, Trigger
from chronolake_metastore.domain.services import ROUND_GROUPS_MAX, Commits, Round
from chronolake_model.times import MICROS_PER_SECOND, Micros, parse_time
from chronolake_model.vocabulary import HeldReason, TableService

FULL, LOG = TableService.COMPACTION, TableService.LOG_COMPACTION
NOW = parse_time("20260131120000000")
OVER = CompactionHistory(Commits(5, NOW), Commits(5, NOW), Commits(5, NOW))


def group(
    name: str,
    log_bytes: int = 1,
    *,
    partition: str = "",
    base_bytes: int | None = 10,
    logs: int = 1,
    oldest: int = NOW,
    planned: bool = False,
) -> LogGroup:
    return LogGroup(partition, name, base_bytes, log_bytes, logs, logs, Micros(oldest), planned)


def seconds_ago(seconds: int) -> Micros:
    return Micros(NOW - seconds * MICROS_PER_SECOND)


def selected(strategies: list[Strategy], groups: list[LogGroup], **policy: object) -> list[str]:
    made = CompactionPolicy(strategies=tuple(strategies), **policy)  # type: ignore[arg-type]
    return [taken.file_id for taken in compactions.select(made, groups, NOW).groups]


def planned(
    groups: list[LogGroup],
    history: CompactionHistory = OVER,
    wanted: frozenset[TableService] = frozenset({FULL}),
    instant_bytes_max: int = 2**40,
    **policy: object,
) -> Round:
    made = CompactionPolicy(**policy)  # type: ignore[arg-type]
    return compactions.plan(made, history, groups, wanted, NOW, instant_bytes_max=instant_bytes_max)


def names(of_round: Round, service: TableService = FULL) -> list[list[str]]:
    plans = (plan for plan in of_round.plans if plan.service is service)
    return [[name.file_id for name in plan.file_groups] for plan in plans]


def reasons(of_round: Round) -> list[HeldReason]:
    return [held.reason for held in of_round.held]


@pytest.mark.parametrize(
    ("trigger", "completed", "requested", "is_due"),
    [
        (Trigger.NUM_COMMITS, Commits(5, NOW), Commits(), True),
        (Trigger.NUM_COMMITS, Commits(4, seconds_ago(9_999)), Commits(5, NOW), False),
        (Trigger.NUM_COMMITS_AFTER_LAST_REQUEST, Commits(9, NOW), Commits(4, NOW), False),
        (Trigger.NUM_COMMITS_AFTER_LAST_REQUEST, Commits(9, NOW), Commits(5, NOW), True),
        (Trigger.TIME_ELAPSED, Commits(1, seconds_ago(3_600)), Commits(), True),
        (Trigger.TIME_ELAPSED, Commits(99, seconds_ago(3_599)), Commits(), False),
        (Trigger.TIME_ELAPSED, Commits(), Commits(), False),
        (Trigger.NUM_OR_TIME, Commits(1, seconds_ago(3_600)), Commits(), True),
        (Trigger.NUM_OR_TIME, Commits(5, NOW), Commits(), True),
        (Trigger.NUM_OR_TIME, Commits(4, seconds_ago(3_599)), Commits(), False),
        (Trigger.NUM_AND_TIME, Commits(5, seconds_ago(3_599)), Commits(), False),
        (Trigger.NUM_AND_TIME, Commits(4, seconds_ago(3_600)), Commits(), False),
        (Trigger.NUM_AND_TIME, Commits(5, seconds_ago(3_600)), Commits(), True),
    ],
)
def test_a_trigger_fires_by_the_figures_of_the_reference(
    trigger: Trigger, completed: Commits, requested: Commits, is_due: bool
) -> None:
    policy = CompactionPolicy(trigger=trigger)
    assert compactions.is_due(policy, CompactionHistory(completed, requested), NOW) is is_due


def test_by_size_the_largest_logs_come_first_from_a_threshold_on() -> None:
    groups = [group("a", 10), group("b", 30), group("c", 20), group("d", 9)]
    assert selected([Strategy.LOG_FILE_SIZE_BASED], groups, size_threshold=10) == ["b", "c", "a"]


def test_by_number_the_most_logs_come_first_from_a_threshold_on() -> None:
    groups = [group("a", logs=2), group("b", logs=5), group("c", logs=1), group("d", logs=3)]
    assert selected([Strategy.LOG_FILE_NUM_BASED], groups, number_threshold=2) == ["b", "d", "a"]


def test_bounded_io_never_reads_and_writes_more_than_its_bound() -> None:
    """Hudi takes operations while some of the bound remains, so its last one overshoots."""
    groups = [group("a", 10, base_bytes=20), group("b", 40, base_bytes=20), group("c", 0, base_bytes=20)]
    assert selected([Strategy.BOUNDED_IO], groups, target_io_bytes=100) == ["a", "c"]


def test_a_missing_base_file_counts_as_one_of_full_size() -> None:
    groups = [group("a", 10, base_bytes=None), group("b", 10, base_bytes=40)]
    taken = selected([Strategy.BOUNDED_IO], groups, target_io_bytes=120, base_bytes_estimate=111)
    assert taken == ["b"]


def test_a_group_that_is_larger_than_the_bound_alone_is_named_so() -> None:
    of_round = planned([group("huge", 2 * MB, base_bytes=MB)], target_io_bytes=MB)
    assert (names(of_round), reasons(of_round)) == ([], [HeldReason.BOUNDED])
    assert "raise it" in of_round.held[0].message


@pytest.mark.parametrize("form", ["2026/01/{}", "2026-01-{}", "year=2026/month=01/day={}", "day=2026-01-{}"])
def test_by_day_the_newest_days_come_first(form: str) -> None:
    groups = [group(day, partition=form.format(day)) for day in ("29", "31", "30", "28")]
    assert selected([Strategy.DAY_BASED], groups, day_partitions=3) == ["31", "30", "29"]


def test_a_partition_that_is_no_day_is_left_out_by_day() -> None:
    """Hudi raises an exception for it, and plans nothing."""
    groups = [group("a", partition="2026/02/30"), group("b", partition="x"), group("c", partition="2026/01/30")]
    assert selected([Strategy.DAY_BASED], groups) == ["c"]


def test_partition_aware_strategies_part_the_table_at_a_day() -> None:
    groups = [group(day, partition=f"2026/01/{day}") for day in ("20", "21", "31")]
    assert selected([Strategy.BOUNDED_PARTITION_AWARE], groups, day_partitions=10) == ["31", "21"]
    assert selected([Strategy.UNBOUNDED_PARTITION_AWARE], groups, day_partitions=10) == ["20"]


def test_several_strategies_are_applied_in_turn() -> None:
    groups = [
        group("a", 30, partition="2026/01/01", logs=9),
        group("b", 10, partition="2026/01/31", logs=1),
        group("c", 20, partition="2026/01/31", logs=3),
    ]
    in_turn = [Strategy.BOUNDED_PARTITION_AWARE, Strategy.LOG_FILE_NUM_BASED]
    assert selected(in_turn, groups, number_threshold=2) == ["c"]
    assert selected([Strategy.UNBOUNDED], groups) == ["a", "b", "c"]


def test_instants_have_inputs_of_bounded_size() -> None:
    of_round = planned([group("a", 30), group("b", 20), group("c", 10)], instant_bytes_max=70)
    assert names(of_round) == [["a", "b"], ["c"]]
    assert [plan.size_bytes for plan in of_round.plans] == [70, 20]


def test_groups_of_pending_plans_are_left_out() -> None:
    """#1780, #5916: two pending compactions of one group."""
    of_round = planned([group("a", planned=True), group("b")])
    assert (names(of_round), reasons(of_round)) == ([["b"]], [HeldReason.PENDING_PLAN])
    assert of_round.held[0].example == group("a").name


def test_each_fact_has_one_reason() -> None:
    all_planned = planned([group("a", planned=True)])
    assert reasons(all_planned) == [HeldReason.PENDING_PLAN]
    assert reasons(planned([])) == [HeldReason.NOTHING_TO_DO]


def test_groups_that_a_round_left_out_wait_for_no_further_commits() -> None:
    """#8567: the plan of a dead executor was rolled back, and its groups are taken again."""
    history = CompactionHistory(since_completed=Commits(1, NOW), last_requested=seconds_ago(60))
    old, new = group("old", oldest=seconds_ago(61)), group("new", oldest=seconds_ago(59))
    assert names(planned([old, new], history)) == [["old"]]


def test_groups_of_a_running_round_wait_for_its_end() -> None:
    history = CompactionHistory(Commits(1, NOW), last_requested=seconds_ago(60), has_pending=True)
    of_round = planned([group("old", oldest=seconds_ago(61))], history)
    assert (names(of_round), reasons(of_round)) == ([], [HeldReason.BELOW_THRESHOLD])


def test_the_reason_has_the_figures_of_the_trigger() -> None:
    history = CompactionHistory(Commits(3, seconds_ago(30)))
    of_round = planned([group("a")], history, trigger=Trigger.NUM_OR_TIME)
    assert of_round.held[0].message == (
        "the trigger NUM_OR_TIME has not fired: 3 of 5 delta commits since the last compaction, "
        "30 of 3600 s since the first of them"
    )


def test_each_group_gets_a_full_or_a_log_compaction_in_one_round() -> None:
    """RFC-103: Hudi 1.3 chooses for each group in one plan."""
    groups = [group("large", 100, logs=5), group("many", 10, logs=5), group("few", 10, logs=4)]
    of_round = planned(groups, wanted=frozenset({FULL, LOG}), merges_logs=True, size_threshold=50)
    assert (names(of_round), names(of_round, LOG)) == ([["large"]], [["many"]])


def test_log_compaction_waits_for_commits_since_either_kind() -> None:
    history = CompactionHistory(Commits(5, NOW), Commits(5, NOW), since_log_compaction=Commits(4))
    policy = CompactionPolicy(merges_logs=True)
    assert not compactions.is_log_compaction_due(policy, history)
    assert compactions.is_log_compaction_due(policy, OVER)


def test_log_compaction_is_off_unless_the_table_has_it_on() -> None:
    of_round = planned([group("a", logs=9)], wanted=frozenset({LOG}))
    assert (names(of_round, LOG), reasons(of_round)) == ([], [HeldReason.OFF])


def test_a_round_is_bounded_and_leaves_the_others_for_the_next() -> None:
    """RFC-83, PR 12601: plans of 640,000 partitions."""
    of_round = planned([group(str(number)) for number in range(ROUND_GROUPS_MAX + 1)])
    assert sum(len(name) for name in names(of_round)) == ROUND_GROUPS_MAX
    assert reasons(of_round) == [HeldReason.BOUNDED]


def test_policies_follow_the_properties_of_the_table() -> None:
    policy = Policies.of(
        {
            "hoodie.compact.inline.trigger.strategy": "num_or_time",
            "hoodie.compaction.strategy": "BoundedIOCompactionStrategy, org.example.DayBased",
            "hoodie.compaction.target.io": "7",
            "files.max-file-size": "9",
        }
    ).compaction
    assert policy.trigger is Trigger.NUM_OR_TIME
    assert policy.strategies == (Strategy.BOUNDED_IO, Strategy.DAY_BASED)
    assert (policy.target_io_bytes, policy.base_bytes_estimate) == (7 * MB, 9)
