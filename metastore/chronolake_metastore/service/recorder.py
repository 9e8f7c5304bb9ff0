"""Records that the service makes after its answers: their callers do not wait for that."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from chronolake_metastore import errors, telemetry
from chronolake_metastore.batching.sequencer import Sequencer
from chronolake_metastore.commands import group
from chronolake_metastore.commands.group import Task
from chronolake_metastore.commands.recording import Request

QUEUE_MAX: Final = 1_000
"""Requests that wait to be recorded; further ones are lost."""
RECORDED: Final = "recorded"
BOUNDED: Final = "bounded"
"""The subject has too many recorded ones."""
LOST: Final = "lost"

Count = Callable[[str], None]
"""Counts a request as recorded, bounded or lost."""

_log = telemetry.logger(__name__)


class Recorder:
    """Sends commands that record what was answered, one after the other.

    ``refuse`` is that of the service.
    """

    def __init__(self, sequencer: Sequencer, refuse: Callable[[], None]) -> None:
        self._sequencer = sequencer
        self._refuse = refuse
        self._waiting: asyncio.Queue[tuple[Task, Count]] = asyncio.Queue(QUEUE_MAX)

    def add(self, request: Request, count: Count) -> None:
        """Send the command of a request later; ``count`` is told what became of it."""
        try:
            self._waiting.put_nowait((group.task_of(request), count))
        except asyncio.QueueFull:
            count(LOST)

    async def run(self) -> None:
        """Send the commands, until cancelled."""
        while True:
            task, count = await self._waiting.get()
            count(RECORDED if await self._record(task) else LOST)

    async def _record(self, task: Task) -> bool:
        try:
            self._refuse()
            await self._sequencer.submit(task)
        except errors.TimelineError as exc:
            return exc.answer is not None
        except Exception:
            # The edge of a worker: a failure must not end the server.
            _log.exception("a request could not be recorded")
            return False
        return True
