"""The writer of one task of a stream: it buffers rows by bucket, flushes them, and reports at each barrier."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec
import pyarrow as pa

from chronolake import errors
from chronolake.streaming.buffers import Buffers, size_of
from chronolake.streaming.protocols import TaskFiles, TaskStream
from chronolake.streaming.written import WriteStats, Written
from chronolake_model.slices import BucketName
from chronolake_model.streams import NO_CHECKPOINT, StreamInstant
from chronolake_model.vocabulary import Operation

WAIT_SECONDS: Final = 60.0
_ASK_AGAIN_SECONDS: Final = 0.2
"""How long no instant is asked for after the answer "not yet", while there is still room in the buffers."""
_REPORTED_FILES: Final = 1_000
"""Number of log files that are reported at once, before the barrier, which bounds the memory of write stats."""


class Limits(msgspec.Struct, frozen=True):
    """When rows are flushed before the barrier, in bytes of memory.

    A bucket is flushed before it would have more than ``bucket_bytes`` (Hudi: write.batch.size). The buffers of
    a task never have more than ``memory_bytes`` (Hudi: write.task.max.size): before they would, the largest are
    flushed. A flush itself takes a few times the rows of its bucket.
    """

    bucket_bytes: int = 64 * 2**20
    memory_bytes: int = 256 * 2**20

    def __post_init__(self) -> None:
        if not 0 < self.bucket_bytes <= self.memory_bytes:
            raise ValueError("bucket_bytes must be greater than 0, and not greater than memory_bytes")


class TaskWriter:
    """Writes the rows of one task of a stream. One thread uses it.

        with table.open_stream("clicks-job", tasks=1) as stream:
            writer = TaskWriter(stream, 0, StreamFiles(table))
            writer.write(batch)
            writer.barrier(1)
            stream.complete(1)  # once all tasks have passed barrier 1, and the engine has stored their state

    No two tasks of a stream may get rows of one bucket. ``task`` is the number of the task. The tasks of a job
    that is restored from a checkpoint name it as ``restored_checkpoint``; a task that restarts alone calls
    ``restart``. If a call fails, it may be repeated, or the task restarted: no row is lost or visible twice.
    """

    def __init__(
        self,
        stream: TaskStream,
        task: int,
        files: TaskFiles,
        *,
        restored_checkpoint: int | None = None,
        limits: Limits = Limits(),  # noqa: B008  # frozen
        operation: Operation = Operation.UPSERT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if task < 0:
            raise ValueError(f"the number of a task is 0 or greater, not {task}")
        self._stream = stream
        self._task = task
        self._files = files
        self._limits = limits
        self._operation = operation
        self._clock = clock
        self._attempt = 0
        self._numbers = 0
        self._buffers = Buffers()
        self._last: Written | None = None
        self._reset(restored_checkpoint)

    @property
    def buffered_bytes(self) -> int:
        """The bytes of the rows in the buffers: ``Limits.memory_bytes`` at most."""
        return self._buffers.bytes

    @property
    def written(self) -> Written:
        """The rows and files that were flushed since the last barrier. Rows in the buffers do not count."""
        return msgspec.structs.replace(self._written, files=self._stats.summary())

    def write(
        self,
        rows: pa.RecordBatch | pa.Table,
        *,
        deletes: pa.Array | bool = False,
        wait_seconds: float = WAIT_SECONDS,
    ) -> None:
        """Take rows. ``deletes`` says which of them delete the record of their key.

        Later rows count before earlier ones of the same key, unless the table has an ordering field that
        decides. Raises ``BuffersFull`` when there is no room for the rows after ``wait_seconds``, because the
        stream gives no instant yet: then none of them is taken, so write them again later. 0 never waits. In
        blocking mode the instant comes after the acknowledgement of an earlier checkpoint: do not wait in the
        thread that delivers it. Raises ``ValueError`` for more rows than the buffers can hold.
        """
        if isinstance(rows, pa.RecordBatch):
            rows = pa.Table.from_batches([rows])
        parts = self._files.by_bucket(rows, deletes)
        sizes = {bucket: size_of(part) for bucket, part in parts.items()}
        # All that can fail comes before the first row is taken.
        self._flush_large(sizes)
        self._make_room(sum(sizes.values()), wait_seconds)
        for bucket, part in parts.items():
            self._buffers.add(bucket, part)

    def barrier(self, checkpoint: int, *, wait_seconds: float = WAIT_SECONDS) -> Written:
        """Write and report everything that belongs before the barrier of a checkpoint, and pass it.

        Afterwards the engine may store the state of the task. Returns what was written since the last barrier.
        The call may be repeated. Raises ``InstantNotYet`` when there is no instant after ``wait_seconds``, and
        ``ValueError`` if the task has passed a later barrier.
        """
        if checkpoint == self._checkpoint and self._last is not None:
            return self._last
        if checkpoint <= self._checkpoint:
            raise ValueError(
                f"the task has passed barrier {self._checkpoint}: barrier {checkpoint} cannot come after it"
            )
        last = self._finish(wait_seconds, end_of_input=False)
        self._reset(checkpoint)
        self._last = last
        return last

    def end(self, *, wait_seconds: float = WAIT_SECONDS) -> Written:
        """Write and report all that is left: the input has ended. The call may be repeated.

        Raises ``InstantNotYet`` as ``barrier`` does.
        """
        return self._finish(wait_seconds, end_of_input=True)

    def restart(self, restored_checkpoint: int | None) -> None:
        """Begin again after a checkpoint, alone: later files of the task do not count any more.

        The other tasks go on. The buffers are emptied: the engine gives these rows again. Without a checkpoint
        the task begins from the start.
        """
        self._attempt = self._stream.restart_task(str(self._task), restored_checkpoint)
        self._buffers.clear()
        self._reset(restored_checkpoint)

    def _reset(self, checkpoint: int | None) -> None:
        """Begin after the barrier of a checkpoint, with nothing written."""
        self._checkpoint = NO_CHECKPOINT if checkpoint is None else checkpoint
        self._instant: StreamInstant | None = None
        self._ask_at = self._clock()
        self._stats = WriteStats()
        self._written = Written(self._checkpoint)
        self._last = None

    def _make_room(self, size: int, wait_seconds: float) -> None:
        """Flush the largest buffers until this number of bytes has room."""
        memory = self._limits.memory_bytes
        if size > memory:
            raise ValueError(
                f"the rows take {size} bytes, and the buffers hold {memory}: write them in parts, or give the "
                "writer a larger memory_bytes"
            )
        until = self._clock() + wait_seconds
        while self._buffers.bytes + size > memory:
            bucket = self._buffers.largest()
            if bucket is None:
                raise errors.BuffersFull(
                    f"deletes take {self._buffers.bytes} of the {memory} bytes of the buffers, and are written "
                    "at the barrier only: take a checkpoint, or give the writer a larger memory_bytes"
                )
            try:
                self._request_instant(max(0.0, until - self._clock()))
            except errors.InstantNotYet as exc:
                raise errors.BuffersFull(
                    f"the buffers have {self._buffers.bytes} of {memory} bytes, and the stream gives no "
                    "instant yet to write them: acknowledge the checkpoints that are complete, then write the "
                    "rows again"
                ) from exc
            self._flush([bucket], is_last=False)

    def _flush_large(self, sizes: Mapping[BucketName, int]) -> None:
        """Flush the buckets that would pass their size by this number of bytes, unless there is no instant."""
        limit = self._limits.bucket_bytes
        large = [bucket for bucket, size in sizes.items() if 0 < self._buffers.flushable(bucket) > limit - size]
        if not large or (self._instant is None and self._clock() < self._ask_at):
            return
        try:
            self._request_instant(0.0)
        except errors.InstantNotYet:
            self._ask_at = self._clock() + _ASK_AGAIN_SECONDS
            return
        for bucket in large:
            self._flush([bucket], is_last=False)

    def _finish(self, wait_seconds: float, *, end_of_input: bool) -> Written:
        """Flush all buckets, and report the last batch."""
        if len(self._buffers):
            self._request_instant(wait_seconds)
        while buckets := self._buffers.first(self._limits.bucket_bytes):
            self._flush(buckets, is_last=True)
        if self._instant is not None:
            self._stream.report(
                self._instant,
                str(self._task),
                self._stats.unreported,
                attempt=self._attempt,
                last_batch=True,
                end_of_input=end_of_input,
            )
        elif end_of_input:
            self._stream.end(str(self._task), self._checkpoint, attempt=self._attempt)
        return self.written

    def _request_instant(self, wait_seconds: float) -> StreamInstant:
        """The instant of the rows after the last barrier: requested at the first flush, not before."""
        if self._instant is None:
            self._instant = self._stream.instant(
                self._checkpoint,
                str(self._task),
                attempt=self._attempt,
                operation=self._operation,
                blocking=self._files.blocking,
                wait_seconds=wait_seconds,
            )
            self._written = msgspec.structs.replace(self._written, requested_time=self._instant.requested_time)
        return self._instant

    def _flush(self, buckets: Sequence[BucketName], *, is_last: bool) -> None:
        """Write the rows of some buckets. After a failure they are still in the buffers."""
        assert self._instant is not None, "a flush needs an instant"
        # A failed flush may have left files, so its number is not used again.
        self._numbers += 1
        latest = {bucket: self._files.latest(self._buffers.rows(bucket)) for bucket in buckets}
        flushed = self._files.write(self._instant, self._task, self._numbers, latest, is_last=is_last)
        taken = sum(map(self._buffers.count, buckets))
        for bucket in buckets:
            self._buffers.flushed(bucket, flushed.held.get(bucket))
        for stat in flushed.stats:
            self._stats.add(stat)
        written = self._written
        self._written = msgspec.structs.replace(
            written,
            flushes=written.flushes + 1,
            rows=written.rows + taken - sum(map(len, flushed.held.values())),
            superseded=written.superseded + taken - sum(map(len, latest.values())),
            unchanged=written.unchanged + flushed.unchanged,
        )
        self._report_many()

    def _report_many(self) -> None:
        """Report log files before the barrier, if they are many."""
        log_files = self._stats.log_files
        if self._instant is None or len(log_files) < _REPORTED_FILES:
            return
        self._stream.report(self._instant, str(self._task), log_files, attempt=self._attempt)
        self._stats.log_files_reported()
