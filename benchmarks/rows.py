"""Rows by the client without Spark: scans beside PyArrow, upserts beside other formats, a load of CSV.

``make bench-rows``. ``ROWS=500000`` makes a smaller table; ``CASES`` are ``scans``, ``upserts`` and ``ingest``;
``CHECK=1`` exits 1 when a target is missed. A tenth of the records are in log files for the last scans.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds

import chronolake
from benchmarks import ingest_case, reporting, rows_upserts, running, services_arrow
from benchmarks.reporting import Row

ROWS = int(os.environ.get("ROWS", "5000000"))
ROUNDS = int(os.environ.get("ROUNDS", "5"))
CASES = os.environ.get("CASES", "scans,upserts,ingest").split(",")
SCAN_TIMES_MAX, MERGED_TIMES_MAX = 1.1, 2.0
HEAD_SECONDS_MAX = 0.5
TABLE = "bench.rows"


def main() -> None:
    """Measure, print the report, and fail when CHECK is set and a target is missed."""
    with tempfile.TemporaryDirectory(prefix="chronolake-bench-") as folder, running.server(running.postgres()):
        reporting.finish(_measure(Path(folder)), f"{ROWS:,} rows, {ROUNDS} rounds, median")


def _measure(folder: Path) -> Iterator[Row]:
    if "scans" in CASES:
        yield from _scans_and_head(folder)
    if "upserts" in CASES:
        yield from rows_upserts.figures(folder, ROWS, ROUNDS)
    if "ingest" in CASES:
        (folder / "ingest").mkdir()
        yield from ingest_case.figures(folder / "ingest", ROWS // 5, ROUNDS)


def _scans_and_head(folder: Path) -> Iterator[Row]:
    rows_of_group = ROWS // services_arrow.GROUPS
    with chronolake.connect(running.URL) as client:
        table = services_arrow.create(client, TABLE, folder)
        services_arrow.write_files(table, 1, is_log=False, rows=rows_of_group)
        dataset = _dataset(table)
        assert _rows_in(table.to_batches()) == dataset.count_rows()
        yield from _scans("base files", table, dataset, SCAN_TIMES_MAX)
        _seconds_to_first_byte()  # This one compiles the modules, which an installation does.
        head = statistics.median([_seconds_to_first_byte() for _ in range(ROUNDS)])
        yield reporting.at_most("head: first row after the start of the process", head, HEAD_SECONDS_MAX, "s")
        services_arrow.write_files(table, services_arrow.LOG_SHARE, is_log=True, rows=rows_of_group)
        yield from _scans("a tenth in log files", table, dataset, MERGED_TIMES_MAX)


def _scans(name: str, table: chronolake.Table, dataset: ds.Dataset, times_max: float) -> Iterator[Row]:
    columns = [field.name for field in table.definition.schema]
    own, plain = _in_turns(table.to_batches, lambda: dataset.to_batches(columns=columns))
    yield Row(f"{name}: pyarrow.dataset over the base files", f"{plain:.2f} s")
    yield reporting.at_most(f"{name}: scan, {own:.2f} s", own / plain, times_max, "x of that")
    two = ["id", "d0"]
    own, plain = _in_turns(lambda: table.to_batches(columns=two), lambda: dataset.to_batches(columns=two))
    figure = f"{own:.2f} of {plain:.2f} s = {own / plain:.2f} x"
    yield Row(f"{name}: two columns, against pyarrow.dataset", figure)


def _in_turns(*scans: Callable[[], Iterable[pa.RecordBatch]]) -> list[float]:
    """The median of the seconds of each scan. They take turns, because the speed of a machine changes."""
    seconds: list[list[float]] = [[] for _ in scans]
    for _ in range(ROUNDS):
        for number, scan in enumerate(scans):
            started = time.perf_counter()
            _rows_in(scan())
            seconds[number].append(time.perf_counter() - started)
    return [statistics.median(of_scan) for of_scan in seconds]


def _rows_in(batches: Iterable[pa.RecordBatch]) -> int:
    return sum(len(batch) for batch in batches)


def _dataset(table: chronolake.Table) -> ds.Dataset:
    base_path = table.definition.base_path
    files = [f"{base_path}/{slice_.base_file.path}" for slice_ in table.snapshot().slices if slice_.base_file]
    return ds.dataset(files)


def _seconds_to_first_byte() -> float:
    program = "from chronolake_start import client; client()"
    command = [sys.executable, "-c", program, "--url", running.URL, "head", TABLE, "--output", "csv"]
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    started = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        assert process.stdout.read(1)
        seconds = time.perf_counter() - started
        process.stdout.read()
    assert process.returncode == 0
    return seconds


if __name__ == "__main__":
    main()
