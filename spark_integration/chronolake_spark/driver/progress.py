"""The progress of a write: a description of its jobs in Spark's UI, and a line in the terminal.

The description names the step of the write, with its rows and file groups as far as they are known. The line
also has the tasks and rows that are done, and the files that tasks have begun, by the markers of the instant.

The line is on stderr, only if that is a terminal, and gone at the end. ``CHRONOLAKE_PROGRESS=off``, or the
Spark setting ``spark.chronolake.progress`` with the value ``off``, switches it off.
"""

from __future__ import annotations

import contextlib
import contextvars
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession
from rich.console import Console
from rich.status import Status

from chronolake.errors import ChronolakeError
from chronolake_model.environment import PROGRESS_VARIABLE
from chronolake_model.file_names import parse_file_name
from chronolake_model.markers import Marker
from chronolake_model.names import counted
from chronolake_spark.driver import spark_internals

SETTING: Final = "spark.chronolake.progress"
_DESCRIPTION: Final = "spark.job.description"
_FIRST_SECONDS: Final = 1.0
"""Jobs that are done before show no line."""
_INTERVAL_SECONDS: Final = 0.5
_LISTING_SECONDS: Final = 2.0
"""The least pause between two listings of the markers of an instant."""
_LISTING_PAUSES: Final = 20
"""The pause after a listing, as a multiple of its duration: so listing many markers costs the server little."""
_shown_elsewhere = threading.Lock()


class MarkedFiles:
    """The files that the tasks of a write have begun: each has a marker. ``listed`` lists the markers."""

    def __init__(self, listed: Callable[[], Iterable[Marker]]) -> None:
        self._listed = listed
        self._next = 0.0
        self._text: str | None = None

    def text(self) -> str | None:
        """Their number, for people; None if there are none. Most calls give the result of the last listing."""
        began = time.monotonic()
        if began >= self._next:
            markers = list(self._listed())
            groups = {(marker.partition_path, parse_file_name(marker.file_name).file_id) for marker in markers}
            if markers:
                self._text = f"{counted(len(markers), 'file')} begun in {counted(len(groups), 'file group')}"
            ended = time.monotonic()
            self._next = ended + max(_LISTING_SECONDS, _LISTING_PAUSES * (ended - began))
        return self._text


class _Operation:
    """The operation of this thread: its description, its step, and the files that it has begun."""

    def __init__(self, context: SparkContext, description: str) -> None:
        self._context = context
        self._before = context.getLocalProperty(_DESCRIPTION)
        self.description = description
        self.files: MarkedFiles | None = None

    def describe(self, description: str) -> None:
        """Describe it, and the Spark jobs that come next."""
        self.description = description
        text = f"{self._before}: {description}" if self._before else description
        self._context.setJobDescription(text)

    def end(self) -> None:
        """Set the description of the caller again."""
        self._context.setLocalProperty(_DESCRIPTION, self._before)


_current: contextvars.ContextVar[tuple[_Operation, str] | None] = contextvars.ContextVar(
    "chronolake_progress", default=None
)


@contextlib.contextmanager
def described(spark: SparkSession, description: str, console: Console | None = None) -> Iterator[None]:
    """Describe the Spark jobs that this thread starts meanwhile, and show how far they are.

    A description that the caller has set stays in front of it, and is set again at the end. Job groups stay.
    """
    context = spark.sparkContext
    tag = f"chronolake-{uuid.uuid4().hex}"
    operation = _Operation(context, description)
    operation.describe(description)
    context.addJobTag(tag)
    token = _current.set((operation, description))
    try:
        with _line(spark, tag, operation, console or Console(stderr=True)):
            yield
    finally:
        _current.reset(token)
        context.removeJobTag(tag)
        operation.end()


def step(text: str) -> None:
    """Add a step to the description of the operation that ``described`` describes, if there is one."""
    if (current := _current.get()) is not None:
        operation, description = current
        operation.describe(f"{description}: {text}")


def begins_files(listed: Callable[[], Iterable[Marker]]) -> None:
    """Show how many files the operation has begun, by its markers, which ``listed`` lists."""
    if (current := _current.get()) is not None:
        current[0].files = MarkedFiles(listed)


@contextlib.contextmanager
def shown_by_caller() -> Iterator[None]:
    """Show no lines meanwhile: the caller shows progress itself, and a terminal has one such line."""
    # Without waiting: another caller in this process may have it, and may wait for this one.
    is_held = _shown_elsewhere.acquire(blocking=False)
    try:
        yield
    finally:
        if is_held:
            _shown_elsewhere.release()


def rows_and_tasks(spark: SparkSession, tag: str) -> str | None:
    """How far the active stage of the jobs with this tag is, for people; None if none is active."""
    tracker, stages = spark_internals.trackers(spark)
    stage_ids = {
        stage_id
        for job_id in tracker.getJobIdsForTag(tag)
        if (job := tracker.getJobInfo(job_id)).isDefined()
        for stage_id in job.get().stageIds()
    }
    active = sorted(stage_ids & set(tracker.getActiveStageIds()))
    return _text(stages.lastStageAttempt(active[0])) if active else None


def _text(stage: Any) -> str:
    rows = max(stage.inputRecords(), stage.shuffleReadRecords())
    verb = "written" if stage.shuffleReadRecords() else "read"
    done = f"{stage.numCompleteTasks():,} of {stage.numTasks():,} tasks"
    return f"{done}, {rows:,} rows {verb}" if rows else done


@contextlib.contextmanager
def _line(spark: SparkSession, tag: str, operation: _Operation, console: Console) -> Iterator[None]:
    if not console.is_terminal or _is_off(spark) or not _shown_elsewhere.acquire(blocking=False):
        yield
        return
    ended = threading.Event()
    watcher = threading.Thread(target=_watch, args=(spark, tag, operation, console, ended), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()
        _shown_elsewhere.release()


def _watch(
    spark: SparkSession, tag: str, operation: _Operation, console: Console, ended: threading.Event
) -> None:
    if ended.wait(_FIRST_SECONDS):
        return
    began = time.monotonic() - _FIRST_SECONDS
    with Status(operation.description, console=console) as status:
        while not ended.wait(_INTERVAL_SECONDS):
            # A line of progress must not end a write.
            with contextlib.suppress(Py4JError, OSError, ChronolakeError):
                parts = [rows_and_tasks(spark, tag) or "the driver works"]
                if operation.files is not None and (begun := operation.files.text()):
                    parts.append(begun)
                parts.append(f"{time.monotonic() - began:.0f} s")
                status.update(f"{operation.description}: {', '.join(parts)}")


def _is_off(spark: SparkSession) -> bool:
    setting = os.environ.get(PROGRESS_VARIABLE) or spark.conf.get(SETTING, "on")
    return str(setting).lower() in {"off", "false", "0"}
