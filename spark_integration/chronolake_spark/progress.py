"""The progress of a write: a description of its jobs in Spark's UI, and a line in the terminal.

The line is on stderr, only if that is a terminal, and gone at the end. ``CHRONOLAKE_PROGRESS=off``, or the
Spark setting ``spark.chronolake.progress`` with the value ``off``, switches it off.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import uuid
from collections.abc import Iterator
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from rich.console import Console
from rich.status import Status

SETTING: Final = "spark.chronolake.progress"
VARIABLE: Final = "CHRONOLAKE_PROGRESS"
_DESCRIPTION: Final = "spark.job.description"
_FIRST_SECONDS: Final = 1.0
"""Jobs that are done before show no line."""
_INTERVAL_SECONDS: Final = 0.5
_shown_elsewhere = threading.Lock()


@contextlib.contextmanager
def described(spark: SparkSession, description: str, console: Console | None = None) -> Iterator[None]:
    """Describe the Spark jobs that this thread starts meanwhile, and show how far they are.

    A description that the caller has set stays in front of it, and is set again at the end. Job groups stay.
    """
    context = spark.sparkContext
    before = context.getLocalProperty(_DESCRIPTION)
    tag = f"chronolake-{uuid.uuid4().hex}"
    context.setJobDescription(f"{before}: {description}" if before else description)
    context.addJobTag(tag)
    try:
        with _line(spark, tag, description, console or Console(stderr=True)):
            yield
    finally:
        context.removeJobTag(tag)
        context.setLocalProperty(_DESCRIPTION, before)


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
    java = spark.sparkContext._jsc.sc()
    tracker = java.statusTracker()
    stage_ids = {
        stage_id
        for job_id in tracker.getJobIdsForTag(tag)
        if (job := tracker.getJobInfo(job_id)).isDefined()
        for stage_id in job.get().stageIds()
    }
    active = sorted(stage_ids & set(tracker.getActiveStageIds()))
    return _text(java.statusStore().lastStageAttempt(active[0])) if active else None


def _text(stage: Any) -> str:
    rows = max(stage.inputRecords(), stage.shuffleReadRecords())
    verb = "written" if stage.shuffleReadRecords() else "read"
    done = f"{stage.numCompleteTasks():,} of {stage.numTasks():,} tasks"
    return f"{done}, {rows:,} rows {verb}" if rows else done


@contextlib.contextmanager
def _line(spark: SparkSession, tag: str, description: str, console: Console) -> Iterator[None]:
    if not console.is_terminal or _is_off(spark) or not _shown_elsewhere.acquire(blocking=False):
        yield
        return
    ended = threading.Event()
    watcher = threading.Thread(target=_watch, args=(spark, tag, description, console, ended), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()
        _shown_elsewhere.release()


def _watch(spark: SparkSession, tag: str, description: str, console: Console, ended: threading.Event) -> None:
    if ended.wait(_FIRST_SECONDS):
        return
    began = time.monotonic() - _FIRST_SECONDS
    with Status(description, console=console) as status:
        while not ended.wait(_INTERVAL_SECONDS):
            # A line of progress must not end a write.
            with contextlib.suppress(Py4JError, OSError):
                state = rows_and_tasks(spark, tag) or "the driver works"
                status.update(f"{description}: {state}, {time.monotonic() - began:.0f} s")


def _is_off(spark: SparkSession) -> bool:
    setting = os.environ.get(VARIABLE) or spark.conf.get(SETTING, "on")
    return str(setting).lower() in {"off", "false", "0"}
