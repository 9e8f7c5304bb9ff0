"""The cost of keeping history: bytes of a small commit in PostgreSQL and in the archive of the log.

``make bench-archive`` runs it; ``COMMITS=20000`` is the number of commits, ``INSTANTS=10000000`` that of the
archived instants to be read (``archived_instants.py``); ``CHECK=1`` exits 1 when a target is missed. A commit
is what Spark's upsert of one file sends: a begin, a marker, and a complete with one write stat.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import tempfile
import time
import uuid
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, LiteralString

import psycopg
import pyarrow.parquet as pq
import uvloop
from psycopg import sql

import chronolake
from benchmarks import archived_instants, archiving, reporting, running
from benchmarks.reporting import Row
from chronolake_metastore.archive import dropping, run_rows, verification, writing
from chronolake_metastore.archive.reading import ArchiveReader
from chronolake_metastore.archive.storage import ArchiveStorage
from chronolake_metastore.settings import Settings
from chronolake_model.columns import Field
from chronolake_model.file_names import base_file_name, bucket_file_id
from chronolake_model.files import ColumnStats, WriteStat
from chronolake_model.marker_names import Marker, MarkerKind
from chronolake_model.vocabulary import Operation
from chronolake_storage import opening

COMMITS: Final = int(os.environ.get("COMMITS", "20000"))
COMMIT_BYTES_MAX: Final = 1_500
ARCHIVED_BYTES_MAX: Final = 250
WRITERS: Final = 8
VACUUMS: Final = 10
"""Between equal numbers of commits: autovacuum comes when a fifth of the rows of a table is dead."""
COLUMNS: Final = {
    "order_id": "bigint",
    "customer": "string",
    "amount": "double",
    "is_paid": "boolean",
    "changed_at": "timestamp",
    "day": "string",
}
PAGE: Final = 100
PAGE_BYTES_MAX: Final = 4 << 20
READS: Final = 100
EMPTY_TABLE_BYTES_MAX: Final = 65_536
DAY: Final = "2026-11-28"
# The sizes of a heap, of its TOAST table with its index, and of each index.
_SIZES: Final[LiteralString] = """
    SELECT coalesce(partitioned.relname, c.relname), part.name, part.bytes
    FROM pg_class c
    LEFT JOIN pg_inherits i ON i.inhrelid = c.oid
    LEFT JOIN pg_class partitioned ON partitioned.oid = i.inhparent
    CROSS JOIN LATERAL (
        SELECT 'heap', pg_table_size(c.oid) - coalesce(pg_total_relation_size(nullif(c.reltoastrelid, 0)), 0)
        UNION ALL
        SELECT 'TOAST', pg_total_relation_size(nullif(c.reltoastrelid, 0))
        UNION ALL
        SELECT relname, pg_relation_size(indexrelid)
        FROM pg_index
        JOIN pg_class ON pg_class.oid = indexrelid
        WHERE indrelid = c.oid
    ) AS part (name, bytes)
    WHERE c.relnamespace = 'chronolake'::regnamespace AND c.relkind = 'r' AND part.bytes IS NOT NULL
"""
_COLUMNS: Final[LiteralString] = """
    SELECT attname FROM pg_attribute
    WHERE attrelid = ('chronolake.' || %s)::regclass AND attnum > 0 AND NOT attisdropped
    ORDER BY attnum
