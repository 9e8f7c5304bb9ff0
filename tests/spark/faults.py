"""Faults of attempts of tasks, raised from within them: a data source that fails on demand."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceWriter
from pyspark.sql.types import StructType

import chronolake
from chronolake_spark.write.data_source import ChronolakeWriter, FileGroupsDataSource, Message
from chronolake_spark.write.options import WriteOptions
from chronolake_storage import deletions
from tests.processes import wait_until

Fault: TypeAlias = Callable[[TaskContext, WriteOptions], None]

WAIT_SECONDS_MAX = 300.0
LAST_PARTITION = 3


def source_with(fault: Fault) -> type[FileGroupsDataSource]:
    """The data source; each attempt meets ``fault`` once all its files but the last are written.

    Workers get the classes by value, for they are made here: so ``fault`` travels with them.
    """
    # typing.override is Python 3.12's.

    class Writer(ChronolakeWriter):
        def write(self, iterator: Iterator[pa.RecordBatch]) -> Message:  # type: ignore[explicit-override]
            context = TaskContext.get()
            try:
                return super().write(iterator)
            finally:
                name = f"ended-{context.partitionId()}-{context.attemptNumber()}"
                (signals(self._options.table.base_path) / name).touch()

        def grouped(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:  # type: ignore[explicit-override]
            context, options = TaskContext.get(), self._options
            return _followed_by(super().grouped(rows), lambda: fault(context, options))

        def abort(self, messages: Sequence[Message | None]) -> None:  # type: ignore[explicit-override]
            # Each file by itself, so that a test can come in between two.
            deletions.FILES_AT_ONCE = 1  # type: ignore[misc]
            super().abort(messages)

    class Source(FileGroupsDataSource):
        def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # type: ignore[explicit-override]
            writer = super().writer(schema, overwrite)
            writer.__class__ = Writer
            return writer

    return Source


def signals(base_path: str) -> Path:
    """The folder in which faults tell tests how far they are."""
    folder = Path(f"{base_path}-signals")
    folder.mkdir(exist_ok=True)
    return folder


def raise_first(context: TaskContext, _options: WriteOptions) -> None:
    """The first attempt of each task fails, and may clean up after itself."""
    if context.attemptNumber() == 0:
        raise OSError("the disk is full")


def die_first(context: TaskContext, _options: WriteOptions) -> None:
    """The first attempt of each task is killed, and leaves its files."""
    if context.attemptNumber() == 0:
        os.kill(os.getpid(), signal.SIGKILL)


def die_last(context: TaskContext, _options: WriteOptions) -> None:
    """Each attempt of the last task is killed, so the job fails."""
    if context.partitionId() == LAST_PARTITION:
        os.kill(os.getpid(), signal.SIGKILL)


def roll_back(context: TaskContext, options: WriteOptions) -> None:
    """Another client rolls the write back while its first attempts run."""
    if (context.partitionId(), context.attemptNumber()) == (0, 0):
        with chronolake.connect(options.access) as client:
            client.table_of(options.table).write(options.requested_time).rollback("not wanted any more")


def stand_still(_context: TaskContext, options: WriteOptions) -> None:
    """Every attempt waits to be killed."""
    (signals(options.table.base_path) / "reached").touch()
    time.sleep(WAIT_SECONDS_MAX)


def come_late(context: TaskContext, options: WriteOptions) -> None:
    """The first attempt of the first task continues when another has won and is published."""
    if (context.partitionId(), context.attemptNumber()) != (0, 0):
        return
    signs = signals(options.table.base_path)
    (signs / "reached").touch()
    with chronolake.connect(options.access) as client:
        table = client.table_of(options.table)
        wait_until(lambda: not table.instant(options.requested_time).state.is_pending)
    (signs / "late").touch()


def _followed_by(batches: Iterator[pa.RecordBatch], then: Callable[[], None]) -> Iterator[pa.RecordBatch]:
    yield from batches
    then()
