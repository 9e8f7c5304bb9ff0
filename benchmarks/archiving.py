"""Archiving while writers write: seconds, memory, and how long the writers wait."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import resource
import tempfile
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection

from benchmarks import reporting, running
from benchmarks.reporting import Row
from benchmarks.rest_load import Figures
from chronolake_metastore.archive import pace, writing
from chronolake_metastore.archive.storage import ArchiveStorage
from chronolake_metastore.settings import Settings
from chronolake_storage import opening

ARCHIVED = int(os.environ.get("ARCHIVED", "100000"))
"""Instants that are there before the archiver starts."""
WRITERS = 16
SECONDS = float(os.environ.get("SECONDS", "15"))
P99_TIMES_MAX = 1.5


def measure(dsn: str) -> Iterator[Row]:
    """Write instants, then measure writers alone, and beside an archiver that rests, of lowest priority."""
    with running.server(dsn) as client:
        client.post("/v1/namespaces", json={"name": "bench"}).raise_for_status()
        running.make_table(client, "bench.archiving0", tick="1us")
        instants = 0
        while instants < ARCHIVED:
            instants += _load().cycles
        before = _load()
        own, theirs = multiprocessing.Pipe(duplex=False)
        archiver = multiprocessing.get_context("spawn").Process(target=_archive, args=(dsn, theirs))
        archiver.start()
        beside = _load()
        is_running = archiver.is_alive()
        seconds, megabytes, events = own.recv()
        archiver.join()
    figure = f"{seconds:,.1f} s for {events:,} events, at most {megabytes:,.0f} MB"
    yield Row(f"archiving {instants:,} instants and those of the writers", figure)
    name = f"p99 of {WRITERS} writers beside the archiver, {beside.latency_ms_p99:,.0f} of "
    name += f"{before.latency_ms_p99:,.0f} ms{'' if is_running else ', which ended earlier'}"
    yield reporting.at_most(name, beside.latency_ms_p99 / before.latency_ms_p99, P99_TIMES_MAX, "x")


def _load() -> Figures:
    return running.load("bench.archiving", 1, WRITERS, SECONDS)


def _archive(dsn: str, answer: Connection) -> None:
    pace.lower_priority()
    with tempfile.TemporaryDirectory(prefix="chronolake-bench-") as folder:
        began = time.monotonic()
        storage = ArchiveStorage(opening.open_files(folder))
        settings = Settings(dsn=dsn, role="chronolake_auditor")
        archived = asyncio.run(writing.write(settings, storage, pace=pace.Pace()))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_024
        answer.send((time.monotonic() - began, peak, archived.events))
