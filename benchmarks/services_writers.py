"""Other writers while plans are made and executed: the case ``writers`` of ``make bench-services``.

The executor has the lowest priority, for it would run on another machine: the figure is what the server and its
database take.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import httpx

import chronolake
from benchmarks import reporting, running, services_arrow
from benchmarks.reporting import Row
from chronolake_model.instants import Instant

WRITERS: Final = 16
SECONDS: Final = float(os.environ.get("SECONDS", "10"))
TIMES_MAX: Final = 1.5
_TABLES: Final = "bench.written"


def writers(planned: str) -> Iterator[Row]:
    """Cycles of writers before, and while ``planned`` is planned repeatedly and another table is compacted."""
    with (
        tempfile.TemporaryDirectory(prefix="chronolake-bench-") as folder,
        chronolake.connect(running.URL) as client,
    ):
        table = services_arrow.create(client, "bench.executed", Path(folder))
        services_arrow.write(table)
        with httpx.Client(base_url=running.URL, timeout=600) as http:
            running.make_table(http, f"{_TABLES}0")
            before = running.load(_TABLES, 1, WRITERS, SECONDS)
            plan = services_arrow.planned_compaction(table)
            planning, executor = _repeated(lambda: _plan(http, planned)), _executor(plan)
            with executor, planning as rounds:
                beside = running.load(_TABLES, 1, WRITERS, SECONDS)
    yield Row(
        f"{WRITERS} writers of one table, before",
        f"{before.cycles_per_second:,.0f} cycles/s, p99 {before.latency_ms_p99:.1f} ms",
    )
    name = (
        f"beside an executor and {len(rounds)} rounds of plans: {beside.cycles_per_second:,.0f} cycles/s, p99 "
        f"{beside.latency_ms_p99:.1f} ms, {beside.failures} failures, {beside.conflicts} conflicts"
    )
    yield reporting.at_most(name, beside.latency_ms_p99 / before.latency_ms_p99, TIMES_MAX, "x of that")


def _plan(http: httpx.Client, table: str) -> None:
    body = {"writer": "bench", "services": ["compaction"], "force": True}
    http.post(f"/v1/tables/{table}/services/plan", json=body).raise_for_status()


@contextmanager
def _executor(plan: Instant) -> Iterator[None]:
    task = [sys.executable, "-m", "benchmarks.services_arrow", plan.table, plan.requested_time]
    command = ["nice", "-n", "19", *task]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


@contextmanager
def _repeated(job: Callable[[], None]) -> Iterator[list[int]]:
    """A block beside which a job is repeated; the list has a number for each time that it was."""
    done: list[int] = []
    is_over = threading.Event()

    def run() -> None:
        while not is_over.is_set():
            job()
            done.append(len(done))

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield done
    finally:
        is_over.set()
        thread.join()
