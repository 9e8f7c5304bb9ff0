"""Clustering by example: which small file groups are rewritten together, and which partitions are looked at."""

from __future__ import annotations

import pytest

from chronolake_metastore.domain import clusterings
from chronolake_metastore.domain.clusterings import Choice, ClusteringHistory, Inspected, SmallGroup
from chronolake_metastore.domain.policies import ClusteringPolicy, PartitionFilter, Policies
from chronolake_metastore.domain.services import ROUND_GROUPS_MAX, Commits, Look, Round
from chronolake_model.times import Micros, parse_time
from chronolake_model.vocabulary import HeldReason

NOW = parse_time("20260131030000000")
DUE = ClusteringHistory(Commits(4, NOW))
POLICY = ClusteringPolicy(small_file_limit=300, target_bytes=1_000, group_bytes_max=2_000)


def group(
    name: str, size: int = 100, *, partition: str = "p", completed: int = NOW, **more: object
) -> SmallGroup:
    return SmallGroup(partition, name, size, 0, 1, Micros(completed), **more)  # type: ignore[arg-type]


def planned(groups: list[SmallGroup], history: ClusteringHistory = DUE, **changes: object) -> Round:
    fields = {name: getattr(POLICY, name) for name in POLICY.__struct_fields__} | changes
    return clusterings.plan(ClusteringPolicy(**fields), history, groups)


def names(of_round: Round) -> list[list[str]]:
    return [[name.file_id for name in plan.file_groups] for plan in of_round.plans]


def reasons(of_round: Round) -> list[HeldReason]:
    return [held.reason for held in of_round.held]


def test_one_small_file_alone_is_never_rewritten() -> None:
    """hoodie.clustering.plan.strategy.single.group.clustering.enabled: Hudi rewrites it every time."""
    of_round = planned([group("alone")])
    assert (names(of_round), reasons(of_round)) == ([], [HeldReason.NOTHING_TO_DO])


def test_files_are_rewritten_together_only_if_there_are_fewer_afterwards() -> None:
    of_round = planned([group("a", 290), group("b", 290)], target_bytes=300)
    assert names(of_round) == []
    assert names(planned([group("a", 290), group("b", 290)], target_bytes=580)) == [["a", "b"]]


def test_one_clustering_has_an_input_of_bounded_size_the_largest_files_first() -> None:
    groups = [group("a", 200), group("b", 250), group("c", 150), group("d", 100)]
    assert names(planned(groups, group_bytes_max=450)) == [["b", "a"], ["c", "d"]]


def test_files_of_two_partitions_are_never_mixed() -> None:
    groups = [group("a", partition="p"), group("b", partition="q"), group("c", partition="p")]
    assert names(planned(groups)) == [["a", "c"]]


def test_a_round_takes_the_clusterings_that_save_the_most_files() -> None:
    """RFC-83: the others are left for the next round, with their partitions."""
    groups = [
        group(f"{path}{number}", partition=path)
        for path, count in (("p", 2), ("q", 4), ("r", 3))
        for number in range(count)
    ]
    of_round = planned(groups, groups_max=2)
    assert [plan.file_groups[0].partition_path for plan in of_round.plans] == ["q", "r"]
    assert (reasons(of_round), of_round.left_out) == ([HeldReason.BOUNDED], ["p"])


def test_a_round_holds_the_lock_for_a_bounded_number_of_files() -> None:
    groups = [group(f"{path}{number}", 1, partition=path) for path in ("p", "q") for number in range(75)]
    of_round = planned(groups)
    assert [len(plan.file_groups) for plan in of_round.plans] == [75]
    assert of_round.left_out == ["q"]
    of_many = planned([group(str(number), 1) for number in range(ROUND_GROUPS_MAX + 2)])
    assert [len(plan.file_groups) for plan in of_many.plans] == [ROUND_GROUPS_MAX]


def test_a_new_order_is_worth_rewriting_one_file_and_the_same_order_is_not() -> None:
    """services.md A3: in Hudi the executor chooses the layout: two of them lay one plan out differently."""
    new, sorted_before = group("a"), group("a", sort_columns="x,y", layout="zorder")
    assert names(planned([new], sort_columns=("x", "y"), layout="zorder")) == [["a"]]
    assert names(planned([sorted_before], sort_columns=("x", "y"), layout="zorder")) == []
    assert names(planned([sorted_before], sort_columns=("x", "y"), layout="hilbert")) == [["a"]]


