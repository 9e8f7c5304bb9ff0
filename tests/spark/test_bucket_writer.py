"""The files of a task, in a folder on disk and without a JVM."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings, strategies as st
from msgspec import UNSET

from chronolake._location import TableLocation, owner_of
from chronolake._sync.markers import DirectMarkers
from chronolake.slices import base_files, columns, layouts
from chronolake.slices.log_contents import LogFormat
from chronolake.slices.merge import Existing
from chronolake.writing import bucket_writer
from chronolake.writing.bucket_writer import TaskAttempt, WriteJob, WriteTaskResult
from chronolake_hudi import log_files
from chronolake_model.file_names import bucket_file_id, parse_file_name, relative_path
from chronolake_model.files import ColumnStats, WriteStat
from chronolake_model.tables import SchemaField
from chronolake_spark import errors
from chronolake_storage import claims, opening
from chronolake_storage.claims import Owner
from chronolake_storage.errors import StorageError
from tests.spark.definitions import definition, slices_after

SCHEMA = pa.schema(
    [("id", pa.int64()), ("name", pa.string()), ("ts", pa.int64()), ("at", pa.timestamp("us", tz="UTC"))]
)
FIELDS = [
    SchemaField("id", "bigint", field_id=1),
    SchemaField("name", "string", field_id=3),
    SchemaField("ts", "bigint", field_id=4),
    SchemaField("at", "timestamp", field_id=5),
]
FIRST, SECOND, THIRD = "20261121120000001", "20261121120000002", "20261121120000003"
TASK = TaskAttempt(partition=3, write_token="3-7-11")
Row = dict[str, Any]


@pytest.fixture
def job(tmp_path: Path) -> WriteJob:
    return WriteJob(
        base_path=str(tmp_path / "table"),
        requested_time=FIRST,
        schema=SCHEMA,
        fields=FIELDS,
        required=("id",),
        ordering_fields=("ts",),
        existing=Existing.MERGE,
        stored={},
        owner=Owner("metastore", "table", "shop.orders"),
    )


def row(
    id: int, ts: int = 0, *, name: str | None = "x", path: str = "", bucket: int = 0, delete: bool = False
) -> Row:
    return {
        columns.RECORD_KEY: str(id),
        columns.PARTITION_PATH: path,
        columns.BUCKET: bucket,
        columns.DELETE: delete,
        "id": None if delete else id,
        "name": name,
        "ts": ts,
        "at": None,
    }


def batch(*rows: Row) -> pa.RecordBatch:
    control = pa.schema(
        [
            (columns.RECORD_KEY, pa.string()),
            (columns.PARTITION_PATH, pa.string()),
            (columns.BUCKET, pa.int32()),
            (columns.DELETE, pa.bool_()),
        ]
    )
    return pa.RecordBatch.from_pylist(list(rows), schema=pa.schema([*control, *SCHEMA]))


def following(job: WriteJob, written: WriteTaskResult) -> WriteJob:
    """The job of the next instant, which reads the existing files."""
    return replace(job, requested_time=SECOND, stored=slices_after(job.stored, written.stats))


def write(batches: Iterable[pa.RecordBatch], job: WriteJob, task: TaskAttempt) -> WriteTaskResult:
    """As on an executor that cannot reach the server, when the driver has claimed the base path."""
    table = definition({}, base_path=job.base_path)
    files = opening.open_files(job.base_path)
    files.make_folder()
    claims.ensure_claim(files, owner_of(table), lambda: None, list)
    location = TableLocation(table, None, base_files.UnreportedFiles())
    markers = DirectMarkers(location.stored_markers(job.requested_time))
    return bucket_writer.write(batches, job, task, markers)


def relative(stat: WriteStat) -> str:
    return relative_path(stat.partition_path, stat.file_name)


def rows_of(job: WriteJob, stat: WriteStat) -> list[Row]:
    table = pq.read_table(f"{job.base_path}/{relative(stat)}", partitioning=None)
    return sorted(table.to_pylist(), key=lambda row: int(row["id"]))


def files_of(job: WriteJob) -> list[str]:
    return sorted(path.name for path in Path(job.base_path).rglob("*.parquet"))


def test_rows_are_written_with_hudis_columns_first(job: WriteJob):
    (stat,) = write([batch(row(1), row(2))], job, TASK).stats

    name = f"{bucket_file_id(0)}_3-7-11_{FIRST}.parquet"
    assert stat.file_name == name
    assert pq.read_schema(f"{job.base_path}/{name}").names == [*columns.META, *SCHEMA.names]
    first = rows_of(job, stat)[0]
    assert [first[column] for column in columns.META] == [FIRST, f"{FIRST}_3_0", "1", "", name]


def test_a_bucket_whose_first_file_group_was_replaced_uses_its_present_one(job: WriteJob):
    (first,) = write([batch(row(1))], job, TASK).stats
    second = bucket_file_id(0, 1)
    following_job = following(job, WriteTaskResult((first,)))
    stored = {
        group: msgspec.structs.replace(file_slice, file_id=second)
        for group, file_slice in following_job.stored.items()
    }
    (stat,) = write([batch(row(2))], replace(following_job, stored=stored), TASK).stats
    assert (stat.file_id, stat.records) == (second, 2)


def test_the_write_stat_describes_the_file(job: WriteJob):
    (stat,) = write([batch(row(1), row(2), row(1, 5))], job, TASK).stats

    path = Path(job.base_path, stat.file_name)
    described = WriteStat(
        "", bucket_file_id(0), path.name, path.stat().st_size, records=2, inserts=2, has_field_ids=True
    )
    assert msgspec.structs.replace(stat, column_stats=UNSET) == described
    assert parse_file_name(path.name).requested_time == FIRST


def test_the_stats_of_the_columns_are_of_rows_carried_over_and_of_new_ones(job: WriteJob):
    second = following(job, write([batch(row(1), row(2), row(7))], job, TASK))

    changes = batch(row(7, delete=True), row(4, name=None), row(5, name="z"))
    (stat,) = write([changes], second, TASK).stats

    assert stat.column_stats == [
        ColumnStats(1, 1, 5, 0),
        ColumnStats(3, "x", "z", 1),
        ColumnStats(4, 0, 0, 0),
        ColumnStats(5, nulls=4),
    ]


def test_rows_carried_over_keep_their_instant_and_get_the_new_file(job: WriteJob):
    second = following(job, write([batch(row(1), row(2), row(3))], job, TASK))
    changes = batch(row(1, name="new"), row(3, delete=True), row(4))
    (stat,) = write([changes], second, TASK).stats

    after = rows_of(job, stat)
    assert [(row["id"], row["name"], row[columns.COMMIT_TIME]) for row in after] == [
        (1, "new", SECOND),
        (2, "x", FIRST),
        (4, "x", SECOND),
    ]
    assert {row[columns.FILE_NAME] for row in after} == {stat.file_name}
    assert (stat.records, stat.inserts, stat.updates, stat.deletes) == (3, 1, 1, 1)


def test_each_run_of_a_file_group_is_one_file(job: WriteJob):
    batches = [
        batch(row(1, path="p=1"), row(2, path="p=1"), row(3, path="p=1", bucket=2)),
        batch(row(4, path="p=1", bucket=2), row(5, path="p=2", bucket=2)),
        batch(),
    ]
    stats = write(batches, job, TASK).stats

    assert [(stat.partition_path, stat.file_id, stat.records) for stat in stats] == [
        ("p=1", bucket_file_id(0), 2),
        ("p=1", bucket_file_id(2), 2),
        ("p=2", bucket_file_id(2), 1),
    ]
    numbers = [row[columns.COMMIT_SEQNO] for stat in stats for row in rows_of(job, stat)]
    assert len(set(numbers)) == 5


def test_no_rows_write_no_file(job: WriteJob):
    assert write([], job, TASK) == WriteTaskResult()
    assert files_of(job) == []


def test_a_group_where_nothing_changes_writes_no_file(job: WriteJob):
    second = following(job, write([batch(row(1, 5))], job, TASK))
    written = write([batch(row(1, 4), row(9, delete=True))], second, TASK)

    assert written == WriteTaskResult(rows=2, unchanged=2)
    assert len(files_of(job)) == 1


def test_a_group_that_loses_all_rows_becomes_an_empty_file(job: WriteJob):
    second = following(job, write([batch(row(1), row(2))], job, TASK))
    (stat,) = write([batch(row(1, delete=True), row(2, delete=True))], second, TASK).stats

    assert (stat.records, stat.deletes) == (0, 2)
    table = pq.read_table(f"{job.base_path}/{relative(stat)}")
    assert table.schema.equals(layouts.file_schema(SCHEMA, FIELDS), check_metadata=True)
    assert table.num_rows == 0


def test_texts_that_repeat_are_stored_once_in_a_merged_file(job: WriteJob):
    second = following(job, write([batch(*[row(n) for n in range(1000)])], job, TASK))
    (stat,) = write([batch(*[row(n) for n in range(500, 1500)])], second, TASK).stats

    row_group = pq.ParquetFile(f"{job.base_path}/{relative(stat)}").metadata.row_group(0)
    sizes = {
        column["path_in_schema"]: column["total_uncompressed_size"] for column in row_group.to_dict()["columns"]
    }
    assert max(sizes[name] for name in columns.REPEATED) < 500
    assert {row[columns.COMMIT_TIME] for row in rows_of(job, stat)} == {FIRST, SECOND}


def test_a_file_of_many_row_groups_is_merged_whole(job: WriteJob, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(base_files, "ROW_GROUP_ROWS", 3)
    second = following(job, write([batch(*[row(n) for n in range(10)])], job, TASK))
    (stat,) = write([batch(row(4, delete=True), row(8, name="new"))], second, TASK).stats

    after = rows_of(job, stat)
    assert [row["id"] for row in after] == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    assert [row["id"] for row in after if row["name"] == "new"] == [8]


def test_an_insert_of_existing_keys_counts_them_and_writes_nothing(job: WriteJob):
    second = following(job, write([batch(row(1), row(2))], job, TASK))
    insert = batch(row(1), row(2), row(7), row(7))
    written = write([insert], replace(second, existing=Existing.FAIL), TASK)

    assert (written.stats, written.duplicates, written.duplicate_key) == ((), 3, "1")
    assert len(files_of(job)) == 1


def test_an_insert_that_repeats_a_key_names_it(job: WriteJob):
    written = write([batch(row(7), row(7))], replace(job, existing=Existing.FAIL), TASK)

    assert (written.duplicates, written.duplicate_key) == (1, "7")


def test_a_null_in_a_required_column_is_refused(job: WriteJob):
    rows = batch(row(1) | {"id": None})

    with pytest.raises(errors.RequiredValueMissing, match="'id' is not nullable"):
        write([rows], job, TASK)


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


@pytest.mark.parametrize("damage", [Path.unlink, cut_short], ids=["missing", "cut short"])
def test_a_damaged_base_file_is_refused(job: WriteJob, damage: Callable[[Path], None]):
    second = following(job, write([batch(row(1))], job, TASK))
    damage(Path(job.base_path, files_of(job)[0]))

    with pytest.raises(errors.BaseFileDamaged, match="timeline"):
        write([batch(row(2))], second, TASK)


def broken(*batches: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    yield from batches
    raise ConnectionError("the shuffle is gone")


def test_a_task_that_fails_leaves_no_file(job: WriteJob):
    with pytest.raises(ConnectionError):
        write(broken(batch(row(1)), batch(row(2, bucket=1))), job, TASK)

    assert files_of(job) == []


def test_a_log_file_that_fails_half_way_is_deleted(job: WriteJob, monkeypatch: pytest.MonkeyPatch):
    def fail(*_: object) -> bytes:
        assert list(Path(job.base_path).glob(".*.log.*"))
        raise MemoryError

    first = write([batch(row(1))], job, TASK)
    log_format = LogFormat.of("shop.orders", FIELDS, has_avro_blocks=False)
    appending = replace(following(job, first), log_format=log_format, versions={1: FIELDS})
    with monkeypatch.context() as patch:
        patch.setattr(log_files, "encode", fail)
        with pytest.raises(MemoryError):
            write([batch(row(1, 2))], appending, TASK)
    assert not list(Path(job.base_path).glob(".*.log.*"))

    assert write([batch(row(1, 2))], appending, TASK).stats[0].updates == 1


def test_a_deleted_key_that_is_appended_again_is_an_insert_where_keys_are_looked_up(job: WriteJob):
    first = write([batch(row(1), row(2), row(3))], job, TASK)
    log_format = LogFormat.of("shop.orders", FIELDS, has_avro_blocks=False)
    deleting = replace(following(job, first), log_format=log_format, versions={1: FIELDS})
    deleted = write([batch(row(1, 1, delete=True))], deleting, TASK)
    appending = replace(
        deleting, requested_time=THIRD, stored=slices_after(deleting.stored, deleted.stats), looks_keys_up=True
    )
    [stat] = write([batch(row(1, 2), row(2, 2), row(9, 2))], appending, TASK).stats
    assert (stat.inserts, stat.updates) == (2, 1)

    [stat] = write([batch(row(1, 2), row(2, 2))], replace(appending, looks_keys_up=False), TASK).stats
    assert (stat.inserts, stat.updates) == (0, 2)


def test_a_file_that_fails_half_way_is_deleted(job: WriteJob, monkeypatch: pytest.MonkeyPatch):
    def half(sink: pa.NativeFile, *_: object, **_options: object) -> None:
        sink.write(b"PAR1")
        raise MemoryError

    monkeypatch.setattr(base_files, "write_rows", half)
    with pytest.raises(MemoryError):
        write([batch(row(1, path="p=1"))], job, TASK)

    assert files_of(job) == []


def test_no_file_is_written_through_a_linked_partition_folder(job: WriteJob, tmp_path: Path):
    (tmp_path / "victim").mkdir()
    (tmp_path / "table").mkdir()
    (tmp_path / "table" / "p=1").symlink_to(tmp_path / "victim")

    with pytest.raises(StorageError, match="p=1 is a link"):
        write([batch(row(1, path="p=1"))], job, TASK)

    assert list((tmp_path / "victim").iterdir()) == []


def test_rows_of_a_group_that_do_not_come_together_are_refused(job: WriteJob):
    with pytest.raises(AssertionError, match="do not come together"):
        write([batch(row(1), row(2, bucket=1), row(3))], job, TASK)

    assert files_of(job) == []


@pytest.mark.parametrize("prefix", ["", "file://"])
def test_a_base_path_is_a_local_path_or_a_uri(tmp_path: Path, prefix: str):
    folder = base_files.TableFolder.of(f"{prefix}{tmp_path}/")

    assert folder.path("a.parquet") == f"{tmp_path}/a.parquet"


ROWS = st.lists(st.tuples(st.integers(1, 5), st.integers(0, 4), st.booleans()), max_size=12)


@settings(max_examples=30)
@given(batches=st.lists(ROWS, max_size=4), ordered=st.booleans())
def test_every_row_of_every_batch_is_counted_once(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[tuple[int, int, bool]]], ordered: bool
):
    ordering = ["ts"] if ordered else []
    job = WriteJob(str(tmp_path_factory.mktemp("t")), FIRST, SCHEMA, FIELDS, (), ordering, Existing.MERGE, {})
    records = 0
    for number, rows in enumerate(batches):
        of_one_group = batch(*(row(id, ts, delete=delete) for id, ts, delete in rows))
        order = pa.array(range(len(rows)), pa.int64())
        job = replace(job, requested_time=f"202611211200000{number:02}")
        written = write([of_one_group.append_column(f"{columns.ORDER_PREFIX}0", order)], job, TASK)
        inserts = sum(stat.inserts for stat in written.stats)
        updates = sum(stat.updates for stat in written.stats)
        deletes = sum(stat.deletes for stat in written.stats)
        records += inserts - deletes

        assert written.rows == len(rows)
        assert written.rows == inserts + updates + deletes + written.superseded + written.unchanged
        assert written.superseded == len(rows) - len({id for id, *_ in rows})
        job = following(job, written)
        assert records == sum(len(rows_of(job, stat)) for stat in written.stats) or not written.stats


def test_neither_an_upsert_nor_an_insert_that_drops_chooses_between_rows_that_nothing_orders(job: WriteJob):
    differ = batch(row(1, name="a"), row(1, name="b"), row(2))

    for existing in (Existing.MERGE, Existing.DROP):
        with pytest.raises(
            errors.DuplicateKeys, match="1 rows differ from another row of the write with the same record key"
        ):
            write([differ], replace(job, existing=existing), TASK)
    assert files_of(job) == []
    assert write([batch(row(1), row(1))], job, TASK).superseded == 1
