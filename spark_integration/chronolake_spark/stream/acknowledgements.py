"""Acknowledgements of staged batches in the background, in their order, while the next batch is written."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor


class Acknowledger:
    """Calls ``acknowledge`` with checkpoint ids in a thread; the newest one covers those that wait.

    At most ``pending_max`` wait after ``wait``. A failure is raised by the next ``wait`` or ``drain``. The
    thread finishes its work when the program ends.
    """

    def __init__(self, acknowledge: Callable[[int], object], pending_max: int) -> None:
        self._acknowledge = acknowledge
        self._pending_max = pending_max
        self._threads = ThreadPoolExecutor(1, "chronolake-acknowledgements")
        self._pending: deque[Future[None]] = deque()
        self._newest = self._acknowledged = 0

    def add(self, checkpoint: int) -> None:
        """Acknowledge a checkpoint soon. Ids increase."""
        self._newest = checkpoint
        self._pending.append(self._threads.submit(self._run, checkpoint))

    def wait(self) -> None:
        """Wait until no more acknowledgements are pending than may be. Raises what made one fail."""
        self._wait(self._pending_max)

    def drain(self) -> None:
        """Wait until none is pending. Raises what made one fail."""
        self._wait(0)

    def _wait(self, pending_max: int) -> None:
        while self._pending and (len(self._pending) > pending_max or self._pending[0].done()):
            self._pending.popleft().result()

    def _run(self, checkpoint: int) -> None:
        if checkpoint <= self._acknowledged:
            return
        newest = self._newest
        self._acknowledge(newest)
        self._acknowledged = newest
