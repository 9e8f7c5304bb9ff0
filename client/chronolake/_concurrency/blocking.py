"""Waiting, blocking work and background tasks for threads; ``awaiting`` has the same names."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from chronolake_storage import protocols

if TYPE_CHECKING:
    import pyarrow as pa

_Answer = TypeVar("_Answer")
_Result = TypeVar("_Result")
_Element = TypeVar("_Element")

Stream: TypeAlias = Generator[_Element, None, None]
"""An iterator that can be closed early."""
if TYPE_CHECKING:
    RecordBatches: TypeAlias = pa.RecordBatchReader

JOIN_SECONDS: Final = 2.0
"""How long the end of a background task is awaited."""

sleep = time.sleep
run_protocol = protocols.run_blocking


def run_blocking(work: Callable[..., _Result], *arguments: Any) -> _Result:
    """The result of work that blocks, done by this thread."""
    return work(*arguments)


def blocking_send(send: Callable[[Any], _Answer]) -> Callable[[Any], _Answer]:
    """``send`` itself: it blocks."""
    return send


def blocking_table(table: Any) -> Any:
    """The table itself: its methods block."""
    return table


def reader_of(batches: Generator[Any, None, None]) -> RecordBatches:
    """Record batches of a stream that begins with their schema."""
    import pyarrow as pa  # noqa: PLC0415  # an extra, which the caller has loaded

    schema = next(batches)
    return pa.RecordBatchReader.from_batches(schema, batches)


class BackgroundTask:
    """Runs ``run`` in a thread until it ends or is stopped. The thread dies with the process."""

    def __init__(self, run: Callable[[], None], *, name: str) -> None:
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=run, name=name, daemon=True)

    @property
    def is_stopped(self) -> bool:
        """Whether ``stop`` was called."""
        return self._stopped.is_set()

    def start(self) -> None:
        """Begin to run."""
        self._thread.start()

    def pause(self, seconds: float) -> bool:
        """Wait for so long, called by ``run``; False when it is time to end."""
        return not self._stopped.wait(seconds)

    def stop(self) -> None:
        """Ask the thread to end, and wait ``JOIN_SECONDS`` at most. It may be called again."""
        self._stopped.set()
        self.join(JOIN_SECONDS)

    def join(self, timeout_seconds: float) -> None:
        """Wait until ``run`` has ended by itself, or the time is over."""
        if self._thread.is_alive():
            self._thread.join(timeout_seconds)
