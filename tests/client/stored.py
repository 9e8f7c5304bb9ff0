"""Tables whose files are really there, and markers of their files."""

from __future__ import annotations

import pyarrow as pa

import chronolake
from chronolake import Marker, MarkerKind, MarkersType, OrphanReason, WriteStat
from chronolake.slices import base_files, layouts
from chronolake_model.file_names import base_file_name, bucket_file_id, write_token
from chronolake_model.markers import DeletedFile
from chronolake_model.tables import SchemaField
from tests.fix_stores import Store

CREATE, MERGE, APPEND = MarkerKind
FIELDS = [SchemaField("id", "bigint", field_id=1), SchemaField("name", "string", field_id=2)]
ROWS = pa.table({"id": [1, 2], "name": ["a", "b"]})


class Stored:
    """A table whose files are really there."""

    def __init__(self, table: chronolake.Table, store: Store) -> None:
        self.table = table
        self.storage = store.open()
        self._folder = base_files.TableFolder.of(store.base_path, store.options)

    def write_file(self, requested_time: str, bucket: int, attempt: int = 0) -> WriteStat:
        """Write a base file as Spark's executors do."""
        name = base_file_name(bucket_file_id(bucket), write_token(bucket, 1, attempt), requested_time)
        path = f"name=1/{name}"
        schema = layouts.file_schema(ROWS.schema, FIELDS)
        rows = pa.table([pa.nulls(2, pa.string())] * 5 + ROWS.columns, schema=schema)
        size = base_files.write(self._folder, path, schema, [rows])
        return WriteStat(
            "name=1", bucket_file_id(bucket), name, size_bytes=size, records=2, inserts=2, has_field_ids=True
        )

    def publish(self, *buckets: int) -> chronolake.Instant:
        with self.table.begin() as write:
            for bucket in buckets:
                write.add(self.write_file(write.requested_time, bucket))
        return write.instant

    def orphans(self) -> list[tuple[str, OrphanReason]]:
        """The path of each orphan in storage, and why it is one."""
        return [(orphan.path, orphan.reason) for orphan in self.table.orphans().orphans]


def base(write: chronolake.Write | chronolake.AsyncWrite, bucket: int, partition: str = "name=1") -> Marker:
    name = base_file_name(bucket_file_id(bucket), write_token(bucket, 1, 0), write.requested_time)
    return Marker(partition, name, CREATE)


def log(write: chronolake.Write, bucket: int) -> Marker:
    return Marker("name=2/a b", f".{bucket_file_id(bucket)}_{write.requested_time}.log.1_0-1-0", APPEND)


def written(
    stored: Stored, write: chronolake.Write | chronolake.AsyncWrite, bucket: int, attempt: int
) -> WriteStat:
    """A file that an attempt has marked and written."""
    stat = stored.write_file(write.requested_time, bucket, attempt)
    stored.table.markers_of(
        write.requested_time, markers=write_markers(write), writer=write.instant.writer
    ).create([Marker(stat.partition_path, stat.file_name, base(write, 0).kind)])
    return stat


def write_markers(write: chronolake.Write | chronolake.AsyncWrite) -> MarkersType:
    plan = write.instant.plan
    return MarkersType.DIRECT if plan is not None and plan.direct_markers else MarkersType.SERVER


def file_of(stat: WriteStat) -> DeletedFile:
    return DeletedFile(stat.partition_path, stat.file_name)


def in_storage(stored: Stored) -> set[str]:
    return {file.path for file in stored.storage.listing()}
