"""Other writers while plans are made and executed: the case ``writers`` of ``make bench-services``.

The executor would run on another machine, and its files would lie in an object storage. Here it runs only
while a processor is idle, its files are in memory where the machine has ``/dev/shm``, and the baseline is
PyArrow in its place: two processors may be threads of one core, which share its units whatever the priority.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final

import httpx

import chronolake
from benchmarks import reporting, running, services_arrow
from benchmarks.reporting import Row
from benchmarks.rest_load import Figures

WRITERS: Final = 16
SECONDS: Final = float(os.environ.get("SECONDS", "10"))
TIMES_MAX: Final = 1.5
_TABLES: Final = "bench.written"
_MEMORY: Final = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def writers(planned: str) -> Iterator[Row]:
    """Cycles of writers alone, beside plans of ``planned``, and while another table is compacted too."""
    with (
        tempfile.TemporaryDirectory(prefix="chronolake-bench-", dir=_MEMORY) as folder,
        chronolake.connect(running.URL) as client,
        httpx.Client(base_url=running.URL, timeout=600) as http,
    ):
        table = services_arrow.create(client, "bench.executed", Path(folder))
        services_arrow.write(table)
        running.make_table(http, f"{_TABLES}0")

        def planning() -> AbstractContextManager[list[int]]:
            return _repeated(lambda: _plan(http, planned))

        alone = _load()
        with planning() as rounds:
            beside_plans = _load()
        with _low_priority("pyarrow", table.definition.base_path):
            beside_arrow = _load()
        plan = services_arrow.planned_compaction(table)
        with _low_priority(plan.table, plan.requested_time), planning() as more_rounds:
            beside_all = _load()
    yield Row(f"{WRITERS} writers of one table, alone", _figures(alone))
    yield _against(f"beside {len(rounds)} rounds of plans", beside_plans, alone)
    yield Row("beside PyArrow, which rewrites the base files of another table", _figures(beside_arrow))
    yield _against(f"beside its executor, and {len(more_rounds)} rounds of plans", beside_all, beside_arrow)


def _load() -> Figures:
    return running.load(_TABLES, 1, WRITERS, SECONDS)


def _against(name: str, beside: Figures, baseline: Figures) -> Row:
    described = f"{name}: {_figures(beside)}"
    return reporting.at_most(
        described, beside.latency_ms_p99 / baseline.latency_ms_p99, TIMES_MAX, "x of that p99"
    )


def _figures(load: Figures) -> str:
    failed = load.failures + load.conflicts
    return f"{load.cycles_per_second:,.0f} cycles/s, p99 {load.latency_ms_p99:.1f} ms, {failed} failed"


def _plan(http: httpx.Client, table: str) -> None:
    body = {"writer": "bench", "services": ["compaction"], "force": True}
    http.post(f"/v1/tables/{table}/services/plan", json=body).raise_for_status()


@contextmanager
def _low_priority(task: str, argument: str) -> Iterator[None]:
    task_command = [sys.executable, "-m", "benchmarks.services_arrow", task, argument]
    process = subprocess.Popen(["chrt", "--idle", "0", *task_command], stdout=subprocess.DEVNULL)
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
