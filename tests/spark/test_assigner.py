"""The assigner: which file groups get inserted records, and how many."""

from __future__ import annotations

import itertools

from hypothesis import given, strategies as st

from chronolake.indexes import assigner
from chronolake.indexes.assigner import AssignableGroup, Share
from chronolake_model.file_sizes import FileSizes
from chronolake_model.instants import WriteSummary

MB = 1024 * 1024
SIZES = FileSizes(record_size=1024)

sizes = st.builds(
    FileSizes,
    small_file_limit=st.integers(0, 10_000),
    max_file_size=st.integers(1, 10_000),
    record_size=st.integers(1, 200),
)
stored = st.lists(
    st.builds(
        AssignableGroup,
        number=st.integers(0, 10**6),
        base_bytes=st.integers(0, 12_000),
        log_bytes=st.sampled_from([0, 0, 500, 9_000]),
        is_planned=st.booleans(),
    ),
    max_size=12,
    unique_by=lambda group: group.number,
)


def test_small_files_are_filled_before_groups_are_opened() -> None:
    groups = [AssignableGroup(0, 119 * MB), AssignableGroup(1, 90 * MB), AssignableGroup(2, 20 * MB)]
    assert assigner.shares(1_000, groups, SIZES) == [Share(2, 1_000)]
    assert assigner.shares(110 * 1_024, groups, SIZES) == [Share(2, 100 * 1_024), Share(1, 10 * 1_024)]
    filled = assigner.shares(500_000, groups, SIZES)
    assert filled == [Share(2, 102_400), Share(1, 30_720), Share(None, 122_294), *[Share(None, 122_293)] * 2]
    assert assigner.shares(0, [], SIZES) == [Share(None, 0)]


def test_groups_with_logs_are_filled_only_if_their_keys_are_found_again_and_by_a_share_of_their_bytes() -> None:
    groups = [AssignableGroup(0, 0, 200 * MB), AssignableGroup(1, 20 * MB, 200 * MB, is_planned=True)]
    assert assigner.shares(10, groups, SIZES) == [Share(None, 10)]
    [share] = assigner.shares(10**6, groups, FileSizes(record_size=1), fills_logs=True)
    assert share == Share(0, 10**6)
    assert assigner.shares(10**9, groups, SIZES, fills_logs=True)[0] == Share(0, 50 * 1_024)


def test_the_size_of_a_record_is_that_in_the_newest_commit_that_is_large_enough() -> None:
    def summary(size_bytes: int, records: int) -> WriteSummary:
        return WriteSummary(1, size_bytes, records, 0, 0, 0)

    commits = [summary(MB, 1), summary(200 * MB, 0), summary(200 * MB, 10**6), summary(900 * MB, 1)]
    assert assigner.record_size(commits, SIZES) == 210
    assert assigner.record_size(commits[:2], SIZES) == 1_024
    assert assigner.records_per_group(FileSizes(max_file_size=1, record_size=5)) == 1


@given(st.integers(0, 100_000), stored, sizes, st.booleans())
def test_all_inserts_are_assigned_and_no_file_is_planned_to_grow_beyond_its_size(
    inserts: int, groups: list[AssignableGroup], sizes: FileSizes, fills_logs: bool
) -> None:
    chosen = assigner.shares(inserts, groups, sizes, fills_logs=fills_logs)
    assert sum(share.records for share in chosen) == inserts
    by_number = {group.number: group for group in groups}
    old = [share for share in chosen if share.number is not None]
    assert len({share.number for share in old}) == len(old)
    for share in old:
        assert share.number is not None
        group = by_number[share.number]
        size = group.base_bytes + assigner.LOG_COMPRESSION_RATIO * group.log_bytes
        assert not group.is_planned
        assert fills_logs or not group.log_bytes
        assert 0 < size < sizes.small_file_limit
        assert size + share.records * sizes.record_size <= sizes.max_file_size
    new = [share.records for share in chosen if share.number is None]
    assert max(new, default=0) <= max(assigner.records_per_group(sizes), 1)
    assert max(new, default=0) - min(new, default=0) <= 1


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=60))
def test_slots_have_each_group_as_often_as_its_share_rounded(records: list[int]) -> None:
    chosen = [Share(None, count) for count in records]
    numbers = list(range(7, 7 + len(records)))
    if not sum(records):
        chosen = [Share(None, 0)]
        assert assigner.slots(chosen, [7]) == [7]
        return
    slots = assigner.slots(chosen, numbers)
    assert all(left <= right for left, right in itertools.pairwise(slots))
    for number, count in zip(numbers, records, strict=True):
        assert abs(slots.count(number) - count * len(slots) / sum(records)) <= 1
