"""Compaction, log compaction and clustering by Arrow: the rows stay as they are, for every reader."""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import chronolake
from chronolake import Action, Field
from chronolake.errors import LeaseLive, NotPublished
from chronolake.indexes import stored_keys
from chronolake.indexes.record.record_index import RecordIndex
from chronolake.slices import columns
from chronolake_model.file_names import base_file_name
from chronolake_model.files import FileGroupName, FileSlice, WriteStat
from chronolake_model.instants import Instant
from chronolake_model.schemas import SchemaChange
from chronolake_model.tables import BucketIndex
from chronolake_model.vocabulary import IndexType, Operation, State, TableType
from chronolake_spark import errors, services
from chronolake_spark.services import sorting
from chronolake_spark.services.executing import TasksDone
from chronolake_spark.services.sorting import HELD_BYTES_MAX
from tests.fix_s3 import S3
from tests.processes import wait_until
from tests.spark import hudi_reader
from tests.spark.arrow_writes import row, upsert, write_rows

_NUMBERS = itertools.count(1)
NewTable = Callable[..., chronolake.Table]
SCHEMA = [Field("id", "bigint"), Field("value", "string"), Field("ts", "bigint", nullable=False)]
SLOW = pytest.mark.slow
HISTORIES = [
    (IndexType.BUCKET, "event-time", "parquet"),
    (IndexType.SIMPLE, "commit-time", "avro"),
    (IndexType.BLOOM, "partial-update", "parquet"),
    (IndexType.RECORD, "event-time", "avro"),
    pytest.param(IndexType.BUCKET, "commit-time", "parquet", marks=SLOW),
    pytest.param(IndexType.SIMPLE, "event-time", "parquet", marks=SLOW),
    pytest.param(IndexType.BLOOM, "commit-time", "avro", marks=SLOW),
    pytest.param(IndexType.RECORD, "commit-time", "parquet", marks=SLOW),
]
"""Index, merge mode, format of log blocks."""
BY_SIZE = {"hoodie.clustering.plan.strategy.target.file.max.bytes": "3000"}


@pytest.fixture(scope="module")
def new_table(shared_server_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NewTable]:
    with chronolake.connect(shared_server_url) as client:
        client.create_namespace("services", if_not_exists=True)

        def make(**definition: Any) -> chronolake.Table:
            name = f"services.t{next(_NUMBERS)}"
            defaults = {
                "base_path": str(tmp_path_factory.mktemp("tables") / name),
                "schema": SCHEMA,
                "record_key_fields": ["id"],
                "type": TableType.MERGE_ON_READ,
                "ordering_field": "ts",
            }
            table = client.create_table(name, **{**defaults, **definition})
            table.claim_storage()
            return table

        yield make


def plan(table: chronolake.Table, action: Action, details: Mapping[str, str] | None = None) -> Instant:
    groups = [FileGroupName(of.partition_path, of.file_id) for of in table.snapshot().slices]
    planned = table.plan(action, groups, details, writer="planner")
    publish(table)
    return planned


def publish(table: chronolake.Table) -> None:
    """Publish the plan of a compaction, unless the server does: it is not executed before."""

    def is_published() -> bool:
        with contextlib.suppress(NotPublished):
            try:
                table.publish()
            except LeaseLive:
                return False
        return True

    wait_until(is_published)


def run(table: chronolake.Table, action: Action, details: Mapping[str, str] | None = None) -> Instant:
    """Run a service over all file groups: the rows are the same after it, for every reader."""
    before = digest(table)
    planned = plan(table, action, details)
    instant = services.execute(table, planned.requested_time)
    assert digest(table) == before
    hudi_reader.publish_and_compare(table)
    assert_no_orphans(table)
    return instant


def assert_no_orphans(table: chronolake.Table) -> None:
    allowed = ("not-a-data-file", "pending")
    assert [orphan for orphan in table.orphans().orphans if orphan.reason not in allowed] == []


def digest(table: chronolake.Table) -> list[tuple[Any, ...]]:
    """All rows with Hudi's columns, but for the names of files."""
    return sorted_rows(hudi_reader.rows_of(table))


def sorted_rows(rows: pa.Table) -> list[tuple[Any, ...]]:
    """Rows with Hudi's columns, but for the names of files."""
    named = rows.drop_columns([columns.FILE_NAME]).to_pylist()
    return sorted((tuple(row.values()) for row in named), key=repr)


