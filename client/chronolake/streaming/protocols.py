"""The needs of a task writer: a stream, which gives instants, and the files of a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from chronolake_model.files import WriteStat
from chronolake_model.slices import BucketName
from chronolake_model.streams import ReportedWriteMetadata, StreamInstant
from chronolake_model.vocabulary import Operation


class TaskStream(Protocol):
    """The requests of a task, as ``chronolake.StreamWriter`` has them."""

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
        """The instant of a checkpoint. Raises ``InstantNotYet``."""

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
        """Report files."""

    def end(self, task: str, checkpoint: int, *, attempt: int = 0) -> ReportedWriteMetadata:
        """Report the end of the input of a task without an instant."""

    def restart_task(self, task: str, restored_checkpoint: int | None) -> int:
        """Drop the reports after a checkpoint; returns the next attempt."""


@dataclass(frozen=True, slots=True)
class Flushed:
    """The result of a flush: the files, and the rows that are not in them.

    ``unchanged`` rows change nothing. The ``held`` rows of a bucket stay in its buffer until a later flush of
    the checkpoint.
    """

    stats: Sequence[WriteStat]
    unchanged: int = 0
    held: Mapping[BucketName, pa.Table] = field(default_factory=dict)


class TaskFiles(Protocol):
    """The files of one task. One thread calls its methods."""

    @property
    def blocking(self) -> bool:
        """Whether the files may conflict with other writes, so that the instants must be blocking.

        Then the base file of a later flush of a bucket, in one instant, has what that of the earlier flush has,
        and takes its place.
        """

    def by_bucket(self, rows: pa.Table, deletes: pa.Array | bool) -> Mapping[BucketName, pa.Table]:
        """The rows of each bucket, as ``latest`` and ``write`` take them, each in memory of its own.

        Raises an error for rows that cannot be written: once they are buffered, it is too late for that.
        """

    def latest(self, rows: pa.Table) -> pa.Table:
        """The row that wins of each record key of a bucket. ``rows`` are in the order of their arrival."""

    def write(
        self,
        instant: StreamInstant,
        task: int,
        number: int,
        rows: Mapping[BucketName, pa.Table],
        *,
        is_last: bool,
    ) -> Flushed:
        """Mark a file for each bucket, and write it. ``rows`` have one row for each record key.

        ``number`` counts the flushes of the task. No two calls write files of one name, also after a failure.
        If the flush ``is_last`` for its checkpoint, it holds no rows.
        """
