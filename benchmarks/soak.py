"""A table under load for a long time: writers, all table services, savepoints, cleans and processes that die.

``make soak MINUTES=30``: two Spark applications and one Python job over REST upsert one merge-on-read table,
while ``chronolake services run`` serves it by the engines arrow and spark. Writers, executors and a server are
killed with -9 and started again. An oracle knows each acknowledged record (``soak_oracle``). ``SEED`` repeats
the order of the faults, ``KEYS``, ``PARTITIONS`` and ``PAUSE`` (seconds between two writes of a writer) change
the load, ``ENGINES=arrow,arrow,arrow`` runs without Spark, ``STORAGE=s3`` has the table in a bucket of moto,
``KEEP=1`` leaves the folder. With an odd ``SEED`` file groups are log-compacted before they are compacted.
``CHECK=1`` exits 1 when a target is missed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec
import psutil  # type: ignore[import-untyped]

import chronolake
from benchmarks import reporting, running
from benchmarks.reporting import Row
from benchmarks.soak_batches import FIELDS, LOADER, PATIENCE_SECONDS, WRITERS, Journal, Soak, batch
from benchmarks.soak_faults import WORKER, Faults, Program, services
from benchmarks.soak_oracle import SERVICES, Oracle
from benchmarks.soak_store import base_path, data_files
from benchmarks.soak_writer import STOP, arrow_upsert
from chronolake.errors import ChronolakeError
from chronolake_model.files import FileSlice
from chronolake_model.services import TableService
from chronolake_model.tables import BucketIndex
from chronolake_model.vocabulary import IndexType, Operation, State, TableType
from chronolake_spark import services as table_services
from chronolake_spark.services.running import RunOptions
from tests.fix_server import ServerProcess
from tests.processes import wait_until
from tests.spark import hudi_reader

MINUTES = float(os.environ.get("MINUTES", "30"))
SEED = int(os.environ.get("SEED", "0")) or time.time_ns() % 1_000_000
KEYS = int(os.environ.get("KEYS", "240000"))
PARTITIONS = int(os.environ.get("PARTITIONS", "48"))
PAUSE_SECONDS = float(os.environ.get("PAUSE", "4"))
STORAGE = os.environ.get("STORAGE", "local")
ENGINES = os.environ.get("ENGINES", "spark,spark,arrow").split(",")
KEEPS_FOLDER = bool(os.environ.get("KEEP"))
TABLE = "soak.records"
SMALL_BYTES = 80_000
PROPERTIES = {
    "files.small-file-limit": str(SMALL_BYTES),
    "files.max-file-size": str(2 * SMALL_BYTES),
    "files.record-size-estimate": "100",
    "hoodie.clean.commits.retained": "5",
    "hoodie.log.compaction.enable": "true",
}
"""The sizes of a small table, and a short history; all else is as by default."""
LOGS_FIRST = {"hoodie.compact.inline.max.delta.commits": "15", "hoodie.log.compaction.blocks.threshold": "2"}
"""Otherwise a compaction takes each file group before it has enough log files for a log compaction."""
MERGES_LOGS = SEED % 2 == 1
SAMPLES = 60
SAMPLE_SECONDS_MIN = 3.0
SAVEPOINT_SAMPLES = 4
READS = 2
GROWTH_MAX = 1.3
READ_TIMES_MAX = 1.5
SMALL_PER_PARTITION_MAX = 2.0
LINES_MAX = 8
_FLAGS = ("--reaper-seconds", "1", "--publisher-seconds", "1")


class Sample(msgspec.Struct, frozen=True):
    """The table and the processes at a moment. Seconds to read are those of the processor."""

    read_seconds: float
    files: int
    log_files: int
    groups: int
    small_groups: int
    server_mb: float
    services_mb: float


def main() -> None:
    """Run, print the report, and fail when CHECK is set and a target is missed."""
    folder = Path(tempfile.mkdtemp(prefix="chronolake-soak-"))
    began = os.getloadavg()
    print(f"{MINUTES:g} minutes, SEED={SEED}, {folder}", flush=True)
    try:
        remark = f"SEED={SEED}, {MINUTES:g} minutes, load {began[0]:.1f} at the start"
        reporting.finish(_measure(running.postgres(), folder), remark)
    finally:
        if not KEEPS_FOLDER:
            shutil.rmtree(folder, ignore_errors=True)


def _measure(dsn: str, folder: Path) -> Iterator[Row]:
    # One lives for the whole run: its memory is a figure. The other is killed.
    logs = [folder / f"server-{number}.log" for number in range(2)]
    steady, mortal = (ServerProcess(dsn, log, *_FLAGS, start_seconds_max=PATIENCE_SECONDS) for log in logs)
    with contextlib.ExitStack() as stack:
        base = stack.enter_context(base_path(STORAGE, folder))
        for server in (steady, mortal):
            server.start()
            stack.callback(server.stop)
        client = stack.enter_context(chronolake.connect(steady.url))
        table = _table(client, base)
        soak = Soak(mortal.url, TABLE, str(folder), SEED, KEYS, PARTITIONS, PAUSE_SECONDS)
        arrow_upsert(soak, table, batch(soak, LOADER))
        serving = services("services arrow", folder, steady.url, "arrow")
        programs = [*_programs(soak, folder), services("services arrow 2", folder, mortal.url, "arrow")]
        if "spark" in ENGINES:
            programs.append(services("services spark", folder, mortal.url, "spark"))
        oracle = Oracle(soak, table)
        # Spark first: on a busy machine its start takes minutes beside the load of the others.
        for program in (*programs, serving):
            program.start()
            stack.callback(program.kill)
            wait_until(program.is_at_work)
        with Faults(SEED, programs, mortal) as faults:
            run = _Run(table, oracle, steady.pid, serving.process.pid)
            samples = run.samples()
        (folder / STOP).touch()
        codes = {program.name: program.process.wait(PATIENCE_SECONDS) for program in programs[: len(WRITERS)]}
        faults.ended += [f"{name} ended with {code}" for name, code in codes.items() if code]
        for program in (serving, *programs[len(WRITERS) :]):
            program.process.terminate()
            program.process.wait(PATIENCE_SECONDS)
        yield from _counts(table, oracle, faults)
        yield from _correctness(client, table, oracle, faults, folder)
        yield from _growth(samples)
        yield from _health(client, table, samples)


def _table(client: chronolake.Client, base_path: str) -> chronolake.Table:
    client.create_namespace("soak")
    table = client.create_table(
        TABLE,
        base_path=base_path,
        schema=list(FIELDS),
        record_key_fields=["id"],
        partition_fields=["part"],
        ordering_field="version",
        type=TableType.MERGE_ON_READ,
        index=BucketIndex(IndexType.SIMPLE),
        properties=PROPERTIES | (LOGS_FIRST if MERGES_LOGS else {}),
    )
    table.claim_storage()
    return table


def _programs(soak: Soak, folder: Path) -> list[Program]:
    """The writers: two of Spark, one of Arrow."""
    text = msgspec.json.encode(soak).decode()
    engines = dict(zip(WRITERS, ENGINES, strict=True))
    return [
        Program(
            f"writer {number} {engine}",
            folder,
            ("-m", "benchmarks.soak_writer", text, str(number), engine),
            "acknowledged",
            Journal(soak, number).path,
        )
        for number, engine in engines.items()
    ]


class _Run:
    """The part of the run in which writers write: reads, comparisons and savepoints."""

    def __init__(self, table: chronolake.Table, oracle: Oracle, server: int, serving: int) -> None:
        self._table = table
        self._oracle = oracle
        self._server = psutil.Process(server)
        self._serving = psutil.Process(serving)

    def samples(self) -> list[Sample]:
        """Take samples until the time is over."""
        ends = time.monotonic() + 60 * MINUTES
        every = max(SAMPLE_SECONDS_MIN, 60 * MINUTES / SAMPLES)
        samples: list[Sample] = []
        savepoint: tuple[str, str] | None = None
        while time.monotonic() < ends:
            began = time.monotonic()
            samples.append(self._sample())
            self._compare_earlier()
            if len(samples) % SAVEPOINT_SAMPLES == 0:
                savepoint = self._next_savepoint(savepoint)
            print(f"{(ends - time.monotonic()) / 60:.1f} minutes left: {samples[-1]}", flush=True)
            time.sleep(max(0.0, min(every - (time.monotonic() - began), ends - time.monotonic())))
        self._next_savepoint(savepoint, takes=False)
        self._oracle.check_acknowledged()
        return samples

    def _sample(self) -> Sample:
        with self._table.reading() as reading:
            slices = self._table.snapshot(reading.as_of).slices
            seconds = read_seconds(self._table, slices)
            self._oracle.compare(reading.as_of or "", slices, "the snapshot")
        return Sample(
            seconds,
            len(data_files(self._table)),
            sum(len(of.log_files) for of in slices),
            len(slices),
            sum(_is_small(of) for of in slices),
            *(round(each.memory_info().rss / 1e6) for each in (self._server, self._serving)),
        )

    def _compare_earlier(self) -> None:
        """Compare the state after one of the last acknowledged commits, unless it is cleaned by now."""
        as_of = self._oracle.completion_times()[-3]
        with contextlib.suppress(ChronolakeError), self._table.reading(as_of):
            self._oracle.compare(as_of, self._table.snapshot(as_of).slices, "an earlier state")

    def _next_savepoint(self, before: tuple[str, str] | None, *, takes: bool = True) -> tuple[str, str] | None:
        """Compare the state that a savepoint pins, release it, and pin the newest state."""
        if before is not None:
            requested_time, as_of = before
            self._oracle.compare(as_of, self._table.snapshot(as_of).slices, "the savepoint")
            self._table.release_savepoint(requested_time)
        if not takes:
            return None
        savepoint = self._table.savepoint()
        pinned = self._table.instant(savepoint.target or "")
        return savepoint.requested_time, pinned.completion_time or ""


def read_seconds(table: chronolake.Table, slices: Sequence[FileSlice]) -> float:
    """The time of the processor to read slices, the least of some reads: other processes are at work too."""
    seconds: list[float] = []
    for _ in range(READS):
        began = time.process_time()
        hudi_reader.rows_of_slices(table, slices)
        seconds.append(time.process_time() - began)
    return min(seconds)


def _is_small(of: FileSlice) -> bool:
    return of.base_file is None or of.base_file.size_bytes < SMALL_BYTES


def _counts(table: chronolake.Table, oracle: Oracle, faults: Faults) -> Iterator[Row]:
    """Counts of what happened."""
    writes = Counter(entry.version % (len(WRITERS) + 1) for entry in oracle.entries("acknowledged"))
    yield Row(f"acknowledged writes of the writers ({', '.join(ENGINES)})", _listed(writes.values()))
    seconds = sorted(entry.seconds for entry in oracle.entries("acknowledged"))
    yield Row("seconds of a write", f"median {statistics.median(seconds):.1f}, longest {seconds[-1]:.1f}")
    kills = ", ".join(f"{name} {count}" for name, count in sorted(faults.kills.items()))
    yield Row("kill -9", kills)
    runs = Counter(
        (instant.operation if instant.operation in SERVICES else instant.action, instant.state)
        for instant in table.instants()
    )
    for (name, state), count in sorted(runs.items()):
        yield Row(f"instants: {name}, {state}", f"{count:,}")
    if MERGES_LOGS:
        merged = runs[Operation.LOG_COMPACT, State.COMPLETED]
        yield reporting.at_least("log compactions that completed", merged, 1, "")


def _correctness(
    client: chronolake.Client, table: chronolake.Table, oracle: Oracle, faults: Faults, folder: Path
) -> Iterator[Row]:
    """Rows, refusals, files."""
    ending = table_services.run(client, RunOptions(once=True))
    wait_until(lambda: not list(table.instants(pending=True)))
    ending_failures = ending.failures
    snapshot = table.snapshot()
    oracle.compare(snapshot.as_of or "", snapshot.slices, "the last state")
    oracle.check_acknowledged()
    yield reporting.at_most("comparisons with the oracle that fail", len(oracle.faults), 0, "faults")
    refused = oracle.refused_by_services()
    yield from _listing("writers refused because of a service", refused)
    others = len(oracle.entries("refused")) - len(refused)
    yield Row("writers that lost a conflict with another writer", f"{others:,}")
    failed = [entry.message for entry in oracle.entries("failed")]
    _print(failed)
    yield reporting.at_most("writes that failed", len(failed), faults.kills[WORKER], "killed Python workers")
    yield from _listing("programs that ended by themselves", faults.ended)
    reported = [line for log in folder.glob("services*.log") for line in log.read_text().splitlines()]
    reported = [line for line in reported if line.startswith("Error:")]
    _print(reported)
    yield Row("failures that services reported, and tried again", f"{len(reported):,}")
    traces = [
        f"{log.name}: Traceback"
        for log in folder.glob("serv*.log")
        for _ in range(log.read_text().count("Traceback"))
    ]
    yield from _listing("tracebacks of servers and services", traces)
    yield reporting.at_most("failures of services at the end", ending_failures, 0, "failures")
    table.sweep(grace_seconds=0)
    orphans = [f"{orphan.path} ({orphan.reason})" for orphan in table.orphans().orphans]
    yield from _listing("orphans", orphans)
    yield from _listing(
        "data files in the store that the metastore does not publish", oracle.unaccounted_files()
    )
    yield reporting.at_most("findings of check", len(table.check().findings), 0, "findings")


def _listing(name: str, lines: Sequence[str]) -> Iterator[Row]:
    """A count that must be zero; the first lines are printed."""
    _print(lines)
    yield reporting.at_most(name, len(lines), 0, "")


def _print(lines: Sequence[str]) -> None:
    for line in lines[:LINES_MAX]:
        print(f"  {line}")


def _growth(samples: Sequence[Sample]) -> Iterator[Row]:
    """The last third of the run against the first, without the first fifth: there the history begins.

    Of files the lower quartile: while the lease of a killed writer runs, nothing is cleaned.
    """
    samples = samples[len(samples) // 5 :]
    third = max(1, len(samples) // 3)
    for name, unit, of in (
        ("seconds to read the table", "s", lambda sample: sample.read_seconds),
        ("log files of the snapshot", "", lambda sample: sample.log_files),
        ("file groups", "", lambda sample: sample.groups),
        ("memory of the server", "MB", lambda sample: sample.server_mb),
        ("memory of services run", "MB", lambda sample: sample.services_mb),
    ):
        first, last = (statistics.median(map(of, part)) for part in (samples[:third], samples[-third:]))
        yield _grown(f"{name}: first third {first:.4g} {unit}, last third {last:.4g} {unit}", first, last)
    parts = [sorted(sample.files for sample in part) for part in (samples[:third], samples[-third:])]
    first, last = (files[len(files) // 4] for files in parts)
    yield _grown(f"data files: first third {first:,}, last third {last:,}", first, last)


def _grown(name: str, first: float, last: float) -> Row:
    return reporting.at_most(name, last / max(first, 1e-9), GROWTH_MAX, "x")


def _health(client: chronolake.Client, table: chronolake.Table, samples: Sequence[Sample]) -> Iterator[Row]:
    """Small files, and the time to read, in the last third of the run."""
    last = samples[-max(1, len(samples) // 3) :]
    share = statistics.median(sample.small_groups / sample.groups for sample in last)
    small = statistics.median(sample.small_groups for sample in last) / PARTITIONS
    name = f"small file groups of a partition ({share:.0%} of all), last third"
    yield reporting.at_most(name, small, SMALL_PER_PARTITION_MAX, "")
    table.services.plan(TableService.COMPACTION, force=True)
    table_services.run(client, RunOptions(once=True, plans=False))
    fresh = read_seconds(table, table.snapshot().slices)
    times = statistics.median(sample.read_seconds for sample in last) / fresh
    name = "time to read, against the table freshly compacted"
    # The target is that of the defaults.
    yield Row(name, f"{times:.2f} x") if MERGES_LOGS else reporting.at_most(name, times, READ_TIMES_MAX, "x")


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(f"{number:,}" for number in numbers)


if __name__ == "__main__":
    main()