def values(table: chronolake.Table) -> dict[int, str]:
    """The value of each record."""
    return {row["id"]: row["value"] for row in hudi_reader.rows_of(table).to_pylist()}


def write_history(table: chronolake.Table, paths: Sequence[str] = ("",)) -> None:
    """Inserts, updates, deletes, and changes that are late by their ordering value, in two file groups."""
    for path in paths:
        upsert(table, *(row(id, group=id % 2, path=path, id=id, value="a", ts=5) for id in range(8)))
    for path in paths:
        upsert(
            table,
            row(0, group=0, path=path, id=0, value="b", ts=6),
            row(1, group=1, path=path, id=1, value="late", ts=4),
            row(2, group=0, path=path, id=2, delete=True, ts=7),
            row(8, group=0, path=path, id=8, value="new", ts=1),
        )
        upsert(
            table,
            row(2, group=0, path=path, id=2, value="late", ts=6),
            row(3, group=1, path=path, id=3, value="c", ts=9),
            row(4, group=0, path=path, id=4, delete=True),
        )


@pytest.mark.parametrize(("index", "mode", "blocks"), HISTORIES)
def test_a_compaction_after_a_log_compaction_leaves_the_rows_as_they_are(
    new_table: NewTable, index: IndexType, mode: str, blocks: str
) -> None:
    table = new_table(index=BucketIndex(index), properties={"merge.mode": mode, "hudi.log-blocks": blocks})
    write_history(table)
    instant = run(table, Action.LOGCOMPACTION)
    assert (instant.action, instant.operation) == (Action.DELTACOMMIT, Operation.LOG_COMPACT)
    upsert(table, row(1, group=1, id=1, value="d", ts=5), row(2, group=0, id=2, value="d", ts=7))
    instant = run(table, Action.COMPACTION)
    assert (instant.action, instant.operation) == (Action.COMMIT, Operation.COMPACT)
    assert instant.summary is not None
    assert (instant.summary.inserts, instant.summary.updates, instant.summary.deletes) == (0, 0, 0)
    assert instant.summary.records == len(digest(table))
    assert all(not of.log_files for of in table.snapshot().slices)
    assert all(has_stats(table, of) for of in table.snapshot().slices)


def has_stats(table: chronolake.Table, slice_: FileSlice) -> bool:
    """Whether a filter that no record matches prunes the slice: its file has column stats."""
    found = table.scan(chronolake.col("id") < -1).slices
    return slice_ not in found


@pytest.mark.parametrize(
    ("type_", "index", "strategy", "sort_columns", "held_bytes"),
    [
        (TableType.COPY_ON_WRITE, IndexType.SIMPLE, "linear", "", HELD_BYTES_MAX),
        (TableType.MERGE_ON_READ, IndexType.BLOOM, "linear", "value,id", HELD_BYTES_MAX),
        (TableType.MERGE_ON_READ, IndexType.BLOOM, "linear", "value,id", 200),
        (TableType.MERGE_ON_READ, IndexType.RECORD, "zorder", "id,ts,ID", HELD_BYTES_MAX),
        (TableType.COPY_ON_WRITE, IndexType.BLOOM, "hilbert", "ts, VALUE,price", HELD_BYTES_MAX),
    ],
)
def test_a_clustering_moves_the_records_of_a_partition_to_files_of_the_target_size(
    new_table: NewTable,
    monkeypatch: pytest.MonkeyPatch,
    type_: TableType,
    index: IndexType,
    strategy: str,
    sort_columns: str,
    held_bytes: int,
) -> None:
    in_little_memory = functools.partial(sorting.in_order, held_bytes_max=held_bytes)
    monkeypatch.setattr(sorting, "in_order", in_little_memory)
    table = new_table(
        type=type_,
        index=BucketIndex(index),
        schema=[*SCHEMA, Field("day", "string"), Field("price", "double")],
        partition_fields=["day"],
    )
    write_history(table, ["day=1", "day=2"])
    before = {of.file_id for of in table.snapshot().slices}
    details = {
        **BY_SIZE,
        "hoodie.layout.optimize.strategy": strategy,
    }
    if sort_columns:
        details["hoodie.clustering.plan.strategy.sort.columns"] = sort_columns
    instant = run(table, Action.CLUSTERING, details)
    assert (instant.action, instant.operation) == (Action.REPLACECOMMIT, Operation.CLUSTER)
    after = table.snapshot().slices
    assert before.isdisjoint(of.file_id for of in after)
    assert len(after) > 2
    if sort_columns == "value,id":
        for path in ("day=1", "day=2"):
            files = [hudi_reader.rows_of_slices(table, [of]) for of in after if of.partition_path == path]
            keys = [[(row["value"], row["id"]) for row in file.to_pylist()] for file in files]
            assert all(part == sorted(part) for part in keys)
            together = [key for part in sorted(keys) for key in part]
            assert together == sorted(together)


