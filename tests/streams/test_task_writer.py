"""The writer of a streaming task: buffers, flushes and reports, over the coordinator in memory."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from typing_extensions import override

from chronolake import errors
from chronolake.streaming import BuffersFull, Limits, TaskWriter
from chronolake.streaming.buffers import size_of
from chronolake_model.slices import BucketName
from tests.examples import examples
from tests.streams.in_memory import InMemory
from tests.streams.task_files import (
    BUCKETS,
    FilesInMemory,
    StreamInMemory,
    are_unique,
    latest_numbers,
    rows_of,
    visible_rows,
)

LIMITS = Limits(bucket_bytes=6_000, memory_bytes=12_000)


class Job:
    """A job with one task."""

    def __init__(self, limits: Limits = LIMITS) -> None:
        self.coordinator = InMemory()
        self.storage: dict[str, pa.Table] = {}
        self.stream = StreamInMemory(self.coordinator)
        self.files = FilesInMemory(self.coordinator, self.storage)
        self.now = 0.0
        self.writer = TaskWriter(self.stream, 0, self.files, limits=limits, clock=lambda: self.now)

    def visible(self) -> pa.Table:
        return visible_rows(self.coordinator, self.storage)


class History(RuleBasedStateMachine):
    """A source that can be read again, a task that fails, and an engine with checkpoints."""

    def __init__(self) -> None:
        super().__init__()
        self.job = Job()
        self.offset = 0
        self.checkpoint = 0
        self.offsets: dict[int, int] = {}
        self.acknowledged = 0

    @property
    def restored(self) -> int | None:
        return max(self.offsets, default=None)

    @rule(count=st.integers(1, 12), bytes_of_row=st.sampled_from([8, 400]))
    def write(self, count: int, bytes_of_row: int) -> None:
        rows = rows_of(self.offset, self.offset + count, bytes_of_row)
        before = self.job.writer.buffered_bytes
        try:
            self.job.writer.write(rows, wait_seconds=0)
            self.offset += count
        except BuffersFull:
            assert self.job.stream.is_waiting
            assert self.job.writer.buffered_bytes == before
        except errors.StorageFailed:
            assert self.job.writer.buffered_bytes <= before

    @rule()
    def barrier(self) -> None:
        if self.checkpoint in self.offsets or not self.checkpoint:
            self.checkpoint += 1
        try:
            written = self.job.writer.barrier(self.checkpoint, wait_seconds=0)
        except (errors.InstantNotYet, errors.StorageFailed, errors.ConnectionFailed):
            return
        files = written.files
        assert written.rows == self.offset - self.offsets.get(self.restored or 0, 0)
        assert written.rows == written.superseded + written.unchanged + files.updates
        assert files.records == files.updates
        assert (written.requested_time is None) == (written.rows == 0)
        assert self.job.writer.buffered_bytes == 0
        self.offsets[self.checkpoint] = self.offset
        assert self.job.writer.barrier(self.checkpoint, wait_seconds=0) == written

    @precondition(lambda self: self.offsets)
    @rule()
    def acknowledge(self) -> None:
        last = max(self.offsets)
        self.job.stream.complete(last)
        self.acknowledged = self.offsets[last]

    @rule()
    def wait(self) -> None:
        self.job.stream.is_waiting = not self.job.stream.is_waiting
        self.job.now += 1

    @rule()
    def fail_next_flush(self) -> None:
        self.job.files.fails = True

    @rule()
    def lose_next_answer(self) -> None:
        self.job.stream.loses_answer = True

    @rule()
    def restart_task(self) -> None:
        self.job.writer.restart(self.restored)
        self.offset = self.offsets.get(self.restored or 0, 0)

    @rule()
    def restart_job(self) -> None:
        job = self.job
        job.stream = StreamInMemory(job.coordinator, self.restored)
        job.files = FilesInMemory(job.coordinator, job.storage)
        job.writer = TaskWriter(
            job.stream,
            0,
            job.files,
            restored_checkpoint=self.restored,
            limits=LIMITS,
            clock=lambda: job.now,
        )
        self.offset = self.offsets.get(self.restored or 0, 0)
        if self.restored is not None:
            self.acknowledge()

    @invariant()
    def the_buffers_are_bounded(self) -> None:
        assert 0 <= self.job.writer.buffered_bytes <= LIMITS.memory_bytes

    @invariant()
    def each_acknowledged_row_is_visible_once(self) -> None:
        visible = self.job.visible()
        assert are_unique(visible)
        assert latest_numbers(visible) == latest_numbers(rows_of(0, self.acknowledged))

    @override
    def teardown(self) -> None:
        self.job.stream.is_waiting = self.job.stream.loses_answer = self.job.files.fails = False
        self.barrier()
        self.acknowledge()
        assert self.acknowledged == self.offset
        self.each_acknowledged_row_is_visible_once()


History.TestCase.settings = settings(max_examples=examples(200), stateful_step_count=30, deadline=None)
test_no_row_is_lost_or_visible_twice_whatever_fails = History.TestCase


def piece(bucket: int, kilobytes: int) -> pa.Table:
    """One row of a bucket, of a number of kilobytes, in memory as a filter leaves it."""
    row = pa.table(
        {
            "key": pa.array([bucket], pa.int64()),
            "number": pa.array([bucket], pa.int64()),
            "padding": pa.array([b"x" * 1_000 * kilobytes], pa.binary()),
        }
    )
    return row.filter(pa.array([True]))


@given(kilobytes=st.lists(st.integers(10, 40), min_size=BUCKETS, max_size=BUCKETS, unique=True))
@settings(max_examples=examples(100), deadline=None)
def test_the_largest_buffers_are_flushed_first_and_no_more_than_needed(kilobytes: list[int]) -> None:
    pieces = {bucket: piece(bucket, size) for bucket, size in enumerate(kilobytes)}
    held = sum(map(size_of, pieces.values()))
    job = Job(Limits(bucket_bytes=held, memory_bytes=held))
    for part in pieces.values():
        job.writer.write(part)
    assert job.files.flushed == []

    new = piece(0, 20)
    job.writer.write(new)

    flushed = [bucket.bucket for (bucket,) in job.files.flushed]
    by_size = sorted(pieces, key=lambda bucket: kilobytes[bucket], reverse=True)
    assert flushed == by_size[: len(flushed)]
    freed = [size_of(pieces[bucket]) for bucket in flushed]
    assert sum(freed[:-1]) < size_of(new) <= sum(freed)


def test_a_bucket_is_flushed_before_it_passes_its_size() -> None:
    job = Job(Limits(bucket_bytes=2 * size_of(piece(0, 10)), memory_bytes=10**6))
    for _ in range(3):
        job.writer.write(piece(0, 10))
        job.writer.write(piece(1, 1))
    assert job.files.flushed == [[BucketName("", 0)]]


def test_the_instant_is_asked_for_at_the_first_flush_not_ahead() -> None:
    job = Job()
    job.writer.write(rows_of(0, 3))
    assert job.stream.requested == []
    job.writer.barrier(1)
    job.writer.barrier(2)
    assert job.stream.requested == [-1]
    job.writer.write(rows_of(3, 6))
    job.writer.barrier(3)
    assert job.stream.requested == [-1, 2]


def test_an_idle_task_reports_nothing() -> None:
    job = Job()
    written = job.writer.barrier(1)
    assert (written.requested_time, written.rows, written.files.files) == (None, 0, 0)
    job.stream.complete(1)
    assert job.coordinator.visible() == []


def test_while_there_is_no_instant_the_task_is_full_at_its_bound() -> None:
    job = Job()
    job.stream.is_waiting = True
    taken = 0
    with pytest.raises(BuffersFull, match="gives no instant yet") as full:
        while True:
            job.writer.write(rows_of(taken, taken + 1, 1_000), wait_seconds=0)
            taken += 1
    assert taken > 1
    assert full.value.code == "buffers-full"
    job.stream.is_waiting = False
    job.writer.write(rows_of(taken, taken + 1, 1_000))
    job.writer.barrier(1)
    job.stream.complete(1)
    assert latest_numbers(job.visible()) == latest_numbers(rows_of(0, taken + 1))


def test_without_an_instant_a_full_bucket_waits_in_memory_and_asks_now_and_then() -> None:
    job = Job(Limits(bucket_bytes=3_000, memory_bytes=10**6))
    job.stream.is_waiting = True
    for _ in range(20):
        job.writer.write(piece(0, 1))
    assert job.stream.requested == [-1]
    job.now += 1
    job.writer.write(piece(0, 1))
    assert job.stream.requested == [-1, -1]


def test_rows_that_the_buffers_cannot_hold_are_refused() -> None:
    job = Job()
    with pytest.raises(ValueError, match="write them in parts"):
        job.writer.write(piece(0, 20))
    assert job.writer.buffered_bytes == 0


def test_many_log_files_are_reported_before_the_barrier() -> None:
    job = Job(Limits(bucket_bytes=1, memory_bytes=10**6))
    for number in range(1_003):
        job.writer.write(rows_of(number, number + 1).set_column(0, "key", pa.array([0], pa.int64())))
    job.writer.restart(None)
    for number in range(1_003):
        job.writer.write(rows_of(number, number + 1).set_column(0, "key", pa.array([0], pa.int64())))
    written = job.writer.barrier(1)
    assert (written.files.files, written.files.records, written.rows) == (1_003, 1_003, 1_003)
    job.stream.complete(1)
    assert are_unique(job.visible())
    assert len(job.visible()) == 1_003


def test_a_barrier_behind_a_later_one_is_refused() -> None:
    job = Job()
    job.writer.barrier(2)
    with pytest.raises(ValueError, match="has passed barrier 2"):
        job.writer.barrier(1)


def test_the_end_of_the_input_writes_what_is_left() -> None:
    job = Job()
    job.writer.write(rows_of(0, 9))
    job.writer.end()
    job.writer.end()
    job.stream.complete(None)
    assert latest_numbers(job.visible()) == latest_numbers(rows_of(0, 9))


def test_a_task_without_rows_may_end_too() -> None:
    job = Job()
    assert job.writer.end().requested_time is None
    job.stream.complete(None)


def test_limits_must_be_possible() -> None:
    with pytest.raises(ValueError, match="bucket_bytes"):
        Limits(bucket_bytes=2, memory_bytes=1)


def test_the_number_of_a_task_is_not_negative() -> None:
    job = Job()
    with pytest.raises(ValueError, match="0 or greater"):
        TaskWriter(job.stream, -1, job.files)


def test_rows_behind_a_barrier_belong_to_the_next_checkpoint() -> None:
    job = Job()
    job.writer.write(rows_of(0, 5))
    first = job.writer.barrier(1)
    job.writer.write(rows_of(5, 8))
    job.stream.complete(1)
    assert latest_numbers(job.visible()) == latest_numbers(rows_of(0, 5))
    second = job.writer.barrier(2)
    assert (first.rows, second.rows) == (5, 3)
    job.stream.complete(2)
    assert latest_numbers(job.visible()) == latest_numbers(rows_of(0, 8))
