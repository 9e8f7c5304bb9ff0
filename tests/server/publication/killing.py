"""Tables whose publishers are killed at every file that they write, remove or report."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from chronolake_storage import publishing
from tests.hudi.keyed_table import KeyedTable
from tests.server.publication.dying_publisher import Request

_SCRIPT: Final = "tests.server.publication.dying_publisher"
_ROOT: Final = Path(__file__).parents[3]

State = list[tuple[str, ...]] | None
"""The rows that readers see; None while they find no table."""


class Publishers:
    """Publishers that die, one after the other."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", _SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=_ROOT
        )
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _exc: BaseException | None, _tb: TracebackType | None
    ) -> None:
        self._process.communicate(timeout=60)

    def is_killed(self, request: Request) -> bool:
        """Publish; whether the publisher was killed before it had published all."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(msgspec.json.encode(request).decode() + "\n")
        self._process.stdin.flush()
        code = int(self._process.stdout.readline())
        assert code in (0, -9), code
        return code == -9


class History:
    """A table, and its changes: each has the states that readers may see from then on, in their order."""

    def __init__(self, table: KeyedTable, changes: Callable[[KeyedTable], Iterator[list[State]]]) -> None:
        self.table = table
        self.changes = changes(table)

    def seen(self) -> State:
        """The state that hudi-rs reads."""
        [size_bytes] = self.table.store.files().sizes([publishing.PROPERTIES_PATH])
        return None if size_bytes is None else self.table.of_hudi_rs()


def kill_at_every_file(
    make: Callable[[], History],
    kills: int,
    dsn: str,
    look: Callable[[History, State], Any] = lambda *_: None,
    *,
    every: int = 1,
) -> int:
    """Kill publishers at least this often; returns how often. ``look`` is called with each state that was read.

    Each run dies ``every`` operations later than the run before, until one comes to its end. After each
    death readers see one of the states that the table had, and none that they have seen the end of.
    """
    killed = 0
    with Publishers() as publishers:
        while killed < kills:
            history = make()
            table = history.table
            for states in history.changes:
                place = 0
                for kill_at in itertools.count(1, every):
                    # Every other publisher is a new one, which also checks what is there.
                    request = Request(
                        table.url,
                        table.table.name,
                        table.store.options,
                        f"publisher-{killed // 2}",
                        kill_at,
                    )
                    is_killed = publishers.is_killed(request)
                    seen = history.seen()
                    assert seen in states[place:], (kill_at, seen, states)
                    place += states[place:].index(seen)
                    look(history, seen)
                    if not is_killed:
                        break
                    killed += 1
                    table.expire_lease(dsn)
                assert place == len(states) - 1
    return killed