def test_a_snapshot_from_before_the_end_of_a_clustering_is_read_as_it_was(new_table: NewTable) -> None:
    """#7057: a reader failed when the pending clustering that it had seen completed meanwhile."""
    table = new_table(index=BucketIndex(IndexType.SIMPLE))
    write_history(table)
    planned = plan(table, Action.CLUSTERING)
    before, slices = digest(table), table.snapshot().slices
    services.cluster(table, planned.requested_time)
    assert {of.file_id for of in slices}.isdisjoint(of.file_id for of in table.snapshot().slices)
    assert sorted_rows(hudi_reader.rows_of_slices(table, slices)) == digest(table) == before


def test_an_upsert_through_the_record_index_finds_records_that_a_clustering_moved(new_table: NewTable) -> None:
    table = new_table(index=BucketIndex(IndexType.RECORD))
    write_history(table)
    RecordIndex(table).catch_up()
    run(table, Action.CLUSTERING)
    upsert(table, row(100, group=7, id=100, value="new", ts=1))
    manifest = RecordIndex(table).catch_up()
    assert manifest is not None
    keys = [str(row["id"]) for row in hudi_reader.rows_of(table).to_pylist()]
    found = RecordIndex(table).find(manifest, pa.array(keys))
    live = {of.file_id for of in table.snapshot().slices}
    assert len(found) == len(keys)
    assert set(found["file_id"].to_pylist()) == live


def test_a_bloom_filter_of_a_compacted_or_clustered_file_admits_its_keys_alone(new_table: NewTable) -> None:
    table = new_table(index=BucketIndex(IndexType.BLOOM))
    write_history(table)
    for action in (Action.COMPACTION, Action.CLUSTERING):
        run(table, action)
        for slice_ in table.snapshot().slices:
            assert slice_.base_file is not None
            footer = pq.read_metadata(f"{table.definition.base_path}/{slice_.base_file.path}").metadata
            keys = hudi_reader.rows_of_slices(table, [slice_])[columns.RECORD_KEY].cast(pa.string())
            admitted = stored_keys.possible(
                footer, pa.array([*keys.to_pylist(), *map(str, range(1_000, 1_100))])
            )
            assert admitted.to_pylist() == keys.to_pylist()


def test_a_group_whose_records_are_all_deleted_gets_an_empty_base_file(new_table: NewTable) -> None:
    table = new_table()
    upsert(table, row(1, id=1, value="a", ts=1), row(2, id=2, value="a", ts=1))
    upsert(table, row(1, delete=True, ts=2), row(2, delete=True, ts=2))
    instant = run(table, Action.COMPACTION)
    assert instant.summary is not None
    assert (instant.summary.files, instant.summary.records) == (1, 0)
    assert digest(table) == []
    upsert(table, row(1, id=1, value="b", ts=3))
    assert values(table) == {1: "b"}


def test_a_clustering_of_no_records_leaves_no_file_group(new_table: NewTable) -> None:
    table = new_table(index=BucketIndex(IndexType.SIMPLE))
    upsert(table, row(1, id=1, value="a", ts=1))
    upsert(table, row(1, delete=True, ts=2))
    run(table, Action.CLUSTERING)
    assert table.snapshot().slices == []


