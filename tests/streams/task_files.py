"""A stream and files in memory for task writers: storage fails, answers are lost, and instants have to wait."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from chronolake import errors
from chronolake.streaming import Flushed
from chronolake_model import streams as wire
from chronolake_model.file_names import bucket_file_id, log_file_name
from chronolake_model.files import WriteStat
from chronolake_model.slices import BucketName
from chronolake_model.streams import ReportedWriteMetadata, StreamInstant
from chronolake_model.vocabulary import Operation
from tests.streams.engine import Refused
from tests.streams.in_memory import STREAM, TABLE, InMemory

BUCKETS = 3
_keys = (f"task-writer-{number}" for number in itertools.count())
_processes = itertools.count()


class StreamInMemory:
    """One epoch of a stream over the coordinator in memory. ``is_waiting`` if it gives no instants."""

    def __init__(self, coordinator: InMemory, restored_checkpoint: int | None = None) -> None:
        self._coordinator = coordinator
        body = wire.OpenStream("writer", tasks=1, restored_checkpoint=restored_checkpoint)
        self._epoch = coordinator.open(next(_keys), body).epoch
        self.is_waiting = False
        self.loses_answer = False
        self.requested: list[int] = []
        """The checkpoints of the instants that were asked for."""

    def instant(
        self,
        checkpoint: int,
        task: str,
        *,
        attempt: int = 0,
        operation: Operation = Operation.UNKNOWN,
        blocking: bool = False,
        wait_seconds: float = 0.0,
    ) -> StreamInstant:
        self.requested.append(checkpoint)
        if self.is_waiting:
            raise errors.InstantNotYet("the stream gives no instant")
        body = wire.RequestInstant(self._epoch, task, checkpoint, attempt, blocking=blocking)
        time = self._coordinator.instant(next(_keys), body)
        return StreamInstant(TABLE, STREAM, checkpoint, time, blocking)

    def report(
        self,
        instant: StreamInstant,
        task: str,
        write_stats: Iterable[WriteStat] = (),
        *,
        attempt: int = 0,
        last_batch: bool = False,
        end_of_input: bool = False,
    ) -> ReportedWriteMetadata:
        stats = list(write_stats)
        body = wire.ReportWriteMetadata(
            self._epoch,
            task,
            instant.checkpoint,
            attempt,
            requested_time=instant.requested_time,
            write_stats=stats,
            last_batch=last_batch,
            end_of_input=end_of_input,
        )
        self._coordinator.report(next(_keys), body)
        if self.loses_answer:
            self.loses_answer = False
            raise errors.ConnectionFailed("the answer was lost")
        return ReportedWriteMetadata(TABLE, STREAM, instant.checkpoint, instant.requested_time, len(stats))

    def end(self, task: str, checkpoint: int, *, attempt: int = 0) -> ReportedWriteMetadata:
        body = wire.ReportWriteMetadata(
            self._epoch, task, checkpoint, attempt, last_batch=True, end_of_input=True
        )
        self._coordinator.report(next(_keys), body)
        return ReportedWriteMetadata(TABLE, STREAM, checkpoint, None, 0)

    def restart_task(self, task: str, restored_checkpoint: int | None) -> int:
        return self._coordinator.restart(next(_keys), wire.RestartTask(self._epoch, task, restored_checkpoint))

    def complete(self, checkpoint: int | None) -> None:
        """Acknowledge a checkpoint; files that no task has reported are deleted first."""
        while True:
            try:
                self._coordinator.complete(next(_keys), wire.CompleteCheckpoints(self._epoch, checkpoint))
                return
            except Refused as refused:
                if refused.code != "unreconciled-markers":
                    raise
                names = [file["file_name"] for file in refused.context["files"]]
                self._coordinator.delete(refused.context["checkpoint_instant"], names)


class FilesInMemory:
    """Log files in memory. The rows have a key, whose remainder is the bucket, and a number of their own."""

    blocking = False

    def __init__(self, coordinator: InMemory, storage: dict[str, pa.Table]) -> None:
        self._coordinator = coordinator
        self._storage = storage
        self._process = next(_processes)
        self.fails = False
        """Whether the storage fails after the first file of the next flush."""
        self.flushed: list[list[BucketName]] = []
        """The buckets of each flush before a barrier."""

    def by_bucket(self, rows: pa.Table, deletes: pa.Array | bool) -> dict[BucketName, pa.Table]:
        assert deletes is False
        places = rows["key"].to_numpy() % BUCKETS
        parts = {bucket: rows.filter(pa.array(places == bucket)) for bucket in range(BUCKETS)}
        return {BucketName("", bucket): part for bucket, part in parts.items() if len(part)}

    def latest(self, rows: pa.Table) -> pa.Table:
        last = {key: place for place, key in enumerate(rows["key"].to_pylist())}
        return rows.take(pa.array(sorted(last.values())))

    def write(
        self,
        instant: StreamInstant,
        task: int,
        number: int,
        rows: Mapping[BucketName, pa.Table],
        *,
        is_last: bool,
    ) -> Flushed:
        if not is_last:
            self.flushed.append(list(rows))
        stats = []
        for bucket, part in rows.items():
            file_id = bucket_file_id(bucket.bucket)
            token = f"{task}-{self._process}-{number:06}"
            name = log_file_name(file_id, token, instant.requested_time)
            assert name not in self._storage, "two flushes wrote files of one name"
            self._coordinator.mark(instant.requested_time, name)
            self._storage[name] = part
            count = len(part)
            stats.append(WriteStat("", file_id, name, size_bytes=count, records=count, updates=count))
            if self.fails:
                self.fails = False
                raise errors.StorageFailed("the disk is full")
        return Flushed(stats)


def visible_rows(coordinator: InMemory, storage: Mapping[str, pa.Table]) -> pa.Table:
    """The rows of all files of completed instants, in the order in which readers take them."""
    names = [name for _, _, names in coordinator.visible() for name in sorted(names)]
    return pa.concat_tables([rows_of(0, 0), *(storage[name] for name in names)])


def rows_of(start: int, end: int, bytes_of_row: int = 8) -> pa.Table:
    """The rows of the source with these numbers: the same ones each time, of few keys."""
    numbers = pa.array(range(start, end), pa.int64())
    keys = [number * 7 % 5 + number // 11 % 3 for number in range(start, end)]
    padding = pa.array([b"x" * bytes_of_row] * (end - start), pa.binary())
    return pa.table({"key": pa.array(keys, pa.int64()), "number": numbers, "padding": padding})


def latest_numbers(rows: pa.Table) -> dict[int, int]:
    """The number of the last row of each key."""
    return dict(zip(rows["key"].to_pylist(), rows["number"].to_pylist(), strict=True))


def are_unique(rows: pa.Table) -> bool:
    """Whether no row is there twice."""
    return bool(pc.count_distinct(rows["number"]).as_py() == len(rows))