"""
Sizes = Mapping[tuple[str, str], int]


def main() -> None:
    """Measure, print the report, and fail when CHECK is set and a target is missed."""
    dsn = running.postgres()
    rows = itertools.chain(
        _measure(dsn),
        _measure_archive(dsn),
        archiving.measure(running.postgres()),  # The archive of the other has gone.
        archived_instants.measure(dsn),
        archived_instants.measure_keys(archived_instants.KEYS),
    )
    reporting.finish(rows, f"{COMMITS:,} commits by {WRITERS} writers")


def _measure(dsn: str) -> Iterator[Row]:
    with running.server(dsn):
        uvloop.run(create_table())
        before, seconds = sizes_of(dsn), 0.0
        for turn in range(VACUUMS):
            began = time.monotonic()
            uvloop.run(commit(range(turn * COMMITS // VACUUMS, (turn + 1) * COMMITS // VACUUMS)))
            seconds += time.monotonic() - began
            vacuum(dsn)
    yield Row("commits, without the vacuums", f"{COMMITS / seconds:,.1f}/s")
    grown = {key: (size - before[key]) / COMMITS for key, size in sizes_of(dsn).items()}
    by_table: dict[str, float] = defaultdict(float)
    for (table, _), size in grown.items():
        by_table[table] += size
    for table, of_table in sorted(by_table.items(), key=lambda item: -item[1]):
        if of_table * COMMITS <= EMPTY_TABLE_BYTES_MAX:
            continue
        yield Row(table, f"{of_table:,.0f} bytes/commit")
        for (of, part), size in grown.items():
            if of == table and size >= 1:
                yield Row(f"  {part}", f"{size:,.0f}")
        for column, of_column in _columns(dsn, table):
            yield Row(f"    {column}", f"{of_column:,.1f}")
    yield reporting.at_most("a small commit in PostgreSQL", sum(by_table.values()), COMMIT_BYTES_MAX, "bytes")


def _measure_archive(dsn: str) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        storage = ArchiveStorage(opening.open_files(folder))
        began = time.monotonic()
        asyncio.run(writing.write(Settings(dsn=dsn, role="chronolake_auditor"), storage))
        seconds = time.monotonic() - began
        report = asyncio.run(verification.verify(storage)).report
        assert report.holds
        files = [path for path in Path(folder).rglob("*") if path.is_file()]
        for path in sorted(files):
            yield Row(f"archive: {path.name}", f"{path.stat().st_size / COMMITS:,.1f} bytes/commit")
            if path.suffix == ".parquet":
                yield from _stored_columns(path)
        yield Row("archiving, with reading back", f"{report.events / seconds:,.0f} events/s")
        yield Row("archive verify", f"{report.events / report.seconds:,.0f} events/s")
        total = sum(path.stat().st_size for path in files) / COMMITS
        yield reporting.at_most("a small commit in the archive", total, ARCHIVED_BYTES_MAX, "bytes")
        yield from _measure_reading(storage)
        before = sum(sizes_of(dsn).values())
        began = time.monotonic()
        asyncio.run(dropping.drop(Settings(dsn=dsn), storage, 0))
        yield Row("archive drop, with its proof", f"{time.monotonic() - began:,.1f} s")
        freed = (before - sum(sizes_of(dsn).values())) / COMMITS
        yield Row("of a small commit, bytes that leave PostgreSQL with its answers", f"{freed:,.0f} bytes")


def _measure_reading(storage: ArchiveStorage) -> Iterator[Row]:
    """Reads of the archive; each kind begins with a reader that has read nothing."""
    run = storage.manifest().runs[-1]
    tables = storage.run(run).events
    table = max(tables, key=lambda span: span.last)
    versions = random.Random(0).choices(range(table.last - PAGE), k=READS)

    def page(reader: ArchiveReader, version: int) -> None:
        reader.events_of_table(table.chain_id, version, table.last, PAGE, PAGE_BYTES_MAX)

    for name, repeats in (("the first page of a table", 1), ("a page of a table at a random version", READS)):
        reader = ArchiveReader(storage)
        began = time.monotonic()
        for version in versions[:repeats]:
            page(reader, version)
        yield Row(name, f"{(time.monotonic() - began) / repeats * 1_000:,.1f} ms")
    reader, place, events = ArchiveReader(storage), (0, 0), 0
    began = time.monotonic()
    while found := reader.events_in_order(place, run.end, 1_000, PAGE_BYTES_MAX).events:
        place, events = (found[-1].event.transaction_id, found[-1].position), events + len(found)
    yield Row(
        "the log across tables, from its beginning", f"{events / (time.monotonic() - began):,.0f} events/s"
    )
    keys = [row[2] for row in run_rows.read(storage, run, storage.run(run), "outcome")]
    for name, asked in (
        ("an archived key", random.Random(0).choices(keys, k=READS)),
        ("a key that is not archived", [str(uuid.uuid4()) for _ in range(READS * 100)]),
    ):
        reader = ArchiveReader(storage)
        reader.refresh()
        began = time.monotonic()
        for key in asked:
            assert (reader.outcome(key) is None) != (name == "an archived key")
        yield Row(name, f"{(time.monotonic() - began) / len(asked) * 1_000_000:,.1f} us")


def _stored_columns(path: Path) -> Iterator[Row]:
    """Bytes per commit of each column of a file, where there are any."""
    metadata = pq.ParquetFile(path).metadata
    for column in range(metadata.num_columns):
        chunks = [metadata.row_group(group).column(column) for group in range(metadata.num_row_groups)]
        size = sum(chunk.total_compressed_size for chunk in chunks) / COMMITS
        if size >= 1:
            yield Row(f"    {chunks[0].path_in_schema}", f"{size:,.1f}")


def vacuum(dsn: str) -> None:
    """Free the place of dead rows."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("VACUUM (ANALYZE)")