def test_files_of_earlier_schemas_are_written_with_the_present_one(new_table: NewTable) -> None:
    table = new_table(
        schema=[Field("id", "bigint"), Field("value", "int"), Field("ts", "bigint", nullable=False)],
        properties={"hudi.publish": "false"},
    )
    upsert(table, row(1, id=1, value=1, ts=1), row(2, id=2, value=2, ts=1))
    changes: list[SchemaChange] = [
        chronolake.RenameColumn("value", "amount"),
        chronolake.WidenColumn("amount", "bigint"),
        chronolake.AddColumn("more", "struct<a:int>"),
    ]
    upsert(table, row(1, id=1, value=3, ts=2))
    table.change_schema(changes)
    upsert(table, row(2, id=2, amount=4, ts=2, more={"a": 1}))
    for action in (Action.LOGCOMPACTION, Action.COMPACTION):
        run(table, action)
    [slice_] = table.snapshot().slices
    assert slice_.base_file is not None
    assert (slice_.base_file.schema_version, slice_.base_file.has_field_ids) == (2, True)
    rows = {row["id"]: (row["amount"], row["more"]) for row in hudi_reader.rows_of(table).to_pylist()}
    assert rows == {1: (3, None), 2: (4, {"a": 1})}


def test_a_log_compaction_leaves_out_what_is_later_than_a_write_that_was_pending(new_table: NewTable) -> None:
    table = new_table()
    upsert(table, row(1, id=1, value="base", ts=1), row(2, id=2, value="base", ts=1))
    upsert(table, row(1, id=1, value="first", ts=1))
    upsert(table, row(2, id=2, value="second", ts=1))
    with table.begin() as pending:
        written = write_rows(table, pending, [row(1, id=1, value="pending", ts=1)])
        upsert(table, row(2, id=2, value="later", ts=1))
        run(table, Action.LOGCOMPACTION)
        for stat in written.stats:
            pending.add(stat)
    # At equal ordering values the write that was requested later wins: also against a log compaction.
    expected = {1: "pending", 2: "later"}
    assert values(table) == expected
    hudi_reader.publish_and_compare(table)
    run(table, Action.LOGCOMPACTION)
    run(table, Action.COMPACTION)
    assert values(table) == expected


def test_appends_to_a_group_in_compaction_belong_to_the_next_slice(new_table: NewTable) -> None:
    table = new_table()
    write_history(table)
    planned = plan(table, Action.COMPACTION)
    upsert(table, row(5, group=1, id=5, value="meanwhile", ts=9))
    before = digest(table)
    services.compact(table, planned.requested_time)
    assert digest(table) == before
    hudi_reader.publish_and_compare(table)
    assert sum(len(of.log_files) for of in table.snapshot().slices) == 1


def test_a_compaction_leaves_out_a_group_whose_base_file_a_write_has_replaced(
    new_table: NewTable,
) -> None:
    table = new_table(properties={"hudi.publish": "false"})
    write_history(table)
    planned = plan(table, Action.COMPACTION)
    written, other = table.snapshot().slices
    before = []

    def write_at_the_end(done: TasksDone) -> None:
        if done.tasks_done == done.tasks == 2:
            rewrite_base_file(table, written)
            before.append(digest(table))

    services.execute(table, planned.requested_time, report=write_at_the_end)

    assert [digest(table)] == before
    base_files = {of.file_id: of.base_file for of in table.snapshot().slices if of.base_file is not None}
    assert base_files[other.file_id].requested_time == planned.requested_time
    assert base_files[written.file_id].requested_time > planned.requested_time
    assert_no_orphans(table)


def rewrite_base_file(table: chronolake.Table, stored: FileSlice, repeat: int = 1) -> None:
    """A write whose file has the records of the base file as they are, or each several times."""
    assert stored.base_file is not None
    folder = Path(table.definition.base_path)
    with table.begin() as write:
        name = base_file_name(stored.file_id, "0-0-0", write.requested_time)
        rows = pa.concat_tables([pq.read_table(folder / stored.base_file.path)] * repeat)
        pq.write_table(rows, folder / name)
        size = (folder / name).stat().st_size
        write.add(WriteStat("", stored.file_id, name, size_bytes=size, records=len(rows), updates=len(rows)))


def test_a_clean_does_not_take_the_past_from_a_plan(new_table: NewTable) -> None:
    table = new_table(properties={"hudi.publish": "false"})
    write_history(table)
    services.compact(table, plan(table, Action.COMPACTION).requested_time)
    upsert(table, row(0, id=0, value="before", ts=8))
    planned = plan(table, Action.COMPACTION)
    upsert(table, row(0, id=0, value="after", ts=9), row(1, group=1, id=1, value="after", ts=9))
    table.clean(retain_commits=1)
    assert str(table.reload().definition.cleaned_before) > planned.requested_time
    before = digest(table)
    services.compact(table, planned.requested_time)
    assert digest(table) == before


