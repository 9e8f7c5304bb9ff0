"""Markers over REST: one by one, in lists, and deleted; beside files as markers on local storage.

``make bench-markers``; ``MARKERS=20000`` makes it shorter, ``SECONDS=10`` runs the single ones for longer, in
``ROUNDS`` slices that take turns with the empty request; ``CHECK=1`` exits 1 when a target is missed.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import msgspec

from benchmarks import reporting, running
from benchmarks.marker_load import MARKERS_OF_PARTITION, Figures
from benchmarks.reporting import Row
from chronolake_model.file_names import base_file_name, bucket_file_id

MARKERS = int(os.environ.get("MARKERS", "165000"))
SECONDS = float(os.environ.get("SECONDS", "5"))
ROUNDS = int(os.environ.get("ROUNDS", "3"))
CONNECTIONS = 64
LIST = 500
LISTS_AT_A_TIME = 8
TABLE = "bench.marked"
PROGRAM = ("-m", "benchmarks.empty_post")


def main() -> None:
    """Measure, print the report, and fail when CHECK is set and a target is missed."""
    remark = f"{MARKERS:,} markers, single ones for {SECONDS} s in {ROUNDS} slices"
    reporting.finish(_measure(running.postgres()), remark)


def _measure(dsn: str) -> Iterator[Row]:
    with running.server(dsn, PROGRAM) as client:
        client.post("/v1/namespaces", json={"name": "bench"}).raise_for_status()
        running.make_table(client, TABLE)
        yield from _single(client)
        yield from _lists(client)
    yield from _files()


def _single(client: httpx.Client) -> Iterator[Row]:
    empty: list[Figures] = []
    bare: list[Figures] = []
    figures_of_lists: list[Figures] = []
    single: list[Figures] = []
    for _ in range(ROUNDS):
        bare.append(_load("/v1/empty", _begin(client), 1, f"{SECONDS / ROUNDS}s"))
        figures_of_lists.append(_load("/v1/caller", _begin(client), 1, f"{SECONDS / ROUNDS}s"))
        instant = _begin(client)
        empty.append(_load(f"/v1/tables/{TABLE}/instants/{instant}/empty", instant, 1, f"{SECONDS / ROUNDS}s"))
        single.append(_load(_markers(instant), instant, 1, f"{SECONDS / ROUNDS}s"))
    baseline = statistics.mean(figures.requests_per_second for figures in empty)
    rate = statistics.mean(figures.requests_per_second for figures in single)
    nothing = statistics.mean(figures.requests_per_second for figures in bare)
    who = statistics.mean(figures.requests_per_second for figures in figures_of_lists)
    yield Row(f"an empty POST, {CONNECTIONS} connections", f"{nothing:,.0f} requests/s")
    yield Row("one with the identity of the caller", f"{who:,.0f} requests/s")
    yield Row("one that reads its body too, and answers", f"{baseline:,.0f} requests/s")
    yield Row("one marker a request, against the first", f"{rate / nothing:.2f} x")
    yield Row("one marker a request, against the second", f"{rate / who:.2f} x")
    yield reporting.ratio("one marker a request, against the third", rate, baseline, 0.5, "markers/s")
    yield _latency("one marker a request", single[-1])
    yield reporting.at_most(
        "refused or failed", sum(figures.failures for figures in (*empty, *single)), 0, "requests"
    )


def _lists(client: httpx.Client) -> Iterator[Row]:
    instant = _begin(client)
    figures = _load(_markers(instant), instant, LIST, str(MARKERS), LISTS_AT_A_TIME)
    name = f"{MARKERS:,} markers of one instant in lists of {LIST}, {LISTS_AT_A_TIME} connections"
    yield reporting.at_least(name, figures.markers_per_second, 50_000, "markers/s")
    yield _latency(f"a list of {LIST}", figures)
    # A rollback with named files releases the markers of its target at once.
    undo = {"writer": "w", "files_to_delete": [base_file_name(bucket_file_id(0), "0-0-0", instant)]}
    client.post(f"/v1/tables/{TABLE}/instants/{instant}/rollback", json=undo).raise_for_status()
    with running.LongestRequest(_begin) as longest_begin:
        started = time.perf_counter()
        deleted = client.delete(_markers(instant)).raise_for_status().json()["deleted"]
        seconds = time.perf_counter() - started
    yield reporting.at_most(f"deleting {deleted:,} markers", seconds, 2, "s")
    yield Row("the longest begin on the table meanwhile", f"{longest_begin.seconds * 1_000:,.0f} ms")


def _files() -> Iterator[Row]:
    """Direct markers: one empty file each, made and removed one after the other."""
    with tempfile.TemporaryDirectory(prefix="chronolake-bench-") as folder:
        for partition in range(-(-MARKERS // MARKERS_OF_PARTITION)):
            Path(folder, f"day={partition:04}").mkdir()
        names = [
            f"{folder}/day={number // MARKERS_OF_PARTITION:04}/{number:08x}-0.parquet.marker.CREATE"
            for number in range(MARKERS)
        ]
        started = time.perf_counter()
        for name in names:
            os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        made = time.perf_counter()
        for name in names:
            os.unlink(name)
        removed = time.perf_counter()
    yield Row("direct: a file each, local, not flushed", f"{MARKERS / (made - started):,.0f} markers/s")
    yield Row(f"direct: deleting {MARKERS:,} files", f"{removed - made:,.2f} s")


def _begin(client: httpx.Client) -> str:
    begun = client.post(f"/v1/tables/{TABLE}/instants", json={"writer": "w", "lease_seconds": 3_600})
    requested_time: str = begun.raise_for_status().json()["requested_time"]
    return requested_time


def _markers(instant: str) -> str:
    return f"/v1/tables/{TABLE}/instants/{instant}/markers"


def _load(path: str, instant: str, size: int, total: str, connections: int = CONNECTIONS) -> Figures:
    arguments = [path, instant, str(running.PORT), str(connections), str(size), total]
    command = [sys.executable, "-m", "benchmarks.marker_load", *arguments]
    return msgspec.json.decode(subprocess.run(command, check=True, capture_output=True).stdout, type=Figures)


def _latency(name: str, figures: Figures) -> Row:
    return Row(
        f"{name}: latency", f"median {figures.latency_ms_median:,.1f} ms, p99 {figures.latency_ms_p99:,.1f} ms"
    )


if __name__ == "__main__":
    main()
