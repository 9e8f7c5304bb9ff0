"""Faults of the processes that run a statement of SQL.

The variable ``STATEMENT_FAULT`` has a point, an action, and a folder for signs:

staging     a task that stages changed rows has marked its file
writing     a task of the second job has marked a data file
completing  the instant is about to be completed
completed   it was completed

With the action ``come_late`` the first attempt of the first task continues when the instant is completed.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
from pyspark import TaskContext

import chronolake
from chronolake.writing.task_markers import TaskMarkers
from chronolake_spark.write import shuffles
from chronolake_spark.write.data_source import ChronolakeWriter
from chronolake_spark.write.staged_changes import StagingWriter
from tests.processes import wait_until

WAIT_SECONDS_MAX = 300.0
NONE = "none none none"
COME_LATE = "come_late"
POINT, ACTION, FOLDER = os.environ.get("STATEMENT_FAULT", NONE).split(" ", 2)
WRITERS: dict[str, type[Any]] = {"staging": StagingWriter, "writing": ChronolakeWriter}


def patch() -> None:
    """Let this process, and the workers that it forks, meet the fault."""
    if "chronolake_spark.catalogs.process" in sys.orig_argv:
        # Small as they are, these statements have several tasks.
        shuffles.SMALL_BYTES = 0
    if ACTION == COME_LATE:
        _patch_completion()
    if POINT in WRITERS:
        _patch_tasks(WRITERS[POINT])
    elif POINT != "none":
        _patch_completion()


def _patch_tasks(writer_class: type[Any]) -> None:
    """The writers of a class meet the fault."""
    running: list[Any] = []
    create, write = TaskMarkers.create, writer_class.write

    def marked(markers: Any, wanted: Any) -> None:
        new = list(wanted)
        create(markers, new)
        if new and running:
            _act()

    def written(writer: Any, rows: Iterator[Any]) -> Any:
        running.append(writer)
        try:
            return write(writer, rows)
        finally:
            running.pop()
            if ACTION == COME_LATE:
                context = TaskContext.get()
                (Path(FOLDER) / f"ended-{context.partitionId()}-{context.attemptNumber()}").touch()

    TaskMarkers.create = marked  # type: ignore[method-assign, assignment]
    writer_class.write = written


def _patch_completion() -> None:
    complete: Callable[..., Any] = chronolake.Write.complete

    def completed(*arguments: Any, **named: Any) -> Any:
        if POINT == "completing":
            _act()
        answer = complete(*arguments, **named)
        if POINT == "completed":
            _act()
        if ACTION == COME_LATE:
            (Path(FOLDER) / "completed").touch()
        return answer

    chronolake.Write.complete = completed  # type: ignore[method-assign]


def _act() -> None:
    """Meet the fault, in the first attempt of a task."""
    context = TaskContext.get()
    signs = Path(FOLDER)
    if context and context.attemptNumber() > 0:
        return
    if ACTION == "kill_executor" and not (signs / "killed").exists():
        (signs / "killed").touch()
        # The parent of this worker is PySpark's daemon, whose parent is the executor.
        psutil.Process(os.getppid()).parent().send_signal(signal.SIGKILL)
        time.sleep(WAIT_SECONDS_MAX)
    elif ACTION == COME_LATE and context and context.partitionId() == 0:
        (signs / "reached").touch()
        wait_until((signs / "completed").exists)
        (signs / "late").touch()
    elif ACTION == "stand_still":
        (signs / "reached").touch()
        time.sleep(WAIT_SECONDS_MAX)