def test_a_write_wins_against_a_clustering_that_began_before_it(new_table: NewTable) -> None:
    table = new_table(index=BucketIndex(IndexType.SIMPLE))
    write_history(table)
    planned = plan(table, Action.CLUSTERING)
    upsert(table, row(5, group=1, id=5, value="meanwhile", ts=9))
    with pytest.raises((chronolake.errors.WriteConflict, chronolake.errors.InstantRolledBack)):
        services.cluster(table, planned.requested_time)
    table.finish_rollbacks()
    assert table.instant(planned.requested_time).state is State.ROLLED_BACK
    assert values(table)[5] == "meanwhile"
    assert_no_orphans(table)


def test_a_table_with_buckets_is_not_clustered_and_the_message_says_what_to_do(new_table: NewTable) -> None:
    table = new_table()
    write_history(table)
    planned = plan(table, Action.CLUSTERING)
    assert planned.plan is not None
    assert list(table.planned_file_groups(planned.requested_time)) == planned.plan.file_groups
    with pytest.raises(errors.TableMismatch, match=r"chronolake rollback .*resize_buckets"):
        services.cluster(table, planned.requested_time)
    assert table.instant(planned.requested_time).state is State.REQUESTED


@pytest.mark.parametrize(
    ("action", "is_changed", "records"),
    [(Action.COMPACTION, True, 1), (Action.CLUSTERING, True, 1), (Action.CLUSTERING, False, 10)],
)
def test_keys_that_another_writer_has_repeated_stop_no_service(
    new_table: NewTable, action: Action, is_changed: bool, records: int
) -> None:
    """A log file may delete more records than it has itself: the server does not take these for lost."""
    table = new_table(index=BucketIndex(IndexType.SIMPLE))
    upsert(table, row(1, id=1, value="a", ts=1), row(2, id=2, value="b", ts=1))
    rewrite_base_file(table, table.snapshot().slices[0], repeat=5)
    if is_changed:
        upsert(table, row(1, delete=True, ts=2), row(2, id=2, value="c", ts=2))

    instant = run(table, action)

    assert instant.summary is not None
    assert instant.summary.records == records


def test_a_failed_task_stops_the_others_and_the_plan_returns(new_table: NewTable) -> None:
    table = new_table()
    write_history(table)
    planned = plan(table, Action.COMPACTION)
    [_, second] = table.snapshot().slices
    assert second.base_file is not None
    lost = Path(table.definition.base_path, second.base_file.path)
    kept = lost.read_bytes()
    lost.unlink()
    with pytest.raises(errors.BaseFileDamaged, match="not in storage"):
        services.compact(table, planned.requested_time)
    assert table.instant(planned.requested_time).state is State.REQUESTED
    lost.write_bytes(kept)
    publish(table)
    services.compact(table, planned.requested_time)
    assert_no_orphans(table)


def test_an_execution_that_is_stopped_returns_its_plan(new_table: NewTable) -> None:
    table = new_table()
    write_history(table)
    planned = plan(table, Action.COMPACTION)

    def stop() -> None:
        raise errors.ServiceStopped("the process ends")

    with pytest.raises(errors.ServiceStopped):
        services.execute(table, planned.requested_time, check=stop)
    assert table.instant(planned.requested_time).state is State.REQUESTED
    publish(table)
    services.execute(table, planned.requested_time)
    assert_no_orphans(table)


def test_services_of_a_table_in_a_bucket(shared_server_url: str, s3: S3) -> None:
    secrets = {name: s3.options[name] for name in ("access_key", "secret_key")}
    where = {f"storage.{name}": s3.options[name] for name in ("endpoint_override", "region")}
    with chronolake.connect(shared_server_url, storage_options=secrets) as client:
        client.create_namespace("services_of_bucket")
        table = client.create_table(
            "services_of_bucket.table",
            base_path=s3.base_path,
            schema=SCHEMA,
            record_key_fields=["id"],
            ordering_field="ts",
            type=TableType.MERGE_ON_READ,
            index=BucketIndex(IndexType.SIMPLE),
            properties={**where, "hudi.publish": "false"},
        )
        write_history(table)
        before = digest(table)
        for action in (Action.LOGCOMPACTION, Action.COMPACTION, Action.CLUSTERING):
            services.execute(table, plan(table, action).requested_time)
            assert digest(table) == before
            assert_no_orphans(table)