def sizes_of(dsn: str) -> Sizes:
    """Bytes by table and part."""
    sizes: dict[tuple[str, str], int] = defaultdict(int)
    with psycopg.connect(dsn) as connection:
        for table, part, size in connection.execute(_SIZES):
            sizes[table, part] += size
    return sizes


def _columns(dsn: str, table: str) -> Iterator[tuple[str, float]]:
    """Bytes per commit of the values of each column, without alignment, where there are any."""
    with psycopg.connect(dsn) as connection:
        for (name,) in connection.execute(_COLUMNS, [table]).fetchall():
            query = sql.SQL("SELECT coalesce(sum(pg_column_size({})), 0) FROM {}").format(
                sql.Identifier(name), sql.Identifier("chronolake", table)
            )
            [[size]] = connection.execute(query).fetchall()
            if size:
                yield name, int(size) / COMMITS


async def create_table(base_path: str = "/bench/archive", buckets: int = WRITERS, **properties: str) -> None:
    """Create the table of the commits."""
    async with chronolake.connect_async(running.URL) as client:
        await client.create_namespace("bench")
        await client.create_table(
            "bench.archive",
            base_path=base_path,
            properties={name.replace("_", "."): value for name, value in properties.items()},
            schema=[Field(name, data_type) for name, data_type in COLUMNS.items()],
            record_key_fields=["order_id"],
            partition_fields=["day"],
            index=chronolake.BucketIndex(buckets=buckets),
        )


async def commit(commits: range) -> None:
    """Write the commits with these numbers."""
    numbers = iter(commits)
    async with chronolake.connect_async(running.URL) as client:
        table = await client.table("bench.archive")

        async def write(bucket: int) -> None:
            # The next number of all writers, so that none of them is the last.
            for number in numbers:
                write = await table.begin(operation=Operation.UPSERT)
                written = stat(bucket, number, write.requested_time)
                await write.mark(Marker(written.partition_path, written.file_name, MarkerKind.MERGE))
                await write.complete([written])

        async with asyncio.TaskGroup() as group:
            for bucket in range(WRITERS):
                group.create_task(write(bucket))


def stat(bucket: int, number: int, requested_time: str) -> WriteStat:
    """A base file of 50,000 records with stats of all columns, as ``StatsCollector`` makes them."""
    file_id = bucket_file_id(bucket)
    return WriteStat(
        f"day={DAY}",
        file_id,
        base_file_name(file_id, f"{bucket}-{number % 1_000}-{number}", requested_time),
        size_bytes=1_843_217 + number,
        records=50_000 + number,
        inserts=20,
        updates=480,
        column_stats=[
            ColumnStats(1, 1_000_000 + number, 9_000_000 + number, 0),
            ColumnStats(2, f"customer-{number:07d}", f"customer-{9_000_000 + number % 900_000}", 0),
            ColumnStats(3, 0.05 + number, 9_999.95 + number, number % 100),
            ColumnStats(4, min=False, max=True, nulls=0),
            ColumnStats(5, "2026-11-28T00:00:07.123456Z", "2026-11-28T23:59:58.654321Z", 0),
            ColumnStats(6, DAY, DAY, 0),
        ],
        has_field_ids=True,
    )


if __name__ == "__main__":
    main()
