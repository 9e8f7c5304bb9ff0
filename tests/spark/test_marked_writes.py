"""The markers and files of a task, in a local folder and in a bucket, with a real server and without a JVM."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace

import pyarrow as pa
import pytest

import chronolake
from chronolake import Field, Marker, MarkerKind, MarkersType, errors
from chronolake._location import owner_of
from chronolake.slices import base_files, columns, layouts, slice_reader, stored_slices
from chronolake.slices.arrow_types import file_layout
from chronolake.slices.log_contents import LogFormat
from chronolake.slices.merge import Existing
from chronolake.slices.slice_reader import SliceReader
from chronolake.slices.stored_slices import StoredSlice
from chronolake.writing import bucket_writer
from chronolake.writing.bucket_writer import TaskAttempt, WriteJob
from chronolake.writing.stored_groups import GroupNumber
from chronolake_model.file_names import bucket_file_id, bucket_of
from chronolake_model.files import WriteStat
from chronolake_model.tables import SchemaField
from chronolake_model.vocabulary import TableType
from chronolake_spark.errors import AttemptGivenUp, decoded, encoded
from tests.fix_stores import Store
from tests.spark.definitions import slices_after

SCHEMA = pa.schema([("id", pa.int64())])
FIELDS = [SchemaField("id", "bigint", field_id=1)]
CREATE, MERGE, _ = MarkerKind
TASK = TaskAttempt(partition=0, write_token="0-1-2")
_NUMBERS = itertools.count(1)


@pytest.fixture
def new_table(shared_server_url: str, store: Store) -> Iterator[Callable[..., chronolake.Table]]:
    """Makes a table in the store; keywords are properties."""
    with chronolake.connect(shared_server_url, storage_options=store.options) as client:
        client.create_namespace("marked", if_not_exists=True)
        yield lambda type=TableType.COPY_ON_WRITE, **properties: client.create_table(
            f"marked.t{next(_NUMBERS)}",
            base_path=store.base_path,
            schema=[Field("id", "bigint")],
            record_key_fields=["id"],
            partition_fields=[],
            type=type,
            properties=properties,
        )


@pytest.fixture
def table(new_table: Callable[..., chronolake.Table]) -> chronolake.Table:
    """A table whose storage is claimed, as the driver does before tasks start."""
    table = new_table()
    table.claim_storage()
    return table


def batch(bucket: int, *ids: int, delete: bool = False) -> pa.RecordBatch:
    count = len(ids)
    return pa.RecordBatch.from_pydict(
        {
            columns.RECORD_KEY: [str(id) for id in ids],
            columns.PARTITION_PATH: [""] * count,
            columns.BUCKET: pa.array([bucket] * count, pa.int32()),
            columns.DELETE: [delete] * count,
            "id": list(ids),
        }
    )


def job_of(table: chronolake.Table, write: chronolake.Write, *stored: WriteStat) -> WriteJob:
    return WriteJob(
        base_path=table.definition.base_path,
        requested_time=write.requested_time,
        schema=SCHEMA,
        fields=FIELDS,
        required=(),
        ordering_fields=(),
        existing=Existing.MERGE,
        stored=slices_after({}, stored),
        storage_options=table.storage_options,
        owner=owner_of(table.definition),
    )


def markers_of(table: chronolake.Table, write: chronolake.Write) -> chronolake.Markers:
    return table.markers_of(write.requested_time, writer=write.instant.writer)


def stored_in(store: Store) -> list[str]:
    return sorted(file.file_name for file in store.open().listing())


@pytest.mark.parametrize("type", MarkersType)
def test_each_file_has_its_marker_of_its_kind(
    new_table: Callable[..., chronolake.Table], store: Store, type: MarkersType
) -> None:
    table = new_table(**{"markers.type": type})
    first, second = table.begin(), table.begin()
    both = [batch(0, 1, 2), batch(1, 3)]
    first_stat, second_stat = bucket_writer.write(
        both, job_of(table, first), TASK, markers_of(table, first)
    ).stats
    [merged] = bucket_writer.write(
        [batch(0, 2, 5)], job_of(table, second, first_stat), TASK, markers_of(table, second)
    ).stats

    wanted = [Marker("", first_stat.file_name, CREATE), Marker("", second_stat.file_name, CREATE)]
    assert list(table.markers(first.requested_time)) == wanted
    assert list(table.markers(second.requested_time)) == [Marker("", merged.file_name, MERGE)]
    assert stored_in(store) == sorted([first_stat.file_name, second_stat.file_name, merged.file_name])
    assert merged.records == 3


def test_executors_read_the_written_records(table: chronolake.Table, store: Store) -> None:
    first, second = table.begin(), table.begin()
    [stat] = bucket_writer.write([batch(0, 1, 2)], job_of(table, first), TASK, markers_of(table, first)).stats
    job = job_of(table, second, stat)
    [two] = bucket_writer.write([batch(0, 1, delete=True)], job, TASK, markers_of(table, second)).stats
    folder = base_files.TableFolder.of(store.base_path, store.options)
    slices = SliceReader(folder, layouts.file_schema(SCHEMA, FIELDS), {}, ())
    reader = slice_reader.ExecutorReader(slices)
    [before], [after] = (slices_after({}, [of]).values() for of in (stat, two))

    rows = reader.rows_of([before.to_json()])
    gone = reader.deleted_rows([(before.to_json(), after.to_json())])

    assert [id for rows_ in rows for id in rows_["id"].to_pylist()] == [1, 2]
    assert [id for rows_ in gone for id in rows_["id"].to_pylist()] == [1]


def test_executors_append_log_files_and_merge_them(
    new_table: Callable[..., chronolake.Table], store: Store
) -> None:
    table = new_table(TableType.MERGE_ON_READ)
    table.claim_storage()
    log_format = LogFormat.of(table.name, FIELDS, has_avro_blocks=False)
    slices: dict[GroupNumber, StoredSlice] = {}
    batches = [batch(0, 1, 2), batch(0, 3), batch(0, 1, delete=True)]
    for number, rows in enumerate(batches):
        write = table.begin()
        job = replace(job_of(table, write), stored=slices, log_format=log_format, versions={1: FIELDS})
        stats = bucket_writer.write([rows], job, TASK, markers_of(table, write)).stats
        kinds = [marker.kind for marker in table.markers(write.requested_time)]
        assert kinds == [MarkerKind.APPEND if number else CREATE]
        slices = slices_after(slices, stats)
        write.complete(stats)

    [stored] = slices.values()
    assert stored_slices.of(table.snapshot().slices[0]).logs == stored.logs
    reader = SliceReader(
        base_files.TableFolder.of(store.base_path, store.options), file_layout(FIELDS), {1: FIELDS}, ()
    )
    parts = slice_reader.ExecutorReader(reader).rows_of([stored.to_json()])
    assert [id for part in parts for id in part["id"].to_pylist()] == [2, 3]


def test_a_writer_that_was_rolled_back_is_refused_its_marker_and_writes_nothing(
    table: chronolake.Table, store: Store
) -> None:
    write = table.begin()
    write.rollback("too slow")

    with pytest.raises(errors.InstantRolledBack, match="too slow"):
        bucket_writer.write([batch(0, 1)], job_of(table, write), TASK, markers_of(table, write))
    assert stored_in(store) == []


def test_a_file_that_fails_is_deleted_and_its_marker_stays(table: chronolake.Table, store: Store) -> None:
    write = table.begin()

    def broken() -> Iterator[pa.RecordBatch]:
        yield batch(0, 1)
        yield batch(1, 2)
        raise ConnectionError("the shuffle is gone")

    with pytest.raises(ConnectionError):
        bucket_writer.write(broken(), job_of(table, write), TASK, markers_of(table, write))

    assert stored_in(store) == []
    assert [bucket_of(marker.file_name[:38]) for marker in table.markers(write.requested_time)] == [0, 1]


def test_a_file_finished_after_its_attempt_was_given_up_is_deleted_by_its_task(
    table: chronolake.Table, store: Store
) -> None:
    write = table.begin()

    def given_up() -> Iterator[pa.RecordBatch]:
        yield batch(0, 1)
        yield batch(1, 2)
        # By the committer, when another attempt of the task has won.
        write.report_deletions(write.left_over())

    with pytest.raises(AttemptGivenUp, match=bucket_file_id(1)):
        bucket_writer.write(given_up(), job_of(table, write), TASK, markers_of(table, write))
    assert stored_in(store) == []


@pytest.mark.parametrize(
    ("existing", "rows"),
    [(Existing.DROP, batch(0, 1)), (Existing.MERGE, batch(1, 7, delete=True))],
    ids=["an insert of what is there", "a delete of what is not there"],
)
def test_an_unchanged_file_group_is_not_marked(
    table: chronolake.Table, existing: Existing, rows: pa.RecordBatch
) -> None:
    first, second = table.begin(), table.begin()
    [stat] = bucket_writer.write([batch(0, 1)], job_of(table, first), TASK, markers_of(table, first)).stats
    job = replace(job_of(table, second, stat), existing=existing)
    [new] = bucket_writer.write([rows, batch(2, 8)], job, TASK, markers_of(table, second)).stats

    assert list(table.markers(second.requested_time)) == [Marker("", new.file_name, CREATE)]


def test_a_failure_of_the_storage_crosses_to_the_caller_as_itself() -> None:
    failure = decoded(f"Traceback: {encoded(errors.StorageFailed('s3://lake: 503 SlowDown'))}")

    assert isinstance(failure, errors.StorageFailed)
    assert str(failure) == "s3://lake: 503 SlowDown"
