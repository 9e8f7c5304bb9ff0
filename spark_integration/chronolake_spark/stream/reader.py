"""The source of ``readStream``: what completed in a table, batch by batch.

One process of the driver keeps the reader for as long as the query runs, and asks the server; the tasks only
read files. A reader's lease holds the files that the query has still to read. It goes on while the query is
stopped, for ``lease_seconds``, so that the query can be started again
(docs/decisions/0060-following-readers.md).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

import chronolake
from chronolake.errors import ChronolakeError, HistoryCleaned, InvalidRequest, ReaderNotFound, TableNotFound
from chronolake_model.times import Bound
from chronolake_model.vocabulary import Direction, State, TimeOrder
from chronolake_spark import errors
from chronolake_spark.read.format_reader import TableView
from chronolake_spark.stream import offsets, plans, read_options, tasks as stream_tasks
from chronolake_spark.stream.offsets import BEGINNING, StreamOffset
from chronolake_spark.stream.plans import BatchLimits
from chronolake_spark.stream.read_options import FeedCursor, StreamOptions
from chronolake_spark.stream.task_reads import DeletesPartition, UpsertsPartition

_FILES_MAX = 2**31 - 1


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]  # pyspark is untyped here
    """The reader that Spark makes, twice: in the process of the query, and to pickle ``read`` for tasks."""

    def __init__(self, options: Mapping[str, str], view: TableView | None, struct: StructType) -> None:
        # Not parsed here: PySpark would replace the error by one of its own.
        self._given = dict(options)
        self._view = view
        self._struct = struct
        self._following: FollowedChanges | None = None

    @property
    def _options(self) -> StreamOptions:
        return read_options.parse(self._given)

    def initialOffset(self) -> dict[str, str]:
        """Where the query begins, unless its checkpoint has an offset."""
        return self._followed().initial().to_dict()

    def getDefaultReadLimit(self) -> ReadLimit:
        """The limits of the options, as Spark's own kind of limit: it comes back unless a trigger lifts it."""
        return ReadMaxFiles(self._options.limits.files or _FILES_MAX)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Where the next batch ends; ``start`` if there is nothing to read."""
        limits = BatchLimits() if isinstance(limit, ReadAllAvailable) else self._options.limits
        end = self._followed().end_of_batch(StreamOffset.of(start), limits)
        return start if end is None else end.to_dict()

    def prepareForTriggerAvailableNow(self) -> None:
        """Read the instants that have completed by now, and no later ones."""
        self._followed().stop_at_latest()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The tasks of a batch."""
        return self._followed().tasks(StreamOffset.of(start), StreamOffset.of(end))

    def read(self, partition: UpsertsPartition | DeletesPartition) -> Iterator[pa.RecordBatch]:
        """The records of one task, on an executor."""
        return partition.batches()

    def commit(self, end: dict[str, Any]) -> None:
        """Let cleans have the files that only batches up to this offset needed."""
        self._followed().release_until(StreamOffset.of(end))

    def stop(self) -> None:
        """Leave the lease to a later start of the query."""
        if self._following is not None:
            self._following.close()

    def _followed(self) -> FollowedChanges:
        if self._following is None:
            self._following = FollowedChanges(self._options, self._view, self._struct)
        return self._following


