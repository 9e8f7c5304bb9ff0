"""The batches of a streaming query: each becomes one instant of a stream of the table, exactly once.

The id of a batch is the checkpoint id of the coordinator (docs/concepts/streams.md). A batch begins when the
engine has recorded the one before it as done, so opening the stream at batch n keeps what is staged before n.
Files that a dead driver has staged for batch n itself are rolled back, and written again.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator
from typing import Final

import chronolake
from chronolake.errors import ChronolakeError, StreamFenced, StreamNotFound
from chronolake.writing.choices import Replayed
from chronolake_model.instants import Instant
from chronolake_model.streams import StreamInstant
from chronolake_model.vocabulary import Direction, Operation, State, TimeOrder
from chronolake_spark.stream import failures, replays
from chronolake_spark.stream.acknowledgements import Acknowledger
from chronolake_spark.stream.replays import Planned
from chronolake_spark.write.options import STREAM_TASK, BatchOptions

LEASE_SECONDS: Final = 60
_WAIT_SECONDS: Final = 300.0
_LOG = logging.getLogger("chronolake.spark")


class BatchStream:
    """The stream of one run of a query. Its batches come one after the other.

    ``pending_max`` is how many batches may wait for their completion while the next one is written; with 0 each
    one completes before the query goes on. ``query_id`` is the id of the query, by which a query with a new
    checkpoint folder is told apart.
    """

    def __init__(
        self,
        table: chronolake.Table,
        name: str,
        *,
        query_id: str | None = None,
        pending_max: int = 0,
        replayed: Replayed = "fail",
    ) -> None:
        self.name = name
        self.query_id = query_id
        self.pending_max = pending_max
        self.owner: object | None = None
        """Is kept while batches are pending."""
        self._table = table
        self._replayed: Replayed = replayed
        self._stream: chronolake.StreamWriter | None = None
        self._is_open = False
        self._renewed_at = 0.0
        self._last: Instant | None = None
        self._acknowledger = Acknowledger(self._acknowledge, pending_max)

    def has_completed(self, batch: Planned) -> bool:
        """Whether the batch is written already. Opens the stream, which fences an earlier run of the query.

        Raises ``StreamMismatch`` for a batch that may be another one than that of its id, ``StreamFenced``, and
        what made the completion of an earlier batch fail.
        """
        self._acknowledger.wait()
        if not self._is_open:
            self._open(batch)
        return self._is_known(batch)

    @contextlib.contextmanager
    def begun(self, batch: Planned, operation: Operation) -> Iterator[BatchWrite]:
        """Begin the instant of a batch, and renew the lease of the stream meanwhile.

        If the block raises, the instant is rolled back, and the batch may begin again.
        """
        if not self._is_open:
            self._open(batch)
        stream = self._stream
        assert stream is not None
        self._renew(stream)
        with stream:
            try:
                given = stream.instant(
                    batch.batch_id,
                    STREAM_TASK,
                    operation=operation,
                    blocking=not self.pending_max,
                    wait_seconds=_WAIT_SECONDS if self.pending_max else 0.0,
                )
                yield BatchWrite(self._table.write(given.requested_time), given, stream.epoch)
            except BaseException as failure:
                self._is_open = False
                if isinstance(failure, Exception) and not isinstance(failure, StreamFenced):
                    self._roll_back(batch, failures.reason_of(failure))
                raise

    def complete(self, batch_id: int, requested_time: str) -> Instant:
        """Complete a batch whose files are reported, or have it completed in the background; its instant."""
        if self.pending_max:
            self._acknowledger.add(batch_id + 1)
        else:
            self._acknowledge(batch_id + 1)
        self._last = self._table.instant(requested_time)
        return self._last

    def flush(self) -> None:
        """Wait until no batch is pending. Raises what made a completion fail."""
        self._acknowledger.drain()

    def _open(self, batch: Planned, reason: str = "") -> None:
        """Open the stream at a batch: instants of earlier ones complete, one of this batch is rolled back."""
        if self._stream is not None and self._stream.refresh().epoch != self._stream.epoch:
            # Another query has opened it: this raises the error that names it.
            self._stream.heartbeat()
        is_new = self._is_new()
        if is_new:
            self._refuse_promised_elsewhere(batch)
        # A query that may not write with this name does not fence the one that does.
        self._last = None if is_new else self._last_completed()
        self._is_known(batch)
        self._stream = self._table.open_stream(
            self.name, restored_checkpoint=batch.batch_id, lease_seconds=LEASE_SECONDS, reason=reason
        )
        self._renewed_at = time.monotonic()
        if self._stream.refresh().checkpoints:
            self._stream.complete(batch.batch_id)
        # From here on no other query completes batches of the stream.
        self._last = None if is_new else self._last_completed()
        self._is_open = True
        if is_new and batch.batch_id == 0:
            self._warn_of_others()
        elif is_new:
            self._warn_of_lack(batch)

    def _is_new(self) -> bool:
        """Whether no batch of the stream can have completed."""
        try:
            return self._table.stream(self.name, 1).refresh().acknowledged_checkpoint is None
        except StreamNotFound:
            return True

    def _last_completed(self) -> Instant | None:
        newest_first = self._table.instants(
            state=State.COMPLETED, order_by=TimeOrder.COMPLETION_TIME, direction=Direction.DESCENDING
        )
        return next((each for each in newest_first if each.stream and each.stream.name == self.name), None)

    def _is_known(self, batch: Planned) -> bool:
        return replays.has_completed(self.name, batch, self._last, self.query_id, self._replayed)

    def _renew(self, stream: chronolake.StreamWriter) -> None:
        """Renew the lease before an instant begins, because it may have ended while the query was idle.

        During a batch the stream renews it too, but only after a third of the lease: a batch may be shorter.
        """
        now = time.monotonic()
        if now - self._renewed_at > LEASE_SECONDS / 3:
            stream.heartbeat()
            self._renewed_at = now

    def _acknowledge(self, checkpoint: int) -> None:
        assert self._stream is not None
        self._stream.complete(checkpoint)

    def _roll_back(self, batch: Planned, reason: str) -> None:
        """Roll back the instant of a failed batch. If that fails, the next opening or the lease does it."""
        with contextlib.suppress(ChronolakeError):
            self._acknowledger.drain()
            self._open(batch, reason)

    def _refuse_promised_elsewhere(self, batch: Planned) -> None:
        if self.query_id is None:
            return
        pending = [stream.name for stream in self._table.streams() if stream.checkpoints]
        others = (self._table.stream(name, 1).refresh() for name in pending if name != self.name)
        refusal = replays.promised_elsewhere(self.name, batch, others, self.query_id)
        if refusal is not None:
            raise refusal

    def _warn_of_lack(self, batch: Planned) -> None:
        _LOG.warning(
            "%s: the query continues with batch %d, and the stream %s of this table has none of its batches. "
            "If the query wrote another stream or table before, or this table was dropped and made again, the "
            "rows of the earlier batches are not here: to load them, use a new checkpoint folder",
            self._table.name,
            batch.batch_id,
            self.name,
        )

    def _warn_of_others(self) -> None:
        if not replays.is_query_id(self.name):
            return
        streams = self._table.streams()
        others = [each for each in streams if replays.is_query_id(each.name) and each.name != self.name]
        if others:
            latest = max(others, key=lambda stream: stream.opened_at)
            _LOG.warning(
                "%s: the query %s begins with batch 0. Other queries have written the table, the last one was "
                "%s. If this one has a new checkpoint folder and reads the same source again, its rows come a "
                "second time: stop it, and continue with the old folder, or name the stream",
                self._table.name,
                self.name,
                latest.name,
            )


class BatchWrite:
    """The instant of a batch that has begun."""

    def __init__(self, write: chronolake.Write, given: StreamInstant, epoch: int) -> None:
        self.write = write
        self.options = BatchOptions(given, epoch)


class StreamBatch:
    """One batch of a stream, for ``writes.Settings``."""

    def __init__(self, stream: BatchStream, planned: Planned) -> None:
        self._stream = stream
        self._planned = planned
        self._begun: BatchWrite | None = None

    @property
    def options(self) -> BatchOptions:
        """The options that executors need of it, while it is begun."""
        assert self._begun is not None
        return self._begun.options

    @contextlib.contextmanager
    def begun(self, operation: Operation) -> Iterator[chronolake.Write]:
        """As ``BatchStream.begun``."""
        with self._stream.begun(self._planned, operation) as begun:
            self._begun = begun
            yield begun.write

    def complete(self) -> Instant:
        """As ``BatchStream.complete``."""
        return self._stream.complete(self._planned.batch_id, self.options.instant.requested_time)
