"""A process that cleans a table, and kills itself at a named point."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import msgspec

import chronolake
from chronolake._sync import deletions, stored_table, write as writing

POINTS = ("planned", "deleted", "reported", "completed")


def die(*_arguments: Any, **_options: Any) -> Any:
    """Kill this process."""
    os.kill(os.getpid(), signal.SIGKILL)


def meet(point: str) -> None:
    """Let this process die when it comes to the point."""
    deleter, write = deletions.FileDeleter, writing.Write
    owner, name, replacement = {
        "planned": (stored_table, "finish_clean", die),
        "deleted": (deleter, "delete_files", until(deleter.delete_files)),
        "reported": (deleter, "report_files", until(deleter.report_files)),
        "completed": (write, "complete", until(write.complete)),
    }[point]
    setattr(owner, name, replacement)


def until(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, after whose first call this process is dead."""

    def called(*arguments: Any, **options: Any) -> Any:
        function(*arguments, **options)
        die()

    return called


def main(url: str, table: str, storage_options: str, point: str) -> None:
    """Clean until the point."""
    meet(point)
    plan_clean = stored_table._plan_clean
    stored_table._plan_clean = lambda *given: msgspec.structs.replace(plan_clean(*given), lease_seconds=1)
    options = msgspec.json.decode(storage_options, type=dict[str, str] | None)
    with chronolake.connect(url, storage_options=options) as client:
        client.table(table).clean(retain_commits=1)


if __name__ == "__main__":
    main(*sys.argv[1:])
