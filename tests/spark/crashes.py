"""Crashes at named points of a write: of its tasks, or of the process that commits it."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSourceWriter
from pyspark.sql.types import StructType

import chronolake
from chronolake.slices.base_files import TableFolder
from chronolake.writing.task_markers import TaskMarkers
from chronolake_model.markers import Marker
from chronolake_spark.write.data_source import ChronolakeWriter, FileGroupsDataSource, Message
from tests.spark import faults

TASK_POINTS = ("task:before_marker", "task:after_marker", "task:in_file")
COMMIT_POINTS = ("commit:before_complete", "commit:after_complete")


def die(base_path: str) -> None:
    """Kill this process, unless it runs a second attempt of a task."""
    context = TaskContext.get()
    if context is None or context.attemptNumber() == 0:
        (faults.signals(base_path) / "killed").touch()
        os.kill(os.getpid(), signal.SIGKILL)


def stand_still(base_path: str) -> None:
    """Wait to be killed."""
    (faults.signals(base_path) / "reached").touch()
    time.sleep(faults.WAIT_SECONDS_MAX)


def register(spark: SparkSession, point: str, crash: Callable[[str], None]) -> None:
    """Let each write of the session meet a crash at a point."""
    spark.dataSource.register(_source(point, crash))


def unregister(spark: SparkSession) -> None:
    """Let no write meet a crash."""
    spark.dataSource.register(FileGroupsDataSource)


def _source(point: str, crash: Callable[[str], None]) -> type[FileGroupsDataSource]:
    # Workers get the classes by value, for they are made here.
    class Writer(ChronolakeWriter):
        def write(self, iterator: Iterator[pa.RecordBatch]) -> Message:  # type: ignore[explicit-override]
            with _at(point, "task", lambda: crash(self.job.base_path)):
                return super().write(iterator)

        def commit(self, messages: Sequence[Message | None]) -> None:  # type: ignore[explicit-override]
            with _at(point, "commit", lambda: crash(self.job.base_path)):
                super().commit(messages)

    class Source(FileGroupsDataSource):
        def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # type: ignore[explicit-override]
            writer = super().writer(schema, overwrite)
            writer.__class__ = Writer
            return writer

    return Source


@contextlib.contextmanager
def _at(point: str, phase: str, crash: Callable[[], None]) -> Iterator[None]:
    """Crash at the point, if it is one of this phase. Workers are used again, so the patches end."""
    of_phase, _, name = point.partition(":")
    if of_phase != phase:
        yield
        return
    create, complete = TaskMarkers.create, chronolake.Write.complete

    def marked(markers: TaskMarkers, wanted: Iterable[Marker]) -> None:
        new = list(wanted)
        if new and name == "before_marker":
            crash()
        create(markers, new)
        if new and name == "after_marker":
            crash()

    def completed(*args: Any, **kwargs: Any) -> Any:
        if name == "before_complete":
            crash()
        answer = complete(*args, **kwargs)
        if name == "after_complete":
            crash()
        return answer

    with (
        mock.patch.object(TaskMarkers, "create", marked),
        mock.patch.object(chronolake.Write, "complete", completed),
        _torn_files(crash) if name == "in_file" else contextlib.nullcontext(),
    ):
        yield


@contextlib.contextmanager
def _torn_files(crash: Callable[[], None]) -> Iterator[None]:
    """Crash when half of a file is written."""
    create = TableFolder.create

    @contextlib.contextmanager
    def torn(folder: TableFolder, relative: str) -> Iterator[pa.NativeFile]:
        with create(folder, relative) as sink:
            yield sink
        file = Path(folder.path(relative))
        content = file.read_bytes()
        file.write_bytes(content[: len(content) // 2])
        crash()
        # A second attempt, which does not crash.
        file.write_bytes(content)

    with mock.patch.object(TableFolder, "create", torn):
        yield
