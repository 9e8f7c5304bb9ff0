"""The files of a run that hold rows which leave, and the runs that are trusted."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import pytest
from hypothesis import given, strategies as st

from chronolake_metastore.domain import archives
from chronolake_metastore.domain.archives import (
    ArchivedFile,
    ArchiveManifest,
    ArchiveRun,
    ChainSpan,
    ListedRun,
    RowBounds,
)
from chronolake_metastore.domain.leaving_rows import LeavingRows, RowRange, RowRanges

CHAINS = [UUID(int=number) for number in range(3)]
ONE = UUID(int=9)
numbers = st.integers(97, 106)
"""Around a checkpoint, from which hashes are computed."""
ranges = st.lists(
    st.tuples(st.sampled_from(CHAINS), numbers, numbers).map(lambda of: (of[0], *sorted(of[1:]))), max_size=6
)
spans = st.dictionaries(st.sampled_from(CHAINS), st.tuples(numbers, numbers).map(sorted))


def run_of(table: str, of_chains: dict[UUID, list[int]], rows_of_file: int) -> ArchiveRun:
    """A run whose rows of one table are in files with this number of rows each."""
    keys = [
        (chain, number) for chain in CHAINS if chain in of_chains for number in rows_between(of_chains[chain])
    ]
    parts = [keys[begin : begin + rows_of_file] for begin in range(0, len(keys), rows_of_file)]
    files = [
        ArchivedFile(f"{number}", table, RowBounds(len(part), part[0], part[-1]), 1, [])
        for number, part in enumerate(parts)
    ]
    chains = [
        ChainSpan(chain, of_chains[chain][0], of_chains[chain][1], "", "")
        for chain in CHAINS
        if chain in of_chains
    ]
    return ArchiveRun(ONE, 0, 1, 2, "", chains, chains, files)


def rows_between(span: Sequence[int]) -> range:
    first, last = span
    return range(first, last + 1)


def before(first: int) -> range:
    """The rows before the first one from which its hash is computed."""
    return range(100, first) if first > 100 else range(1, first)


@given(ranges, spans, st.integers(1, 4), st.sampled_from(["event", "write_stat", "event_entry", "outcome"]))
def test_the_files_are_those_with_a_row_that_leaves(
    leaving: list[RowRange], of_chains: dict[UUID, list[int]], rows_of_file: int, table: str
) -> None:
    run = run_of(table, of_chains, rows_of_file)
    keys = {(chain, number) for chain, *span in leaving for number in rows_between(span)}
    if table in ("event", "outcome"):
        keys |= {(chain, number) for chain, first, last in leaving for number in before(first)}
    present = {(chain, number) for chain, span in of_chains.items() for number in rows_between(span)}
    expected = [
        file.name
        for file in run.files
        if any(file.bounds.first <= key <= file.bounds.last for key in keys & present)
    ]
    rows = RowRanges(leaving)
    leave = LeavingRows(answers=rows) if table == "outcome" else LeavingRows(events=rows)

    assert [file.name for file in leave.files(run)] == expected


def test_lists_of_events_that_left_before_are_read_without_the_events() -> None:
    entries = LeavingRows(entries=RowRanges([(CHAINS[0], 3, 3)]))
    of_chain = {CHAINS[0]: [1, 9]}
    assert [file.name for file in entries.files(run_of("event_entry", of_chain, 2))] == ["1"]
    assert [*entries.files(run_of("event", of_chain, 2))] == []


def test_the_answers_of_events_are_read_from_their_checkpoint_on_without_the_index() -> None:
    leaving = LeavingRows(answers_of_events=RowRanges([(CHAINS[0], 205, 205)]))
    of_chain = {CHAINS[0]: [1, 300]}
    assert [file.name for file in leaving.files(run_of("outcome", of_chain, 100))] == ["1", "2"]
    assert [*leaving.files(run_of("outcome_key", of_chain, 100))] == []


@pytest.mark.parametrize(
    ("index", "leaving"),
    [
        ("event_order", LeavingRows(events=RowRanges([(CHAINS[0], 9, 12)]))),
        ("outcome_key", LeavingRows(answers=RowRanges([(CHAINS[0], 9, 12)]))),
    ],
)
def test_an_index_is_read_in_the_runs_whose_rows_leave(index: str, leaving: LeavingRows) -> None:
    assert [file.name for file in leaving.files(run_of(index, {CHAINS[0]: [1, 9]}, 6))] == ["0", "1"]
    assert [*leaving.files(run_of(index, {CHAINS[0]: [1, 8]}, 6))] == []


def test_instants_are_found_by_their_times_in_each_run_of_their_table() -> None:
    instants = LeavingRows(instants=RowRanges([(CHAINS[0], 5, 6)]))
    run = run_of("instant", {CHAINS[0]: [1, 9]}, 2)
    assert [file.name for file in instants.files(run)] == ["2"]
    assert [*instants.files(run_of("instant", {CHAINS[1]: [1, 9]}, 2))] == []


@pytest.mark.parametrize(
    ("recorded", "trusted"),
    [("", 0), ("abc", 3), ("ab", 2), ("abcd", 3), ("axc", 1), ("bc", 0), ("xabc", 0)],
)
def test_the_first_runs_are_trusted_up_to_one_that_was_not_recorded_in_its_place(
    recorded: str, trusted: int
) -> None:
    runs = tuple(ListedRun(digest, 0, digest, digest, 1, 1, 1, ONE) for digest in "abc")
    assert archives.trusted_runs(ArchiveManifest(runs), [*recorded]) == trusted
