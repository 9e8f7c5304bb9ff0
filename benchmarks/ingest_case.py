"""A file of CSV from the start of ``chronolake ingest`` until its rows are visible, without Spark.

It is the case ``ingest`` of ``make bench-rows``.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

import chronolake
from benchmarks import reporting, running
from benchmarks.reporting import Row

SECONDS_MAX = 5.0
PROGRAM = "from chronolake_start import client; client()"


def figures(folder: Path, rows: int, rounds: int) -> Iterator[Row]:
    """The time of a load into a new table, at the server that ``running`` has started."""
    file = folder / "rows.csv"
    write_rows(file, rows)
    yield Row(f"size of a CSV file of {rows:,} rows of ten columns", f"{file.stat().st_size / 1e6:,.0f} MB")
    names = [f"bench.csv{number}" for number in range(rounds)]
    seconds = statistics.median([_seconds(file, name, folder, rows) for name in names])
    yield reporting.at_most("CSV file: from the start of the process to visible", seconds, SECONDS_MAX, "s")


def write_rows(file: Path, rows: int) -> None:
    """Write a file with numbers, decimals, dates, times, booleans and texts, some of them in quotes."""
    random = np.random.default_rng(1)
    ids = random.permutation(rows)
    seconds = np.datetime64("2026-01-01", "s") + random.integers(0, 300 * 86_400, rows)
    price, total = (_amounts(random.integers(1, 10**digits, rows)) for digits in (6, 8))
    columns = {
        "id": pa.array(ids),
        "customer": pc.binary_join_element_wise("customer", pa.array(ids // 5).cast(pa.string()), "-"),
        "country": pa.array(np.array(["DE", "FR", "US", "GB", "JP"])[random.integers(0, 5, rows)]),
        "day": pa.array(seconds.astype("datetime64[D]")),
        "at": pa.array(seconds),
        "quantity": pa.array(random.integers(1, 100, rows)),
        "price": price,
        "total": total,
        "paid": pa.array(random.integers(0, 2, rows) == 1),
        "note": pc.binary_join_element_wise("text", pa.array(ids % 1_000).cast(pa.string()), ", number "),
    }
    pyarrow.csv.write_csv(
        pa.table(columns), file, pyarrow.csv.WriteOptions(quoting_style="needed", quoting_header="none")
    )


def _amounts(cents: npt.NDArray[np.int64]) -> pa.Array:
    fractions = pc.utf8_lpad(pa.array(cents % 100).cast(pa.string()), 2, "0")
    return pc.binary_join_element_wise(pa.array(cents // 100).cast(pa.string()), fractions, ".")


def _seconds(file: Path, table: str, folder: Path, rows: int) -> float:
    """The seconds from the start of the process until it ends; then the rows are visible."""
    where = ["--url", running.URL, "--table", table, "--base-path", str(folder / table)]
    options = ["--source", str(file), "--key", "id", "--engine", "arrow"]
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", PROGRAM, "ingest", *where, *options], check=True, capture_output=True)
    seconds = time.perf_counter() - started
    with chronolake.connect(running.URL) as client:
        [commit] = client.table(table).instants()
    assert commit.summary is not None
    assert commit.summary.inserts == rows
    return seconds
