"""A program that ends a write and stays still at a given moment, to be killed there.

``python -m tests.client.dying`` with a ``Task`` as JSON; it says ``here`` when it is there.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, Literal

import msgspec

import chronolake
from chronolake import Write, WriteStat
from chronolake._location import TableLocation
from chronolake_storage import deletions

FILES_AT_ONCE = 10
Moment = Literal["before deleting", "before reporting", "before the second part", "before completing"]


class Task(msgspec.Struct):
    """Ends an instant: completes it with ``write_stats``, or rolls it back when there are none."""

    url: str
    table: str
    requested_time: str
    storage_options: dict[str, str] | None
    write_stats: list[WriteStat]
    moment: Moment


def main() -> None:
    """End the write, up to the moment."""
    task = msgspec.json.decode(sys.argv[1], type=Task)
    deletions.FILES_AT_ONCE = FILES_AT_ONCE  # type: ignore[misc]  # fewer, so that there are several parts
    _stay_at(task.moment)
    with chronolake.connect(task.url, storage_options=task.storage_options) as client:
        write = client.table(task.table).write(task.requested_time)
        if task.write_stats:
            write.complete(task.write_stats)
        else:
            write.rollback("tired")


def _stay_at(moment: Moment) -> None:
    match moment:
        case "before deleting":
            _stay_in(TableLocation, "delete", 1)
        case "before reporting":
            _stay_in(Write, "report_deletions", 1)
        case "before the second part":
            _stay_in(TableLocation, "delete", 2)
        case "before completing":
            _stay_after_all_parts()


def _stay_after_all_parts() -> None:
    delete_files = Write._delete_files

    def delete_and_stay(write: Write, *args: Any) -> None:
        delete_files(write, *args)
        _stay()

    Write._delete_files = delete_and_stay  # type: ignore[assignment, method-assign]


def _stay_in(owner: type, method: str, time_: int) -> None:
    """Stay when the method is called for the ``time_``-th time."""
    original: Callable[..., Any] = getattr(owner, method)
    calls = []

    def stay(*args: Any) -> Any:
        calls.append(args)
        if len(calls) == time_:
            _stay()
        return original(*args)

    setattr(owner, method, stay)


def _stay() -> None:
    print("here", flush=True)
    time.sleep(3_600)


if __name__ == "__main__":
    main()
