"""Tables with real files that are published, and a real Hudi reader: hudi-rs."""

from __future__ import annotations

import functools
import io
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import hudi
import msgspec
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq

import chronolake
from chronolake import errors
from chronolake_hudi import avro_schema, log_blocks, log_files
from chronolake_model.file_names import base_file_name, bucket_file_id, relative_path
from chronolake_model.meta_columns import COMMIT_TIME, META
from chronolake_model.problems import Problem
from chronolake_model.publication import Publication, PublicationLease
from chronolake_model.tables import Field
from chronolake_storage import opening
from chronolake_storage.files import Files
from tests.fix_stores import Store

PUBLISHES = ("--publisher-seconds", "0.05")
DEADLINE_SECONDS = 30.0
FILE_BYTES_MAX = 64 * 1024 * 1024
FIELDS = [
    Field("id", "bigint", nullable=False),
    Field("day", "string", nullable=False),
    Field("name", "string"),
]
_ARROW = {
    "bigint": pa.int64(),
    "int": pa.int32(),
    "string": pa.string(),
    "double": pa.float64(),
    "float": pa.float32(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "decimal(10,2)": pa.decimal128(10, 2),
}

Row = dict[str, Any]


def row(number: int, day: str = "a", name: str = "x") -> Row:
    """A row of a table with the columns ``FIELDS``."""
    return {"id": number, "day": day, "name": name}


class PublishedTable:
    """A table in a local folder or in a store: rows are written as base files, each in a bucket of a day."""

    has_field_ids = False
    """Whether files have field ids."""

    def __init__(self, client: chronolake.Client, place: Path | Store, **definition: Any) -> None:
        namespace = f"ns_{uuid.uuid4().hex[:12]}"
        client.create_namespace(namespace)
        name = f"{namespace}.orders"
        self.url = client.url
        fields = definition.pop("schema", FIELDS)
        self.store = Store(place.as_uri(), None) if isinstance(place, Path) else place
        base_path = str(place) if isinstance(place, Path) else place.base_path
        self.table = client.create_table(
            name,
            base_path=definition.pop("base_path", base_path),
            schema=fields,
            record_key_fields=definition.pop("record_key_fields", ["id"]),
            partition_fields=definition.pop("partition_fields", ["day"]),
            index=chronolake.BucketIndex(buckets=32),
            **definition,
        )

    @functools.cached_property
    def folder(self) -> Path:
        """The local folder of the table."""
        path = opening.local_path(self.store.base_path)
        assert path is not None
        return Path(path)

    @property
    def location(self) -> str:
        """Where readers find the table: a folder, or a URI."""
        return opening.local_path(self.store.base_path) or self.store.base_path

    def write(self, *rows: Row, bucket: int = 0, generation: int = 0, **begin: Any) -> str:
        """Complete an instant that writes base files with these rows, one for each day: its requested time."""
        with self.table.begin(**begin) as write:
            for stat in self.files(write.requested_time, rows, bucket, generation):
                write.add(stat)
        return write.requested_time

    def files(
        self,
        requested_time: str,
        rows: Sequence[Row],
        bucket: int = 0,
        generation: int = 0,
        partition: str | None = None,
    ) -> list[chronolake.WriteStat]:
        """Write the base files of an instant, or the one of a partition; nothing of them is recorded yet.

        Rows with a commit time keep it.
        """
        by_path: dict[str, list[Row]] = {} if partition is None else {partition: []}
        for row in rows:
            path = "/".join(f"{name}={row[name]}" for name in self.table.definition.partition_fields)
            by_path.setdefault(path if partition is None else partition, []).append(row)
        file_id = bucket_file_id(bucket, generation)
        name = base_file_name(file_id, "0-0-0", requested_time)
        return [self._file(requested_time, path, file_id, name, own) for path, own in sorted(by_path.items())]

    def _file(
        self, requested_time: str, partition: str, file_id: str, name: str, rows: Sequence[Row]
    ) -> chronolake.WriteStat:
        body = parquet(self._table(requested_time, partition, name, rows))
        self.put(relative_path(partition, name), body)
        return chronolake.WriteStat(
            partition_path=partition,
            file_id=file_id,
            file_name=name,
            size_bytes=len(body),
            records=len(rows),
            inserts=len(rows),
            has_field_ids=self.has_field_ids,
        )

    def _table(self, requested_time: str, partition: str, name: str, rows: Sequence[Row]) -> pa.Table:
        keys = [str(row["id"]) for row in rows]
        numbers = [f"{requested_time}_0_{number}" for number in range(len(rows))]
        commit_times = [row.get(COMMIT_TIME, requested_time) for row in rows]
        meta = [commit_times, numbers, keys, [partition] * len(rows), [name] * len(rows)]
        columns: dict[str, pa.Array] = {
            column: pa.array(values, pa.string()) for column, values in zip(META, meta, strict=True)
        }
        for field in self.table.definition.schema:
            columns[field.name] = pa.array([row.get(field.name) for row in rows], _ARROW[field.type])
        return pa.table(columns)

    def append(self, *rows: Row, bucket: int = 0, avro: bool = False) -> str:
        """Complete a delta commit that appends a log file with these rows, of one day: its requested time.

        The block of the file is Parquet or Avro.
        """
        with self.table.begin() as write:
            time, file_id = write.requested_time, bucket_file_id(bucket)
            partition = f"day={rows[0]['day']}"
            name = f".{file_id}_{time}.log.1_0-0-0"
            written = self._table(time, partition, name, rows)
            schema = avro_schema.encode(avro_schema.of_table("orders", self.table.definition.schema, meta=True))
            block = log_blocks.parquet_block(time, schema, parquet(written))
            if avro:
                block = log_blocks.avro_block(time, schema, written.to_pylist())
            encoded = log_files.encode(block)
            self.put(relative_path(partition, name), encoded)
            write.add(
                chronolake.WriteStat(
                    partition_path=partition,
                    file_id=file_id,
                    file_name=name,
                    size_bytes=len(encoded),
                    records=len(rows),
                    inserts=len(rows),
                )
            )
        return time

    def markers(self, stats: Sequence[chronolake.WriteStat]) -> list[chronolake.Marker]:
        """The markers of files."""
        kinds = chronolake.MarkerKind
        return [
            chronolake.Marker(
                stat.partition_path,
                stat.file_name,
                kinds.APPEND if stat.file_name.startswith(".") else kinds.CREATE,
            )
            for stat in stats
        ]

    def take_at_once(self, requested_time: str) -> None:
        """Take a plan inflight, without waiting for its publication."""
        self.post(f"instants/{requested_time}/inflight", {"writer": "w"})

    def publish(self) -> Publication:
        """Publish up to the end of the log, as a client."""
        return self.table.publish()

    def lease(self, publisher: str, lease_seconds: int = 60) -> PublicationLease:
        """Take the publisher's lease."""
        body = {"publisher": publisher, "lease_seconds": lease_seconds}
        return msgspec.json.decode(self.post("publication/lease", body), type=PublicationLease)

    def lease_later(self, publisher: str) -> PublicationLease:
        """Take the publisher's lease as soon as another's has ended."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while True:
            try:
                return self.lease(publisher)
            except errors.LeaseLive:
                assert time.monotonic() < deadline
                time.sleep(0.05)

    def report(self, lease: PublicationLease, version: int, *, paused: bool = False) -> Publication:
        """Report that the steps up to a version are executed, or that the next ones are refused."""
        body = {"publisher": lease.publisher, "epoch": lease.epoch, "version": version, "paused": paused}
        return msgspec.json.decode(self.post("publication", body), type=Publication)

    def expire_lease(self, dsn: str) -> None:
        """End the lease of a publisher that is dead."""
        with psycopg.connect(dsn) as connection:
            connection.execute("UPDATE chronolake.publication SET lease_expires_at = NULL")

    def wait_for(self, holds: Callable[[Publication], bool]) -> Publication:
        """Wait until the publication is in some state."""
        return wait_until(self.table, holds)

    def post(self, path: str, body: dict[str, object]) -> bytes:
        """Send a request about the table; raises its error."""
        answer = httpx.post(f"{self.url}/v1/tables/{self.table.name}/{path}", json=body)
        if not answer.is_success:
            raise errors.error_of(msgspec.json.decode(answer.content, type=Problem))
        return answer.content

    def published(self) -> Publication:
        """Wait until a server has published the whole log."""
        return wait_until_published(self.table)

    def rows(self) -> list[Row]:
        """The rows that Chronolake shows, from the files of its snapshot."""
        slices = self.table.snapshot().slices
        files = [part.base_file.path for part in slices if part.base_file is not None]
        return sorted_rows([row for path in files for row in self.base_rows(path)])

    def base_rows(self, path: str) -> list[Row]:
        """The rows of a base file."""
        rows: list[Row] = pq.ParquetFile(io.BytesIO(self.body(path))).read().to_pylist()
        return rows

    def put(self, path: str, body: bytes) -> None:
        """Write a file of the table."""
        files = self._files
        files.make_folder()
        files.put(path, body)

    def body(self, path: str) -> bytes:
        """The content of a file of the table."""
        stored = self._files.read(path, FILE_BYTES_MAX)
        assert stored is not None, path
        return stored.body

    @functools.cached_property
    def _files(self) -> Files:
        return self.store.files()

    def timeline(self) -> list[str]:
        """The names of the published timeline."""
        return sorted(path.name for path in (self.folder / ".hoodie" / "timeline").iterdir())

    def hudi_rows(self) -> list[Row]:
        """The rows that hudi-rs shows."""
        return read_by_hudi(self.location, self.store.hudi_options)


def parquet(table: pa.Table) -> bytes:
    """A table as the content of a Parquet file."""
    content = io.BytesIO()
    pq.write_table(table, content)
    return content.getvalue()


def rows_of(paths: Sequence[Path]) -> list[Row]:
    """The rows of base files, without the meta columns, by key."""
    rows = [row for path in paths for row in pq.ParquetFile(path).read().to_pylist()]
    return sorted_rows(rows)


def read_by_hudi(place: Path | str, options: Mapping[str, str] | None = None) -> list[Row]:
    """The rows that hudi-rs shows of a table."""
    table = hudi.HudiTable(str(place), dict(options or {}))
    return sorted_rows([row for batch in table.read() for row in batch.to_pylist()])


def sorted_rows(rows: Sequence[Row]) -> list[Row]:
    own = [{name: value for name, value in row.items() if name not in META} for row in rows]
    return sorted(own, key=lambda row: (row["id"], str(row)))


def wait_until(table: chronolake.Table, holds: Callable[[Publication], bool]) -> Publication:
    """Wait until the publication of a table is in some state."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not holds(publication := table.publication()):
        assert time.monotonic() < deadline, publication
        time.sleep(0.02)
    return publication


def wait_until_published(table: chronolake.Table) -> Publication:
    """Wait until a server has published the whole log."""
    return wait_until(table, lambda publication: publication.is_visible and not publication.lag_versions)
