"""The sequencer: waiting commands are executed together, in one transaction."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

import msgspec
from typing_extensions import override

from chronolake_metastore import errors
from chronolake_metastore.batching.batcher import Batcher, Lane, Waiting, Work, resolve
from chronolake_metastore.commands import group
from chronolake_metastore.commands.group import Task
from chronolake_metastore.commands.handler import Answer
from chronolake_metastore.metrics import Metrics
from chronolake_metastore.settings import Settings
from chronolake_metastore.store.postgres.engine import SILENT_SECONDS_MAX, Database
from chronolake_metastore.store.postgres.transaction import Session
from chronolake_model.times import MICROS_PER_SECOND

_CATALOG: Final = ""
"""The key of commands that change the catalog; no table has this name."""
_SMALL, _LARGE = 0, 1


class Notifier:
    """Wakes all tasks that wait. It is a hint only: appends of other servers do not notify this one."""

    def __init__(self) -> None:
        self._notified = asyncio.Event()

    def notify(self) -> None:
        """Wake the tasks that wait now."""
        self._notified.set()
        self._notified = asyncio.Event()

    async def wait(self, seconds_max: float | None) -> float:
        """Wait until notified, for ``seconds_max`` at most if given; gives the seconds waited."""
        started = time.monotonic()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._notified.wait(), seconds_max)
        return time.monotonic() - started


class Decided(msgspec.Struct, frozen=True):
    """The result of a command, and how long its answer is held back, in seconds."""

    result: group.Result
    commit_wait: float = 0.0


class _Commands(Work[Task, Decided]):
    """Executes commands, and answers them."""

    name = "command"

    def __init__(self, settings: Settings, metrics: Metrics, notifier: Notifier) -> None:
        self._drift_max_us = settings.drift_max_ms * 1_000
        self._metrics = metrics
        self._notifier = notifier

    @override
    async def run(self, session: Session, requests: Sequence[Task]) -> list[Decided | Exception]:
        with self._metrics.group_seconds.time():
            done = await group.run_tasks(session, requests, self._drift_max_us)
        self._metrics.clock_drift.set(done.drift_us / MICROS_PER_SECOND)
        return [
            Decided(result, wait if isinstance(result, Answer) else 0.0)
            for result, wait in zip(done.results, done.commit_waits, strict=True)
        ]

    @override
    def describe(self, request: Task) -> dict[str, str]:
        return {"request_id": request.request.ctx.request_id}

    @override
    def answer(self, batch: Sequence[Waiting[Task, Decided]], results: Sequence[Decided | Exception]) -> None:
        self._metrics.group_size.observe(len(batch))
        self._notifier.notify()
        names = (type(waiting.request.command).__name__ for waiting in batch)
        for labels, number in Counter(zip(names, map(_code_of, results), strict=True)).items():
            self._metrics.commands.labels(*labels).inc(number)
        for waiting, result in zip(batch, results, strict=True):
            if isinstance(result, Decided) and result.commit_wait:
                # Only this answer waits: the lane continues with tables whose clocks are not ahead.
                self._metrics.commit_wait.inc(result.commit_wait)
                loop = asyncio.get_running_loop()
                loop.call_later(result.commit_wait, resolve, waiting.answer, result)
            else:
                resolve(waiting.answer, result)


class Sequencer:
    """Takes commands from any number of tasks and answers each when it is durable.

    Very large commands have a queue and a lane of their own, so that no other command waits for them.
    """

    def __init__(
        self,
        database: Database,
        settings: Settings,
        metrics: Metrics,
        notifier: Notifier,
    ) -> None:
        self._large_files = settings.group_files_max
        work = _Commands(settings, metrics, notifier)

        def lane(silent_seconds: float) -> Lane[Task, Decided]:
            return Lane(Session(database, silent_seconds), work, settings, metrics)

        small = [lane(settings.silent_seconds) for _ in range(settings.lanes)]
        large = [lane(max(settings.silent_seconds, SILENT_SECONDS_MAX))]
        self._batcher = Batcher([small, large], settings, files_max=settings.group_files_max)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Sequencer]:
        """Execute commands while the block runs. Commands that still wait at its end are not executed."""
        async with self._batcher.running():
            yield self

    async def submit(self, task: Task) -> Answer:
        """Execute one command and give its answer; raises ``TimelineError``.

        A caller that is cancelled does not undo its command.
        """
        self._batcher.refuse_if_stopped()
        files = task.handler.files(task.command)
        is_large = files >= self._large_files or task.handler.is_bulk(task.command)
        keys = frozenset([*task.names.tables, *([_CATALOG] if task.names.catalog else [])])
        decided = await self._batcher.submit(
            task, keys, files, task.request.size_bytes, _LARGE if is_large else _SMALL
        )
        if isinstance(decided.result, errors.TimelineError):
            raise decided.result
        return decided.result


def _code_of(result: Decided | Exception) -> str:
    outcome = result.result if isinstance(result, Decided) else result
    if isinstance(outcome, Answer):
        return "ok"
    return outcome.code if isinstance(outcome, errors.TimelineError) else "internal-error"