def test_the_plan_has_the_layout_and_the_size_for_all_executors() -> None:
    [plan] = planned([group("a"), group("b")], sort_columns=("x", "y"), layout="hilbert").plans
    assert plan.details == {
        "hoodie.clustering.plan.strategy.target.file.max.bytes": "1000",
        "hoodie.clustering.plan.strategy.sort.columns": "x,y",
        "hoodie.layout.optimize.strategy": "hilbert",
    }
    assert (plan.files_before, plan.files_after, plan.size_bytes) == (2, 1, 200)


def test_groups_in_pending_plans_and_writes_are_left_out() -> None:
    """HUDI-2774: two plans over one group."""
    groups = [group("a", is_planned=True), group("b", written_by="20260101000000000"), group("c"), group("d")]
    of_round = planned(groups)
    assert names(of_round) == [["c", "d"]]
    assert reasons(of_round) == [HeldReason.PENDING_PLAN, HeldReason.PENDING_WRITE]


def test_clustering_waits_for_four_commits() -> None:
    of_round = planned([group("a"), group("b")], ClusteringHistory(Commits(3, NOW)))
    assert (names(of_round), reasons(of_round)) == ([], [HeldReason.BELOW_THRESHOLD])


def test_what_a_round_left_out_waits_for_no_further_commits() -> None:
    history = ClusteringHistory(Commits(0), last_requested=Micros(NOW - 1))
    old = [group("a", completed=NOW - 2), group("b", completed=NOW - 1)]
    assert names(planned([*old, group("new")], history)) == [["a", "b"]]


@pytest.mark.parametrize(
    ("policy", "choice"),
    [
        (ClusteringPolicy(), Choice(["01", "02", "03", "05"])),
        (ClusteringPolicy(filter=PartitionFilter.RECENT_DAYS), Choice(["05"], [])),
        (ClusteringPolicy(filter=PartitionFilter.RECENT_DAYS, skip=1), Choice(["03"], ["05"])),
        (
            ClusteringPolicy(filter=PartitionFilter.SELECTED_PARTITIONS, begin="02", end="03"),
            Choice(["02", "03"]),
        ),
        (ClusteringPolicy(filter=PartitionFilter.SELECTED_PARTITIONS, begin="03"), Choice(["03", "05"])),
        (ClusteringPolicy(filter=PartitionFilter.DAY_ROLLING), Choice([], ["01", "02", "03", "05"])),
        (ClusteringPolicy(selected=("03", "04")), Choice(["03"])),
    ],
)
def test_a_filter_takes_partitions_that_have_changed(policy: ClusteringPolicy, choice: Choice) -> None:
    of_table = ["01", "02", "03", "04", "05"]
    assert clusterings.partitions_of(policy, ["05", "03", "02", "01"], of_table, NOW) == choice


def test_day_rolling_takes_every_twenty_fourth_partition_by_the_hour() -> None:
    policy = ClusteringPolicy(filter=PartitionFilter.DAY_ROLLING)
    of_table = [f"{number:02}" for number in range(30)]
    assert clusterings.partitions_of(policy, of_table, of_table, NOW).taken == ["03", "27"]


def test_the_next_round_looks_again_at_what_this_one_has_not_finished() -> None:
    groups = [
        group("a", partition="done"),
        group("b", partition="planned", is_planned=True),
        group("c", partition="written", written_by="20260101000000000"),
        group("d", partition="mine"),
        group("e", partition="mine"),
    ]
    inspected = Inspected(Look(), NOW, Choice([], ["postponed"]))
    look = clusterings.look_after(inspected, groups, planned(groups))
    assert look == Look(NOW, ["mine", "planned", "postponed", "written"])


def test_a_round_that_would_remember_too_much_lets_the_earlier_look_stand() -> None:
    postponed = [str(number) for number in range(clusterings.LEFT_OUT_MAX + 1)]
    inspected = Inspected(Look(), NOW, Choice([], postponed))
    assert clusterings.look_after(inspected, [], Round()) is None


def test_sizes_are_those_of_the_assigner_unless_stated() -> None:
    stated = {"files.small-file-limit": "5", "files.max-file-size": "7"}
    by_assigner = Policies.of(stated).clustering
    own = Policies.of(stated | {"hoodie.clustering.plan.strategy.small.file.limit": "6"}).clustering
    assert (by_assigner.small_file_limit, by_assigner.target_bytes) == (5, 7)
    assert own.small_file_limit == 6
