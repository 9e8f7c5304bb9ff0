"""A process that cleans a table and is killed at a step: before or after a request or a deletion.

python -m tests.client.dying_clean <url> <table> <step>
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import chronolake
from chronolake._location import TableLocation
from chronolake._sync.transport import Transport
from chronolake_storage import deletions

WRITER = "cleaner"


def main(url: str, table: str, last_step: str) -> None:
    steps = itertools.count()

    def step() -> None:
        if next(steps) == int(last_step):
            os.kill(os.getpid(), signal.SIGKILL)

    def dying(function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            step()
            answer = function(*args, **kwargs)
            step()
            return answer

        return wrapped

    with chronolake.connect(url) as client:
        opened_table = client.table(table)
        setattr(deletions, "FILES_AT_ONCE", 1)  # noqa: B010  # it is Final outside this test
        setattr(TableLocation, "delete", dying(TableLocation.delete))  # noqa: B010
        setattr(Transport, "send", dying(Transport.send))  # noqa: B010
        opened_table.clean(retain_commits=1, writer=WRITER)


if __name__ == "__main__":
    main(*sys.argv[1:])
