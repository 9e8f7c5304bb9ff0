"""How files are cut into slices by completion time: RFC-66's worked example, and Hudi's file-system view tests.

Hudi tests files of a folder (TestHoodieTableFileSystemView). Here each case is a history of one file group, by
times, and the slices that a reader sees of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
import pytest
from hypothesis import given, strategies as st

from chronolake_metastore.domain import slices
from chronolake_metastore.domain.slices import FileSlice, Replacement, Slices
from chronolake_model.file_names import FileKind
from chronolake_model.times import Micros


class File(msgspec.Struct, frozen=True):
    """A file by its two times."""

    kind: FileKind
    requested_time: Micros
    completion_time: Micros


def base(requested: int, completed: int) -> File:
    return File(FileKind.BASE, Micros(requested), Micros(completed))


def log(requested: int, completed: int) -> File:
    return File(FileKind.LOG, Micros(requested), Micros(completed))


def cut(*files: File, pending: Sequence[int] = (), replaced: tuple[int, int] | None = None) -> Slices[File]:
    times = None if replaced is None else Replacement(Micros(replaced[0]), Micros(replaced[1]))
    return slices.cut(files, [Micros(time) for time in pending], times)


def seen(file_slice: FileSlice[File] | None) -> tuple[int, int | None, list[int]] | None:
    """A slice's time, its base file and its log files, by the requested times of their writers."""
    if file_slice is None:
        return None
    return (
        file_slice.time,
        None if file_slice.base is None else file_slice.base.requested_time,
        [file.requested_time for file in file_slice.logs],
    )


def all_seen(group: Slices[File]) -> list[tuple[int, int | None, list[int]] | None]:
    return [seen(file_slice) for file_slice in group.all]


FG_10: Final = base(10, 20)
L1, L2, L3 = log(21, 40), log(30, 50), log(35, 90)
FG_60: Final = base(60, 80)


def test_the_worked_example_of_rfc_66() -> None:
    """Each log of several delta writers goes by when it completed, not by when it was requested."""
    group = cut(FG_10, L1, L2, FG_60, L3)

    assert all_seen(group) == [(10, 10, [21, 30]), (60, 60, [35])]
    assert seen(group.latest()) == seen(group.merged()) == (60, 60, [35])


@pytest.mark.parametrize(
    ("as_of", "latest", "merged"),
    [
        (20, (10, 10, []), (10, 10, [])),
        (40, (10, 10, [21]), (10, 10, [21])),
        (59, (10, 10, [21, 30]), (10, 10, [21, 30])),
        (60, (60, None, []), (10, 10, [21, 30])),
        (79, (60, None, []), (10, 10, [21, 30])),
        (80, (60, 60, []), (60, 60, [])),
        (90, (60, 60, [35]), (60, 60, [35])),
    ],
)
def test_the_worked_example_as_of_each_time(as_of: int, latest: object, merged: object) -> None:
    """Deltacommits are in flight while the compaction of 60 is scheduled, and when it completes."""
    done = [file for file in (FG_10, L1, L2, FG_60, L3) if file.completion_time <= as_of]
    group = cut(*done, pending=[60] if 60 <= as_of < 80 else [])

    assert seen(group.latest()) == latest
    assert seen(group.merged()) == merged


def test_equality_goes_to_the_new_slice() -> None:
    assert all_seen(cut(base(10, 20), log(30, 60), base(60, 80))) == [(10, 10, []), (60, 60, [30])]


# Hudi: testViewForFileSlicesWithAsyncCompaction, with the base file and without (skipCreatingDataFile)


def test_until_a_compaction_completes_the_base_before_it_is_read_with_the_logs_of_both() -> None:
    group = cut(base(1, 2), log(3, 4), log(6, 7), pending=[5])

    assert all_seen(group) == [(1, 1, [3]), (5, None, [6])]
    assert group.all[-1].is_pending
    assert seen(group.latest()) == (5, None, [6])
    assert seen(group.merged()) == (1, 1, [3, 6])
    assert seen(group.read_optimised()) == (1, 1, [])


def test_the_same_without_a_base_file() -> None:
    group = cut(log(3, 4), log(2, 7), pending=[5])

    assert all_seen(group) == [(3, None, [3]), (5, None, [2])]
    assert seen(group.merged()) == (2, None, [3, 2])
    assert group.read_optimised() is None


def test_the_base_file_of_a_compaction_is_hidden_until_it_completes() -> None:
    pending, done = cut(base(1, 2), pending=[5]), cut(base(1, 2), base(5, 9))

    assert seen(pending.read_optimised()) == (1, 1, [])
    assert seen(done.read_optimised()) == (5, 5, [])


def test_a_compaction_that_was_rolled_back_leaves_no_slice() -> None:
    assert all_seen(cut(base(1, 2), log(3, 4), log(6, 7))) == [(1, 1, [3, 6])]


