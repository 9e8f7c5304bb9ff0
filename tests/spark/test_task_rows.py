"""The rows of a task, brought together by file group, without a JVM."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from chronolake.slices import columns
from chronolake.writing import task_rows
from chronolake.writing.stored_groups import GroupNumber

PLACES = st.tuples(st.sampled_from(["", "day=1", "day=2"]), st.sampled_from([0, 7, 2_000_000_000]))
FEW_BYTES = 64


def batch_of(places: list[tuple[str, int]], first: int, *, has_paths: bool = True) -> pa.RecordBatch:
    paths = {columns.PARTITION_PATH: pa.array([path for path, _ in places], pa.string())} if has_paths else {}
    return pa.record_batch(
        {
            **paths,
            columns.BUCKET: pa.array([bucket for _, bucket in places], pa.int32()),
            "n": pa.array(range(first, first + len(places)), pa.int64()),
        }
    )


@settings(max_examples=60)
@given(
    sizes=st.lists(st.lists(PLACES, max_size=9), max_size=6),
    run_bytes=st.sampled_from([1, FEW_BYTES, 2**20]),
    held_bytes=st.sampled_from([0, FEW_BYTES, 2**20]),
)
def test_rows_come_together_in_their_order_whether_or_not_they_are_spilled(
    sizes: list[list[tuple[str, int]]], run_bytes: int, held_bytes: int
) -> None:
    batches, expected, first = [], dict[GroupNumber, list[int]](), 0
    for places in sizes:
        batches.append(batch_of(places, first))
        for number, place in enumerate(places, first):
            expected.setdefault(GroupNumber(*place), []).append(number)
        first += len(places)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(task_rows, "_RUN_BYTES", run_bytes)
        # It refuses file groups whose rows do not come together.
        grouped_batches = task_rows.by_file_group(iter(batches), held_bytes)
        runs = (run for batch in grouped_batches for run in task_rows.runs_of(batch))
        groups = task_rows.file_groups(runs)
        grouped = {group: rows["n"].to_pylist() for group, rows in groups}
    assert grouped == expected


def test_small_file_groups_share_a_batch_and_large_ones_are_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_rows, "_BATCH_ROWS", 10)
    places = [("", number % 5) for number in range(15)] + [("", 9)] * 20
    batches = list(task_rows.by_file_group([batch_of(places, 0, has_paths=False)]))

    assert [len(batch) for batch in batches] == [12, 20, 3]
    assert columns.PARTITION_PATH not in batches[0].schema.names


def test_a_spill_goes_to_a_folder_of_spark_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[str | None] = []
    temporary_file = tempfile.TemporaryFile

    def noted(dir: str | None) -> object:
        used.append(dir)
        return temporary_file(dir=dir)

    monkeypatch.setattr(tempfile, "TemporaryFile", noted)
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path},/nowhere")
    rows = task_rows.by_file_group([batch_of([("", 1), ("", 2), ("", 1)], 0)], 0)
    first = next(rows)
    del rows  # As after a failure of the writer.

    assert used == [str(tmp_path)]
    assert first["n"].to_pylist() == [0, 2, 1]
    assert list(tmp_path.iterdir()) == []
