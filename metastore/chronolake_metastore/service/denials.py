"""Denials of known callers: all are counted, and a few of each subject are recorded, for auditors."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable
from typing import Final

import msgspec

from chronolake_metastore import errors, telemetry
from chronolake_metastore.batching.sequencer import Sequencer
from chronolake_metastore.commands import group
from chronolake_metastore.commands.group import Task
from chronolake_metastore.domain.context import Context
from chronolake_metastore.domain.denials import RecordDenial, RecordedDenials, denial_of
from chronolake_metastore.domain.subjects import request_id_of
from chronolake_metastore.metrics import Metrics
from chronolake_model.roles import Right

QUEUE_MAX: Final = 1_000
"""Denied reads and notes that wait to be recorded; further ones are lost."""
_RECORDED: Final = "recorded"
_BOUNDED: Final = "bounded"
"""The subject has too many recorded ones."""
_LOST: Final = "lost"

_log = telemetry.logger(__name__)


class Denials:
    """The denials of one server."""

    def __init__(
        self,
        sequencer: Sequencer,
        metrics: Metrics,
        refuse: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``refuse`` is that of the service."""
        self.recorded = RecordedDenials(clock)
        self._sequencer = sequencer
        self._metrics = metrics
        self._refuse = refuse
        self._waiting: asyncio.Queue[tuple[Right, Task]] = asyncio.Queue(QUEUE_MAX)

    def add_command(self, right: Right, refused: errors.TimelineError) -> None:
        """Count the refusal of a command if it is a denial. Its group has recorded it, or not."""
        if denial_of(refused) is not None:
            self._count(right, _BOUNDED if refused.answer is None else _RECORDED)

    def add(self, ctx: Context, right: Right, name: str, refused: errors.TimelineError) -> None:
        """Count a denied read or note, which is recorded later: its caller does not wait for that."""
        denial = denial_of(refused)
        assert denial is not None
        on = denial.context.get("on")
        # Nobody can guess this key, so no other request takes it before.
        request_id = request_id_of(ctx.subject, f"denied-{uuid.uuid4()}")
        if not self.recorded.admit(ctx.subject.name, request_id, (right, on)):
            self._count(right, _BOUNDED)
            return
        recording = msgspec.structs.replace(ctx, request_id=request_id, table_id=None, dialect=None)
        command = RecordDenial(name, right, on, denial.detail)
        try:
            self._waiting.put_nowait((right, group.task_of(group.request_of(recording, command))))
        except asyncio.QueueFull:
            self._count(right, _LOST)

    async def run(self) -> None:
        """Record denied reads and notes, until cancelled."""
        while True:
            right, task = await self._waiting.get()
            self._count(right, _RECORDED if await self._record(task) else _LOST)

    async def _record(self, task: Task) -> bool:
        try:
            self._refuse()
            await self._sequencer.submit(task)
        except errors.TimelineError as exc:
            return exc.answer is not None
        except Exception:
            # The edge of a worker: a failure must not end the server.
            _log.exception("a denial could not be recorded")
        return False

    def _count(self, right: Right, record: str) -> None:
        self._metrics.denied.labels(right, record).inc()
