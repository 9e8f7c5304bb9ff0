"""Compaction by the engine arrow, beside what PyArrow itself takes to read and rewrite the same base files.

The case ``arrow`` of ``make bench-services``. Each measurement is a process of its own, whose peak memory is a
figure too. ``BENCH_MB`` is the size of the table, 1,000 by default, of which a tenth is in log files.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeAlias

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import chronolake
from benchmarks import reporting, running
from benchmarks.reporting import Row
from chronolake.slices import arrow_types, base_files, columns, log_contents
from chronolake.slices.base_files import TableFolder
from chronolake.slices.log_contents import LogFormat
from chronolake_model.file_names import base_file_name, bucket_file_id, log_file_name
from chronolake_model.files import FileGroupName, WriteStat
from chronolake_model.instants import Instant
from chronolake_model.tables import BucketIndex
from chronolake_model.vocabulary import Action, TableType
from chronolake_spark import services

MEGABYTES = int(os.environ.get("BENCH_MB", "1000"))
Numbers: TypeAlias = "np.typing.NDArray[np.int64]"
TABLE = "bench.compacted"
GROUPS = 8
BYTES_OF_ROW = 87
"""About what a row takes in a file."""
DOUBLES = 10
LOG_SHARE = 10
TIMES_MAX = 1.2
MEMORY_MB_MAX = 1_000
_PARALLEL = 2
_SCHEMA = [
    chronolake.Field("id", "bigint"),
    chronolake.Field("ts", "bigint", nullable=False),
    *(chronolake.Field(f"d{number}", "double") for number in range(DOUBLES)),
    chronolake.Field("s", "string"),
]


def main() -> None:
    """Measure this case alone."""
    dsn = running.postgres()
    with running.server(dsn) as client:
        reporting.finish(compaction(dsn, client), f"{_PARALLEL} threads")


def compaction(_dsn: str, _client: httpx.Client) -> Iterator[Row]:
    """The figures, at the server that runs."""
    with tempfile.TemporaryDirectory(prefix="chronolake-bench-") as folder:
        yield from _compaction(Path(folder))


def _compaction(folder: Path) -> Iterator[Row]:
    with chronolake.connect(running.URL) as client:
        table = create(client, TABLE, folder)
        size = write(table)
        plain_seconds, plain_memory = _measured("pyarrow", table.definition.base_path)
        planned = planned_compaction(table)
        seconds, memory = _measured(TABLE, planned.requested_time)
        assert not any(of.log_files for of in table.snapshot().slices)
    yield Row("base files and log files", f"{size / 1e6:,.0f} MB in {GROUPS} file groups")
    plain = f"{plain_seconds:.1f} s, peak memory {plain_memory:,.0f} MB"
    yield Row("PyArrow reads and rewrites the base files", plain)
    times = seconds / plain_seconds
    yield reporting.at_most(f"compaction by the engine arrow: {seconds:.1f} s", times, TIMES_MAX, "x of that")
    yield reporting.at_most("its peak memory", memory, MEMORY_MB_MAX, "MB")


def create(client: chronolake.Client, name: str, folder: Path) -> chronolake.Table:
    """A merge-on-read table without files."""
    client.create_namespace("bench", if_not_exists=True)
    table = client.create_table(
        name,
        base_path=str(folder / name),
        schema=_SCHEMA,
        record_key_fields=["id"],
        ordering_field="ts",
        type=TableType.MERGE_ON_READ,
        index=BucketIndex(buckets=GROUPS),
        properties={"hudi.publish": "false"},
    )
    table.claim_storage()
    return table


def write(table: chronolake.Table) -> int:
    """Base files, and log files that change a tenth of the records; returns their bytes."""
    return write_files(table, 1, is_log=False) + write_files(table, LOG_SHARE, is_log=True)


def write_files(table: chronolake.Table, step: int, *, is_log: bool, rows: int | None = None) -> int:
    """One commit with a file of each file group, which has every ``step``-th record; returns their bytes.

    ``rows`` are those of a file group, ``rows_of_group()`` unless given.
    """
    size = 0
    with table.begin() as write:
        for group in range(GROUPS):
            ids = np.arange(group, (rows or rows_of_group()) * GROUPS, GROUPS * step)
            stat = _file(table, write.requested_time, group, ids, is_log=is_log)
            write.add(stat)
            size += stat.size_bytes
    return size


def rows_of_group() -> int:
    """The records of a file group."""
    return MEGABYTES * 1_000_000 * (LOG_SHARE - 1) // LOG_SHARE // BYTES_OF_ROW // GROUPS


def planned_compaction(table: chronolake.Table) -> Instant:
    """A plan for all file groups."""
    slices = table.snapshot().slices
    return table.plan(Action.COMPACTION, [FileGroupName(of.partition_path, of.file_id) for of in slices])


def _file(table: chronolake.Table, requested_time: str, group: int, ids: Numbers, *, is_log: bool) -> WriteStat:
    definition, file_id = table.definition, bucket_file_id(group)
    folder = TableFolder.of(definition.base_path)
    name = (log_file_name if is_log else base_file_name)(file_id, "0-0-0", requested_time)
    layout = arrow_types.file_layout(definition.schema)
    parts = (
        _records(layout, ids[first : first + base_files.ROW_GROUP_ROWS], requested_time, name)
        for first in range(0, len(ids), base_files.ROW_GROUP_ROWS)
    )
    if is_log:
        format_ = LogFormat.of_table(definition)
        assert format_ is not None
        size = log_contents.write(folder, name, requested_time, format_, pa.concat_tables(parts), [])
    else:
        size = base_files.write(folder, name, layout, parts)
    return WriteStat("", file_id, name, size, len(ids), has_field_ids=True)


def _records(layout: pa.Schema, ids: Numbers, requested_time: str, name: str) -> pa.Table:
    random = np.random.default_rng(int(ids[0]) + len(ids))
    count = len(ids)
    texts = pa.array(ids).cast(pa.string())
    values = {
        columns.COMMIT_TIME: pa.repeat(requested_time, count),
        columns.COMMIT_SEQNO: pc.binary_join_element_wise(requested_time, "0", texts, "_"),
        columns.RECORD_KEY: texts,
        columns.PARTITION_PATH: pa.repeat("", count),
        columns.FILE_NAME: pa.repeat(name, count),
        "id": ids,
        "ts": np.full(count, int(requested_time)),
        **{f"d{number}": random.random(count) for number in range(DOUBLES)},
        "s": pa.array(random.integers(0, 1_000_000, count)).cast(pa.string()),
    }
    return pa.table([values[field.name] for field in layout], schema=layout)


def _measured(task: str, argument: str) -> tuple[float, float]:
    """The seconds of a task in a process of its own, without its imports, and its peak memory in megabytes.

    The kernel's ``ru_maxrss`` would not do: a process begins with that of the one that has started it.
    """
    command = [sys.executable, "-m", "benchmarks.services_arrow", task, argument]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    seconds, kilobytes = output.split()
    return float(seconds), float(kilobytes) / 1_000


def _run(task: str, argument: str) -> None:
    """A task, in the process that is measured: ``pyarrow`` of a folder, or of a table the time of its plan."""
    started = time.perf_counter()
    if task == "pyarrow":
        with (
            tempfile.TemporaryDirectory(prefix="chronolake-bench-") as folder,
            ThreadPoolExecutor(_PARALLEL) as threads,
        ):
            list(
                threads.map(
                    lambda path: _rewrite(path, Path(folder, path.name)), Path(argument).glob("*.parquet")
                )
            )
    else:
        with chronolake.connect(running.URL) as client, ThreadPoolExecutor(_PARALLEL) as workers:
            services.compact(client.table(task), argument, workers=workers)
    seconds = time.perf_counter() - started
    [peak] = re.findall(r"^VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text("ascii"), re.MULTILINE)
    print(seconds, peak)


def _rewrite(source: Path, target: Path) -> None:
    with (
        pq.ParquetFile(source) as file,
        pq.ParquetWriter(target, file.schema_arrow, compression="zstd") as writer,
    ):
        for number in range(file.num_row_groups):
            writer.write_table(file.read_row_group(number))


if __name__ == "__main__":
    if sys.argv[1:]:
        _run(*sys.argv[1:])
    else:
        main()