def test_two_pending_compactions_are_merged_with_the_slice_before_both() -> None:
    group = cut(base(1, 2), log(3, 4), log(5, 7), log(6, 11), pending=[5, 10])

    assert all_seen(group) == [(1, 1, [3]), (5, None, [5]), (10, None, [6])]
    assert seen(group.merged()) == (1, 1, [3, 5, 6])


def test_a_base_file_requested_after_a_pending_compaction_is_the_latest() -> None:
    group = cut(base(1, 2), log(3, 6), base(8, 9), pending=[5])

    assert seen(group.latest()) == seen(group.merged()) == (8, 8, [])
    assert seen(group.before_or_on(Micros(7)).merged()) == (1, 1, [3])


# Log-only groups


def test_logs_before_any_base_file_are_a_slice_by_the_first_request_of_them() -> None:
    group = cut(log(4, 5), log(2, 7), log(8, 30), base(10, 20))

    assert all_seen(group) == [(2, None, [4, 2]), (10, 10, [8])]


def test_a_group_with_logs_only_has_no_base_file_to_read() -> None:
    group = cut(log(4, 5), log(2, 7))

    assert seen(group.latest()) == seen(group.merged()) == (2, None, [4, 2])
    assert group.read_optimised() is None


def test_a_group_without_files_has_no_slices() -> None:
    group = cut()

    assert group.all == ()
    assert [group.latest(), group.merged(), group.read_optimised()] == [None, None, None]


def test_a_slice_without_files_is_the_latest_and_nothing_to_read() -> None:
    group = cut(pending=[5])

    assert seen(group.latest()) == (5, None, [])
    assert group.merged() is None


# Pending log compaction and clustering: neither opens a slice; the log of the first is one like others.


def test_the_log_of_a_log_compaction_goes_by_its_completion() -> None:
    merged_log = log(6, 9)

    assert all_seen(cut(base(1, 2), log(3, 4), log(4, 5), merged_log)) == [(1, 1, [3, 4, 6])]
    assert all_seen(cut(base(1, 2), log(3, 4), merged_log, base(8, 12))) == [(1, 1, [3]), (8, 8, [6])]


# Replaced groups


def test_a_replaced_group_keeps_its_past_and_has_no_slice_to_read() -> None:
    group = cut(base(1, 2), log(3, 4), replaced=(5, 6))

    assert all_seen(group) == [(1, 1, [3])]
    assert [group.latest(), group.merged(), group.read_optimised()] == [None, None, None]
    assert group.superseded_at(group.all[0]) == 6


def test_a_file_completed_after_the_replacement_is_in_no_slice() -> None:
    assert all_seen(cut(base(1, 2), log(3, 9), replaced=(5, 6))) == [(1, 1, [])]


def test_a_replaced_group_is_there_for_times_before_the_request_that_replaced_it() -> None:
    group = cut(base(1, 2), replaced=(5, 6))

    assert seen(group.before_or_on(Micros(4)).merged()) == (1, 1, [])
    assert group.before_or_on(Micros(5)).merged() is None


# Before or on


@pytest.mark.parametrize(
    ("time", "expected"),
    [(9, None), (10, (10, 10, [21, 30])), (59, (10, 10, [21, 30])), (60, (60, 60, [35])), (99, (60, 60, [35]))],
)
def test_the_slice_before_or_on_goes_by_its_base_instant_time(time: int, expected: object) -> None:
    group = cut(FG_10, L1, L2, FG_60, L3)

    assert seen(group.before_or_on(Micros(time)).latest()) == expected


def test_every_version_is_superseded_by_the_completion_of_the_next() -> None:
    group = cut(FG_10, L1, L2, FG_60, L3)

    assert [group.superseded_at(file_slice) for file_slice in group.all] == [80, None]


# Any history


@st.composite
def histories(draw: st.DrawFn) -> list[File]:
    """Files of one group, each with two times that no other has."""
    times = draw(st.permutations(range(40)))
    pairs = [sorted(pair) for pair in zip(times[::2], times[1::2], strict=True)]
    return [draw(st.sampled_from([base, log]))(*pair) for pair in pairs[: draw(st.integers(0, 20))]]


@given(files=histories(), pending=st.sets(st.integers(0, 40), max_size=2))
def test_each_file_is_in_one_slice_whose_time_fits_it(files: list[File], pending: set[int]) -> None:
    group = cut(*files, pending=sorted(pending))

    placed = [
        file for file_slice in group.all for file in (file_slice.base, *file_slice.logs) if file is not None
    ]
    assert sorted(placed, key=repr) == sorted(files, key=repr)
    assert [file_slice.time for file_slice in group.all] == sorted(
        {file_slice.time for file_slice in group.all}
    )
    boundaries = pending | {file.requested_time for file in files if file.kind is FileKind.BASE}
    for file_slice in group.all:
        for file in file_slice.logs:
            earlier = {time for time in boundaries if time <= file.completion_time}
            assert file_slice.time == max(earlier) if earlier else file_slice is group.all[0]


@given(files=histories())
def test_the_order_in_which_files_come_does_not_matter(files: list[File]) -> None:
    assert cut(*files) == cut(*reversed(files))
