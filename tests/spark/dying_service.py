"""A process that executes the plan of a table service, and kills itself at a named point."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import msgspec

import chronolake
from chronolake.slices.base_files import TableFolder
from chronolake.writing.task_markers import TaskMarkers
from chronolake_spark import services
from chronolake_spark.services import executing, jobs

POINTS = ("taken", "before_marker", "after_marker", "in_file", "before_complete", "after_complete")


def die(*_arguments: Any) -> Any:
    """Kill this process."""
    os.kill(os.getpid(), signal.SIGKILL)


def meet(point: str) -> None:
    """Let this process die when it comes to the point."""
    create_markers, create_file = TaskMarkers.create, TableFolder.create

    def marked(markers: TaskMarkers, wanted: Any) -> None:
        create_markers(markers, wanted)
        die()

    def begun(folder: TableFolder, relative: str) -> None:
        with create_file(folder, relative) as file:
            file.write(b"PAR1")
        die()

    owner, name, replacement = {
        "taken": (jobs, "job_of", die),
        "before_marker": (TaskMarkers, "create", die),
        "after_marker": (TaskMarkers, "create", marked),
        "in_file": (TableFolder, "create", begun),
        "before_complete": (executing, "complete", die),
        "after_complete": (chronolake.Write, "refresh", die),
    }[point]
    setattr(owner, name, replacement)


def main(url: str, table: str, requested_time: str, point: str, storage_options: str) -> None:
    """Execute the plan until the point."""
    meet(point)
    options = msgspec.json.decode(storage_options, type=dict[str, str] | None)
    with chronolake.connect(url, storage_options=options) as client:
        services.execute(client.table(table), requested_time, lease_seconds=1)


if __name__ == "__main__":
    main(*sys.argv[1:])
