"""Verifying and rebuilding a log of 100,000 events: seconds, memory, and how long commands wait.

``make bench-proof`` runs it; ``EVENTS=1000000`` makes the log longer. The log is made by the commands
themselves, in groups, so that its chain is real; the programs are processes of their own, so that their memory
is theirs.
"""

from __future__ import annotations

import asyncio
import atexit
import itertools
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from chronolake_metastore import embedded
from chronolake_metastore.commands import group
from chronolake_metastore.commands.handler import Answer
from chronolake_metastore.domain import instants, namespaces, tables
from chronolake_metastore.domain.commands import Command
from chronolake_metastore.domain.context import Context
from chronolake_metastore.domain.definitions import NewDefinition
from chronolake_metastore.domain.results import AnyResult, InstantResult
from chronolake_metastore.settings import Settings
from chronolake_metastore.store.postgres import migrations
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.postgres.transaction import Session
from chronolake_model import tables as wire_tables
from chronolake_model.file_names import base_file_name, bucket_file_id
from chronolake_model.files import WriteStat
from chronolake_model.times import Micros, format_time

EVENTS = int(os.environ.get("EVENTS", "100000"))
TABLES = 10
BUCKETS = 256
FILES = 3
GROUP = 200


def main() -> None:
    """Make the log, run the programs, print their times and memory."""
    folder = tempfile.mkdtemp(prefix="chronolake-bench-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    dsn = embedded.start(Path(folder)).dsn
    migrations.upgrade(dsn)
    began = time.monotonic()
    asyncio.run(_make(dsn))
    report = Table("what", "seconds", "peak memory", "it said", title=f"{EVENTS} events")
    report.add_row("making the log", f"{time.monotonic() - began:.1f}", "", "")
    for arguments in (["verify"], ["verify", "--table", "bench.t0"], ["heads", "--to", folder], ["rebuild"]):
        began = time.monotonic()
        result, peak = _run(*arguments, "--dsn", dsn)
        report.add_row(" ".join(arguments[:2]), f"{time.monotonic() - began:.1f}", f"{peak} MB", result)
    Console(width=140).print(report)


def _run(*arguments: str) -> tuple[str, int]:
    """The output of a program, and the peak memory of all programs so far, in MB."""
    done = subprocess.run(
        [sys.executable, "-m", "chronolake_metastore", *arguments], capture_output=True, text=True, check=True
    )
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1_024
    return re.sub(r"^heads-\d+", "heads-*", done.stdout.strip()), peak


async def _make(dsn: str) -> None:
    database = Database(Settings(dsn=dsn))
    session = Session(database)
    numbers = itertools.count()

    async def run(*wanted: Command) -> list[AnyResult]:
        requests = [
            group.request_of(Context("bench", f"request-{next(numbers)}"), command) for command in wanted
        ]
        results = (await group.run(session, requests, drift_max_us=1_000_000)).results
        done = [answer.result for answer in results if isinstance(answer, Answer)]
        assert len(done) == len(results), results
        return done

    await run(namespaces.CreateNamespace("bench"))
    names = [f"bench.t{number}" for number in range(TABLES)]
    await run(*(tables.CreateTable(_definition(name)) for name in names))
    buckets = itertools.cycle(range(BUCKETS))
    for number in range(EVENTS // 2 // GROUP):
        name = names[number % TABLES]
        begun = await run(*(instants.BeginInstant(name, "bench") for _ in range(GROUP)))
        times = [done.of.instant.requested_time for done in begun if isinstance(done, InstantResult)]
        # Writers of one bucket would conflict: FILES * GROUP files spread over partitions.
        await run(*(_completion(name, requested, index, buckets) for index, requested in enumerate(times)))
    await session.close()
    await database.close()


def _definition(name: str) -> NewDefinition:
    return NewDefinition(
        name=name,
        base_path=f"/lake/{name}",
        schema=[wire_tables.NewField("id", "bigint"), wire_tables.NewField("day", "string")],
        record_key_fields=["id"],
        partition_fields=["day"],
        index=wire_tables.NewBucketIndex(buckets=BUCKETS),
    )


def _completion(
    name: str, requested_time: Micros, index: int, buckets: itertools.cycle[int]
) -> instants.CompleteInstant:
    stats = []
    for _ in range(FILES):
        file_id = bucket_file_id(next(buckets))
        file_name = base_file_name(file_id, "0-0-0", format_time(requested_time))
        stats.append(WriteStat(f"day={index}", file_id, file_name, 1_000, 10))
    return instants.CompleteInstant(name, requested_time, stats)


if __name__ == "__main__":
    main()
