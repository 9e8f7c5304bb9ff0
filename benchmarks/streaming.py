"""Streams: many tasks that ask for one instant, writers that wait and that do not, large checkpoints, Spark.

``make bench-streaming``; ``CASES=ac`` runs these alone, ``TASKS=1000`` is for (a) and (c), and
``BATCH_ROWS=200000`` and ``BATCHES=12`` for (d). (b) crosses the seconds that a completion takes, the seconds
between checkpoints, and the tasks; ``COMPLETIONS=0.2,2 INTERVALS=1`` makes it shorter. ``CHECK=1`` exits 1 when
a target is missed.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import chronolake
from benchmarks import reporting, running, spark_streaming
from benchmarks.reporting import Row
from chronolake import AsyncStreamWriter, StreamInstant, WriteStat, errors
from chronolake_model.file_names import bucket_file_id
from chronolake_model.publication import PUBLISH_PROPERTY

CASES = os.environ.get("CASES", "abcd")
TASKS = int(os.environ.get("TASKS", "1000"))
COMPLETIONS = [float(text) for text in os.environ.get("COMPLETIONS", "0.2,1,2,5").split(",")]
INTERVALS = [float(text) for text in os.environ.get("INTERVALS", "1,5").split(",")]
WRITERS = [2, 8]
FILES_OF_TASK = 20
ROWS_OF_FLUSH = 20_000
FLUSH_SECONDS = 0.05
"""How long a task takes to make and write the rows of a flush; nothing is really written."""
CELL_SECONDS_MIN = 5.0
CELL_ROUNDS = 2.2
"""How many completions and intervals a cell of (b) lasts."""
POLL_SECONDS = 0.02
WAITING_SHARE_MAX = 0.01
VARIATION_MAX = 0.05


@dataclass
class Cell:
    """The result of a run of (b): rows a second of a task, the share of waiting, and seconds until visible."""

    rows_per_second: float
    waiting_share: float
    freshness_seconds: float
    freshness_seconds_max: float
    """Two completions and an interval, as long as they really took."""
    pending_max: int


@dataclass
class Job:
    """The state that the tasks of a run share with its checkpoints."""

    stream: AsyncStreamWriter
    tasks: int
    blocking: bool
    checkpoint: int = 0
    passed: int = 0
    acknowledged: int = 0
    rows: int = 0
    waited_seconds: float = 0.0
    written_at: dict[int, float] = field(default_factory=dict)
    """By checkpoint of a task, when its first rows were read."""
    freshness: list[float] = field(default_factory=list)
    completions: list[float] = field(default_factory=list)
    """How many seconds each completion took, with its request."""
    intervals: list[float] = field(default_factory=list)
    """The seconds from one trigger until the checkpoint of the next is complete: the rows of one interval."""
    pending: list[int] = field(default_factory=list)
    is_over: bool = False


def main() -> None:
    """Measure, print the report, and fail when CHECK is set and a target is missed."""
    reporting.finish(_measure(running.postgres()), f"load {os.getloadavg()[0]:.1f} at the start")


def _measure(dsn: str) -> Iterator[Row]:
    cases: dict[str, Callable[[], Iterator[Row]]] = {
        "a": _one_instant,
        "b": _cells,
        "c": _large_checkpoint,
        "d": spark_streaming.rows,
    }
    with running.server(dsn) as client:
        client.post("/v1/namespaces", json={"name": "bench"}).raise_for_status()
        for case in CASES:
            yield from cases[case]()


_numbers = itertools.count(1)


@asynccontextmanager
async def _stream(tasks: int) -> AsyncIterator[tuple[chronolake.AsyncTable, AsyncStreamWriter]]:
    async with chronolake.connect_async(running.URL) as client:
        table = await client.create_table(
            f"bench.streamed{next(_numbers)}",
            base_path=f"file:///lake/{next(_numbers)}",
            schema=[chronolake.Field("id", "bigint", nullable=False)],
            record_key_fields=["id"],
            type=chronolake.TableType.MERGE_ON_READ,
            index=chronolake.BucketIndex(buckets=TASKS * FILES_OF_TASK),
            properties={PUBLISH_PROPERTY: "false"},
        )
        async with await table.open_stream("job", tasks=tasks) as stream:
            yield table, stream


def _one_instant() -> Iterator[Row]:
    """(a): many tasks ask for the instant of one checkpoint in the same moment."""

    async def run() -> tuple[list[float], int]:
        async with _stream(TASKS) as (table, stream):
            taken = await asyncio.gather(*(_timed(stream.instant(-1, str(task))) for task in range(TASKS)))
            begun = [instant async for instant in table.instants()]
            return sorted(taken), len(begun)

    taken, begun = asyncio.run(run())
    p99 = taken[int(len(taken) * 0.99)]
    name = f"(a) {TASKS:,} tasks ask for one instant at once"
    yield Row(
        name, f"all answered in {taken[-1]:.2f} s, median {statistics.median(taken):.2f} s, p99 {p99:.2f} s"
    )
    yield reporting.at_most("(a) instants begun", begun, 1, "instants")


def _cells() -> Iterator[Row]:
    """(b): tasks write while completions take long; blocking and non-blocking."""
    rates: list[float] = []
    for completion, interval, tasks in itertools.product(COMPLETIONS, INTERVALS, WRITERS):
        for blocking in (True, False):
            cell = asyncio.run(_cell(completion, interval, tasks, blocking=blocking))
            mode = "blocking" if blocking else "non-blocking"
            name = f"(b) completion {completion} s, interval {interval} s, {tasks} tasks, {mode}"
            yield Row(
                name,
                f"{cell.rows_per_second:,.0f} rows/s a task, {cell.waiting_share:.1%} waiting, visible after "
                f"{cell.freshness_seconds:.1f} s, {cell.pending_max} pending",
            )
            if not blocking:
                rates.append(cell.rows_per_second)
                yield reporting.at_most(
                    f"{name}: waiting", cell.waiting_share, WAITING_SHARE_MAX, "of the time"
                )
                most = round(cell.freshness_seconds_max, 2)
                yield reporting.at_most(f"{name}: until visible", cell.freshness_seconds, most, "s")
    if rates:
        variation = (max(rates) - min(rates)) / statistics.mean(rates)
        yield reporting.at_most(
            "(b) non-blocking: the throughput of a task varies over all cells by",
            variation,
            VARIATION_MAX,
            "of it",
        )


async def _cell(completion: float, interval: float, tasks: int, *, blocking: bool) -> Cell:
    async with _stream(tasks) as (_, stream):
        job = Job(stream, tasks, blocking)
        seconds = max(CELL_SECONDS_MIN, CELL_ROUNDS * (completion + interval))
        async with asyncio.TaskGroup() as running_tasks:
            for task in range(tasks):
                running_tasks.create_task(_write(job, str(task)))
            running_tasks.create_task(_trigger(job, interval))
            running_tasks.create_task(_complete(job, completion))
            await asyncio.sleep(seconds)
            job.is_over = True
    return Cell(
        job.rows / seconds / tasks,
        job.waited_seconds / seconds / tasks,
        max(job.freshness, default=seconds),
        2 * max(job.completions, default=completion) + max(job.intervals, default=interval),
        max(job.pending, default=0),
    )


async def _write(job: Job, task: str) -> None:
    """A task: it reads, flushes by a number of rows, and reports at the barrier, as ``TaskWriter`` does."""
    barrier, instant, number = -1, None, itertools.count()
    stats: list[WriteStat] = []
    while not job.is_over:
        job.written_at.setdefault(barrier, time.perf_counter())
        await asyncio.sleep(FLUSH_SECONDS)
        if instant is None:
            instant = await _instant(job, barrier, task)
            if instant is None:
                return
        stats.append(_log_file(instant, int(task), next(number)))
        job.rows += ROWS_OF_FLUSH
        if job.checkpoint > max(barrier, 0):
            await job.stream.report(instant, task, stats, last_batch=True)
            barrier, instant, stats = job.checkpoint, None, []
            job.passed += 1


async def _instant(job: Job, barrier: int, task: str) -> StreamInstant | None:
    began = time.perf_counter()
    while not job.is_over:
        try:
            given = await job.stream.instant(barrier, task, blocking=job.blocking)
            job.waited_seconds += time.perf_counter() - began
            return given
        except errors.InstantNotYet:
            await asyncio.sleep(POLL_SECONDS)
    job.waited_seconds += time.perf_counter() - began
    return None


async def _trigger(job: Job, interval: float) -> None:
    """The engine: a checkpoint each interval, when the one before is complete."""
    triggered = time.perf_counter()
    while not job.is_over:
        await asyncio.sleep(interval)
        before, triggered = triggered, time.perf_counter()
        job.passed = 0
        job.checkpoint += 1
        while job.passed < job.tasks and not job.is_over:  # noqa: ASYNC110  # as engines do, it looks now and then
            await asyncio.sleep(POLL_SECONDS / 2)
        job.acknowledged = job.checkpoint
        job.intervals.append(time.perf_counter() - before)


async def _complete(job: Job, completion: float) -> None:
    """The committer: it acknowledges the last complete checkpoint, which takes its time."""
    done = 0
    while not job.is_over:
        if job.acknowledged == done:
            await asyncio.sleep(POLL_SECONDS / 2)
            continue
        last, began = job.acknowledged, time.perf_counter()
        await asyncio.sleep(completion)
        job.pending.append(len((await job.stream.refresh()).checkpoints))
        await job.stream.complete(last)
        now = time.perf_counter()
        job.completions.append(now - began)
        for barrier in [barrier for barrier in job.written_at if barrier < last]:
            job.freshness.append(now - job.written_at.pop(barrier))
        done = last


def _large_checkpoint() -> Iterator[Row]:
    """(c): a checkpoint with many tasks and files."""

    async def run() -> tuple[float, float, float]:
        async with _stream(TASKS) as (table, stream):
            instant = await stream.instant(-1, "0")
            began = time.perf_counter()
            limit = asyncio.Semaphore(64)

            async def report(task: int) -> None:
                async with limit:
                    stats = [
                        _log_file(instant, task * FILES_OF_TASK + file, 1) for file in range(FILES_OF_TASK)
                    ]
                    await stream.report(instant, str(task), stats, last_batch=True)

            await asyncio.gather(*(report(task) for task in range(TASKS)))
            reported = time.perf_counter()
            await stream.complete(1)
            completed = time.perf_counter()
            batches = table.snapshot_batches()
            rows = 0
            async for batch in batches:
                rows += batch.num_rows
            assert rows == TASKS * FILES_OF_TASK, rows
            return reported - began, completed - reported, time.perf_counter() - completed

    metadata, completion, visible = asyncio.run(run())
    files = TASKS * FILES_OF_TASK
    name = f"(c) a checkpoint of {TASKS:,} tasks with {FILES_OF_TASK} files each"
    yield Row(f"{name}: write metadata", f"{metadata:.2f} s = {TASKS / metadata:,.0f} reports/s")
    yield Row(f"{name}: completion", f"{completion:.2f} s")
    yield Row(f"{name}: the snapshot of {files:,} files after it", f"{visible:.2f} s")


async def _timed(call: Awaitable[object]) -> float:
    began = time.perf_counter()
    await call
    return time.perf_counter() - began


def _log_file(instant: StreamInstant, bucket: int, number: int) -> WriteStat:
    file_id = bucket_file_id(bucket)
    name = f".{file_id}_{instant.requested_time}.log.{number + 1}_{bucket}-0-0"
    return WriteStat("", file_id, name, size_bytes=1_000, records=ROWS_OF_FLUSH, inserts=ROWS_OF_FLUSH)


if __name__ == "__main__":
    main()
