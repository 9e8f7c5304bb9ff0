"""The file groups that tasks open by themselves, without a JVM."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, strategies as st

from chronolake_spark.common import columns
from chronolake_spark.write.tasks import bucket_writer, open_groups, task_rows
from chronolake_spark.write.tasks.stored_groups import GroupNumber

PATHS = st.lists(st.sampled_from(["a", "b", "c"]), max_size=8)


@given(paths_of_batches=st.lists(PATHS, max_size=4), records_max=st.integers(1, 5))
def test_each_partition_gets_full_file_groups_and_a_last_one(
    paths_of_batches: list[list[str]], records_max: int
) -> None:
    batches = [
        pa.record_batch({columns.PARTITION_PATH: pa.array(paths, pa.string())}) for paths in paths_of_batches
    ]
    grouped = open_groups.numbered(task_rows.by_file_group(batches), records_max)
    runs = (run for batch in grouped for run in bucket_writer.runs_of(batch))
    sizes = {group: len(rows) for group, rows in bucket_writer.file_groups(runs)}

    paths = [path for of_batch in paths_of_batches for path in of_batch]
    assert sum(sizes.values()) == len(paths)
    for path in set(paths):
        full, rest = divmod(paths.count(path), records_max)
        expected = [records_max] * full + ([rest] if rest else [])
        assert [sizes[GroupNumber(path, number)] for number in range(len(expected))] == expected


def test_each_attempt_opens_other_file_groups() -> None:
    group = GroupNumber("a", 0)
    first, second = (open_groups.OpenedGroups().groups([group])[group] for _ in range(2))

    assert first.slice is None
    assert first.file_id != second.file_id
