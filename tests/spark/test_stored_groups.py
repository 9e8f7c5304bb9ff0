"""The file groups that tasks look up at a real server, without a JVM."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st
from typing_extensions import override

import chronolake
from chronolake import Action, Field, FileGroupName, errors
from chronolake._location import owner_of
from chronolake.slices import columns
from chronolake.slices.merge import Existing
from chronolake.writing import bucket_writer, task_rows
from chronolake.writing.bucket_writer import TaskAttempt, WriteJob
from chronolake.writing.stored_groups import GroupNumber, ServerLookup, StoredGroup, StoredGroups
from chronolake_model.file_names import bucket_file_id
from chronolake_model.files import WriteStat
from chronolake_model.schemas import AddColumn
from chronolake_spark.write import open_groups

PATHS = st.lists(st.sampled_from(["a", "b", "c"]), max_size=8)

SCHEMA = pa.schema([("id", pa.int64())])
TASK = TaskAttempt(partition=0, write_token="0-1-2")
_NUMBERS = itertools.count(1)


@pytest.fixture
def table(shared_server_url: str, tmp_path: Path) -> Iterator[chronolake.Table]:
    with chronolake.connect(shared_server_url) as client:
        client.create_namespace("lookup", if_not_exists=True)
        table = client.create_table(
            f"lookup.t{next(_NUMBERS)}",
            base_path=str(tmp_path / "table"),
            schema=[Field("id", "bigint")],
            record_key_fields=["id"],
            partition_fields=[],
        )
        table.claim_storage()
        yield table


class CountingLookup(ServerLookup):
    """A lookup that notes its requests."""

    def __init__(self, table: chronolake.Table, as_of: str) -> None:
        super().__init__(table, as_of, replaces=False)
        self.requests: list[list[GroupNumber]] = []

    @override
    def groups(self, groups: Sequence[GroupNumber]) -> dict[GroupNumber, StoredGroup]:
        self.requests.append(list(groups))
        return super().groups(groups)


def batch(buckets: list[int], ids: list[int]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            columns.RECORD_KEY: [str(id) for id in ids],
            columns.PARTITION_PATH: [""] * len(ids),
            columns.BUCKET: pa.array(buckets, pa.int32()),
            columns.DELETE: [False] * len(ids),
            "id": ids,
        }
    )


def written(
    table: chronolake.Table, write: chronolake.Write, lookup: ServerLookup, *batches: pa.RecordBatch
) -> list[WriteStat]:
    definition = table.definition
    job = WriteJob(
        base_path=definition.base_path,
        requested_time=write.requested_time,
        schema=SCHEMA,
        fields=definition.schema,
        required=(),
        ordering_fields=(),
        existing=Existing.MERGE,
        stored={},
        versions={definition.schema_version: definition.schema},
        owner=owner_of(definition),
    )
    markers = table.markers_of(write.requested_time, writer=write.instant.writer)
    return list(bucket_writer.write(batches, job, TASK, markers, lookup).stats)


def of_begin(table: chronolake.Table, write: chronolake.Write, *, replaces: bool = False) -> ServerLookup:
    return ServerLookup(table, write.requested_time, replaces=replaces)


def test_a_task_looks_up_the_file_groups_of_a_batch_in_one_request_and_each_once(
    table: chronolake.Table,
) -> None:
    first, second = table.begin(), table.begin()
    stats = written(table, first, of_begin(table, first), batch([0, 0, 1], [1, 2, 3]), batch([1, 2], [4, 5]))
    assert [(stat.inserts, stat.updates) for stat in stats] == [(2, 0), (2, 0), (1, 0)]
    first.complete(stats)

    lookup = CountingLookup(table, table.begin().requested_time)
    stats = written(table, second, lookup, batch([0, 1], [1, 9]), batch([1, 3], [3, 8]))

    assert [(stat.inserts, stat.updates) for stat in stats] == [(0, 1), (1, 1), (1, 0)]
    assert lookup.requests == [[GroupNumber("", 0), GroupNumber("", 1)], [GroupNumber("", 3)]]


def test_what_completes_after_the_begin_is_not_read_and_is_a_conflict(table: chronolake.Table) -> None:
    earlier, later = table.begin(), table.begin()
    later.complete(written(table, later, of_begin(table, later), batch([0], [1])))

    stats = written(table, earlier, of_begin(table, earlier), batch([0], [1]))

    assert [(stat.inserts, stat.updates) for stat in stats] == [(1, 0)]
    with pytest.raises(errors.WriteConflict):
        earlier.complete(stats)


def test_buckets_of_replaced_file_groups_open_the_next_ones(table: chronolake.Table) -> None:
    first = table.begin()
    first.complete(written(table, first, of_begin(table, first), batch([0, 1], [1, 2])))
    overwrite = table.begin(action=Action.REPLACECOMMIT)
    stats = written(table, overwrite, of_begin(table, overwrite, replaces=True), batch([0, 2], [1, 3]))
    assert [(stat.file_id, stat.inserts) for stat in stats] == [
        (bucket_file_id(0, 1), 1),
        (bucket_file_id(2), 1),
    ]
    overwrite.complete(
        stats, replaced_file_groups=[FileGroupName("", bucket_file_id(bucket)) for bucket in (0, 1)]
    )

    after = table.begin()
    stats = written(table, after, of_begin(table, after), batch([0, 1, 3], [1, 2, 4]))

    wanted = [(bucket_file_id(0, 1), 1), (bucket_file_id(1, 1), 0), (bucket_file_id(3), 0)]
    assert [(stat.file_id, stat.updates) for stat in stats] == wanted
    # As of a time before the overwrite, nothing was replaced.
    before = StoredGroups({}, {}, {}, of_begin(table, first))
    before.load([GroupNumber("", 0)])
    assert before[GroupNumber("", 0)] == (None, bucket_file_id(0))
    after.complete(stats)
    another = table.begin()
    assert [
        stat.file_id
        for stat in written(table, another, of_begin(table, another, replaces=True), batch([0], [1]))
    ] == [bucket_file_id(0, 2)]


def test_the_columns_of_earlier_schema_versions_are_fetched_where_files_have_them(
    table: chronolake.Table,
) -> None:
    first = table.begin()
    first.complete(written(table, first, of_begin(table, first), batch([0], [1])))
    schema = table.definition.schema
    table.change_schema([AddColumn("name", "string")])
    write = table.begin()
    groups = StoredGroups({}, {}, {2: table.definition.schema}, of_begin(table, write))

    groups.load([GroupNumber("", 1)])
    assert list(groups.fields) == [2]
    groups.load([GroupNumber("", 0), GroupNumber("", 1)])
    assert groups.fields[1] == schema


@given(paths_of_batches=st.lists(PATHS, max_size=4), records_max=st.integers(1, 5))
def test_each_partition_gets_full_file_groups_and_a_last_one(
    paths_of_batches: list[list[str]], records_max: int
) -> None:
    batches = [
        pa.record_batch({columns.PARTITION_PATH: pa.array(paths, pa.string())}) for paths in paths_of_batches
    ]
    grouped = open_groups.numbered(task_rows.by_file_group(batches), records_max)
    runs = (run for batch in grouped for run in task_rows.runs_of(batch))
    sizes = {group: len(rows) for group, rows in task_rows.file_groups(runs)}

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