class FollowedChanges:
    """A query that follows the changes of a table. One thread calls it."""

    def __init__(
        self,
        options: StreamOptions,
        view: TableView | None,
        struct: StructType,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._options = options
        self._view = view
        self._struct = struct
        self._clock = clock
        self._sleep = sleep
        self._client = chronolake.connect(
            options.table.access, storage_options=options.table.storage_options or None
        )
        self._table = self._client.table(options.table.table)
        self._reading: chronolake.Reading | None = None
        self._initial: StreamOffset | None = None
        self._last: str | None = None
        """With the trigger AvailableNow: the completion time at which the query ends."""
        self._asks_again_at = 0.0
        """When the server is asked again, after it had nothing new."""

    def initial(self) -> StreamOffset:
        """Where the query begins: the same offset for as long as this process lives."""
        if self._initial is None:
            begin = self._options.begin
            if isinstance(begin, FeedCursor):
                begin = self._time_of(begin)
            if isinstance(begin, StreamOffset):
                self._check_table(begin)
                # Not the lease of the offset, which is that of another query.
                self._reading = self._lease(begin.completed or Bound.EARLIEST)
                began = begin.completed
            else:
                # The lease is taken first: the server says in one answer what it holds.
                self._reading = self._lease(begin)
                is_first = begin == Bound.EARLIEST
                held = self._reading.as_of or BEGINNING
                began = BEGINNING if is_first else held if begin == Bound.LATEST else begin
            self._initial = StreamOffset(self._table_id, began, began, self._lease_id)
        return self._initial

    def _time_of(self, cursor: FeedCursor) -> str:
        """The completion time after which the table's completions are those after the cursor."""
        try:
            time = self._client.time_of_cursor(cursor.text, self._table.name)
        except InvalidRequest as exc:
            raise errors.InvalidOption(
                f"the option after: {cursor.text[:100]!r} is no cursor of the events of {self._table.name}, "
                "nor of those of all tables. It is another table's, also of a dropped one with this name, or "
                "of another metastore. Begin with the option from",
                {"option": "after"},
            ) from exc
        return Bound.EARLIEST if time is None else time

    def end_of_batch(self, start: StreamOffset, limits: BatchLimits) -> StreamOffset | None:
        """The end of the batch after ``start``; None, after a pause, if nothing has completed since."""
        self._check_table(start)
        self._hold(start)
        if self._last is not None and not offsets.is_before(start.completed, self._last):
            return None
        if (pause := self._asks_again_at - self._clock()) > 0:
            # Without data Spark asks all the time.
            self._sleep(pause)
        with self._explained(start):
            completed = self._planned(start, limits)
            if completed is None:
                self._asks_again_at = self._clock() + self._options.idle_ms / 1_000
                return None
            # Before the offset is in the checkpoint: the batch cannot be read with these columns.
            stream_tasks.fields_of(self._table.reload().definition, self._struct, self._view)
        return start.at(completed).with_lease(self._lease_id)

    def stop_at_latest(self) -> None:
        """Let the query end at the last completion."""
        changing = self._table.instants(
            state=State.COMPLETED,
            action=plans.CHANGING,
            order_by=TimeOrder.COMPLETION_TIME,
            direction=Direction.DESCENDING,
            limit=1,
        )
        latest = next(iter(changing), None)
        self._last = BEGINNING if latest is None else latest.completion_time

    def tasks(self, start: StreamOffset, end: StreamOffset) -> list[InputPartition]:
        """The tasks that read a batch; none if no record changed."""
        start = offsets.start_of_batch(start, end)
        self._check_table(start)
        if start.completed == end.completed:
            return []
        self._hold(start)
        with self._explained(start):
            if start.completed == BEGINNING:
                return stream_tasks.of_snapshot(self._table, end.completed, self._struct, self._view)
            return stream_tasks.of_changes(
                self._table, start.completed, end.completed, self._struct, self._view
            )

    def release_until(self, end: StreamOffset) -> None:
        """Move the lease forward."""
        if self._reading is None or end.completed == BEGINNING:
            return
        try:
            self._reading.renew(as_of=end.completed)
        except ReaderNotFound:
            # The next batch takes another lease.
            self._reading.stop_renewing()
            self._reading = None
        except ChronolakeError:
            # The batch is done. A lease that was not moved holds more files than needed, until the next batch.
            return

    def close(self) -> None:
        """End the connection. The lease goes on until it expires."""
        if self._reading is not None:
            self._reading.stop_renewing()
            with contextlib.suppress(ChronolakeError):
                self._reading.renew()
            self._reading = None
        self._client.close()

    @property
    def _table_id(self) -> str:
        return self._table.definition.table_id

    @property
    def _lease_id(self) -> str:
        assert self._reading is not None, "an offset has a lease"
        return self._reading.lease.lease_id

    def _planned(self, start: StreamOffset, limits: BatchLimits) -> str | None:
        """The completion time at which the batch after ``start`` ends."""
        if start.completed == BEGINNING:
            cleaned_before = self._table.reload().definition.cleaned_before
            if cleaned_before is not None:
                return cleaned_before  # The table cannot be read as of an earlier time.
        instants = self._table.instants(
            state=State.COMPLETED,
            action=plans.CHANGING,
            order_by=TimeOrder.COMPLETION_TIME,
            completed_from=None if start.completed == BEGINNING else start.completed,
            completed_to=self._last,
            limit=limits.commits,
        )
        return plans.end_of_batch(instants, limits)

    def _check_table(self, offset: StreamOffset) -> None:
        if offset.table_id != self._table_id:
            raise errors.InvalidOption(
                f"the checkpoint folder is of another table than {self._table.name} is now: the table was "
                "dropped and made again, or the query reads another one. Start a new query with another "
                "checkpoint folder",
                {"checkpoint": offset.table_id, "table": self._table_id},
            )

    def _hold(self, offset: StreamOffset) -> None:
        """Make sure that a lease holds the files after an offset."""
        reading = self._reading
        if reading is not None and reading.lost is None and not self._is_behind(reading, offset):
            return
        self._reading = self._resumed(offset) or self._lease(offset.completed or Bound.EARLIEST)
        if reading is not None and reading.lease.lease_id != self._lease_id:
            reading.stop_renewing()
            with contextlib.suppress(ChronolakeError):
                reading.end()

    def _resumed(self, offset: StreamOffset) -> chronolake.Reading | None:
        """The lease of an earlier run of the query; None if it has ended, or has moved too far."""
        with contextlib.suppress(ReaderNotFound):
            reading = self._table.resume_reading(offset.lease_id, lease_seconds=self._options.lease_seconds)
            if not self._is_behind(reading, offset):
                reading.start_renewing()
                return reading
        return None

    @staticmethod
    def _is_behind(reading: chronolake.Reading, offset: StreamOffset) -> bool:
        """Whether a lease holds fewer files than those after an offset."""
        held = reading.as_of or BEGINNING
        # A query from the beginning reads the table as of a later time.
        return offset.completed != BEGINNING and offsets.is_before(offset.completed, held)

    def _lease(self, as_of: str) -> chronolake.Reading:
        """A new lease of this time and all later ones. Raises ``HistoryCleaned``."""
        with self._explained(None):
            reading = self._table.reading(
                as_of,
                reader=self._options.reader,
                lease_seconds=self._options.lease_seconds,
                follows=True,
            )
        reading.start_renewing()
        return reading

    @contextlib.contextmanager
    def _explained(self, start: StreamOffset | None) -> Iterator[None]:
        try:
            yield
        except HistoryCleaned as exc:
            first = exc.context.get("first_servable_time")
            raise errors.StreamBehind(
                f"a clean has deleted files of {self._table.name} that the stream has still to read: the table "
                f"can be read from {first} on. Start a new query with another checkpoint folder; with the "
                "option from = earliest it begins with all records as of then. The lease of a query that is "
                f"stopped holds its files for {self._options.lease_seconds:,} seconds (option lease_seconds)",
                {"first_servable_time": first, **({} if start is None else {"start": start.completed})},
            ) from exc
        except TableNotFound as exc:
            raise errors.InvalidOption(
                f"{exc}. If it was renamed, start the query with the new name and the same checkpoint folder"
            ) from exc
