"""A process whose children publish tables, and kill themselves at an operation of their storage.

Each line of the input is a ``Request``; each line of the output is the exit code of the child that it made:
-9 if it was killed, 0 if it has published all. A child is forked from a process that has imported the client,
because that takes longer than to publish.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any, Final

import msgspec

import chronolake
from chronolake._sync import publishing
from chronolake_storage.objects import ObjectFiles

_CHANGES: Final = frozenset({"os.link", "os.rename", "os.remove", "os.mkdir"})


class Request(msgspec.Struct, frozen=True):
    """Publish a table as ``publisher``, and die before the operation ``kill_at``, counted from 1."""

    url: str
    table: str
    storage_options: dict[str, str] | None
    publisher: str
    kill_at: int


class Death:
    """Kills this process before the n-th operation that changes storage, or reports."""

    def __init__(self, operations: int) -> None:
        self._left = operations
        self._lock = threading.Lock()

    def count(self) -> None:
        """Count an operation that is about to begin."""
        with self._lock:
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def before(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, counted."""

        def counted(*arguments: Any, **options: Any) -> Any:
            self.count()
            return function(*arguments, **options)

        return counted

    def audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Count what this process changes on the disk: see ``sys.addaudithook``."""
        is_creation = event == "open" and isinstance(arguments[2], int) and arguments[2] & os.O_CREAT
        if event in _CHANGES or is_creation:
            self.count()


def publish(request: Request) -> None:
    """Publish, or die."""
    with chronolake.connect(request.url, storage_options=request.storage_options, retry_seconds=10) as client:
        table = client.table(request.table)
        death = Death(request.kill_at)
        publishing._Publisher.report = death.before(publishing._Publisher.report)  # type: ignore[method-assign]
        for name in ("create", "put", "_delete_part"):
            setattr(ObjectFiles, name, death.before(getattr(ObjectFiles, name)))
        sys.addaudithook(death.audit)
        table.publish(publisher=request.publisher, lease_seconds=60)


def main() -> None:
    """Answer requests until the input ends."""
    sys.dont_write_bytecode = True
    for line in sys.stdin:
        request = msgspec.json.decode(line, type=Request)
        child = os.fork()
        if child == 0:
            try:
                publish(request)
            except BaseException as exc:  # the edge of the process
                print(f"{type(exc).__name__}: {exc}", file=sys.stderr, flush=True)
                os._exit(1)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
