"""The sequencer: commands that wait are carried out together, in one transaction (design.md section 6).

While one group commits, the next gathers; so the busier a table is, the more of its commands share a lock, a
round trip and a flush to disk, and when nothing waits nothing is delayed. There is no timer.
"""

from __future__ import annotations

import asyncio
import functools
import signal
import time
import zlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import msgspec

from chronolake_metastore import errors, telemetry
from chronolake_metastore.bell import Bell
from chronolake_metastore.commands import group
from chronolake_metastore.commands.answers import Answer
from chronolake_metastore.commands.group import CarriedOut, Request, Result
from chronolake_metastore.domain.commands import CatalogCommand, Command
from chronolake_metastore.domain.instants import BeginInstant, CompleteInstant
from chronolake_metastore.domain.transactions import CompleteTogether
from chronolake_metastore.metrics import Metrics
from chronolake_metastore.settings import Settings
from chronolake_metastore.store.engine import SILENT_SECONDS_MAX, Database
from chronolake_metastore.store.transaction import OutcomeRaced, Session
from chronolake_model.times import MICROS_PER_SECOND

RETRY_WAIT_SECONDS = 0.05
RETRY_WAIT_SECONDS_MAX = 1.0

_log = telemetry.logger(__name__)


class _Waiting(msgspec.Struct):
    request: Request
    answer: asyncio.Future[Answer]
    files: int


class _Decided(msgspec.Struct, frozen=True):
    """The result of a request, and how long its answer is held back, in seconds."""

    result: Result | Exception
    commit_wait: float = 0.0


class _Lane:
    """One queue, one connection, one group at a time."""

    def __init__(
        self, database: Database, settings: Settings, metrics: Metrics, bell: Bell, silent_seconds: float
    ) -> None:
        self._bell = bell
        self._session = Session(database, silent_seconds)
        self._settings = settings
        self._metrics = metrics
        self._queue: asyncio.Queue[_Waiting] = asyncio.Queue(settings.queue_max)
        self._kept_back: _Waiting | None = None
        self._in_hand: list[_Waiting] = []

    def put(self, waiting: _Waiting) -> None:
        try:
            self._queue.put_nowait(waiting)
        except asyncio.QueueFull:
            raise errors.Overloaded(
                f"{self._settings.queue_max} commands are waiting already; send it again later"
            ) from None

    async def run(self) -> None:
        """Carry out what is put, until cancelled."""
        try:
            while True:
                self._in_hand = await self._gather()
                decided = await self._carry_out([entry.request for entry in self._in_hand])
                self._bell.ring()
                for entry, decision in zip(self._in_hand, decided, strict=True):
                    self._answer(entry, decision)
        finally:
            await self._session.close()

    def refuse_waiting(self) -> None:
        """Answer whoever waits when nobody carries commands out any more."""
        waiting = [*self._in_hand, *([self._kept_back] if self._kept_back else [])]
        while not self._queue.empty():
            waiting.append(self._queue.get_nowait())
        for entry in waiting:
            _resolve(entry.answer, _stopping())

    async def _gather(self) -> list[_Waiting]:
        """All that waits, up to the limits of a group; at least one."""
        first = self._kept_back or await self._queue.get()
        self._kept_back = None
        gathered = [first]
        files = first.files
        while len(gathered) < self._settings.group_max and not self._queue.empty():
            following = self._queue.get_nowait()
            files += following.files
            if files > self._settings.group_files_max:
                self._kept_back = following
                break
            gathered.append(following)
        self._metrics.group_size.observe(len(gathered))
        return gathered

    async def _carry_out(self, requests: Sequence[Request]) -> list[_Decided]:
        try:
            return self._decided(await self._persist(requests))
        except errors.Unavailable as exc:
            return [_Decided(exc)] * len(requests)
        except Exception as exc:
            # A bug, met by one of them at least: it must not take its neighbours with it.
            if len(requests) == 1:
                _log.exception("command failed", request_id=requests[0].request_id)
                return [_Decided(exc)]
            _log.warning("group failed; its commands run one by one", commands=len(requests))
            return [(await self._carry_out([request]))[0] for request in requests]

    def _decided(self, carried_out: CarriedOut) -> list[_Decided]:
        self._metrics.clock_drift.set(carried_out.drift_us / MICROS_PER_SECOND)
        return [
            _Decided(result, wait if isinstance(result, Answer) else 0.0)
            for result, wait in zip(carried_out.results, carried_out.commit_waits, strict=True)
        ]

    def _answer(self, waiting: _Waiting, decided: _Decided) -> None:
        command = type(waiting.request.command).__name__
        self._metrics.commands.labels(command, _name_of(decided.result)).inc()
        if decided.commit_wait:
            # Only this answer waits: the lane goes on with the tables whose clocks are not ahead.
            self._metrics.commit_wait.inc(decided.commit_wait)
            loop = asyncio.get_running_loop()
            loop.call_later(decided.commit_wait, _resolve, waiting.answer, decided.result)
        else:
            _resolve(waiting.answer, decided.result)

    async def _persist(self, requests: Sequence[Request]) -> CarriedOut:
        """Run a group, and again when the database went away: the request ids tell what had happened."""
        # From the first failure on: a database that fell silent had taken its time until then.
        deadline: float | None = None
        wait = RETRY_WAIT_SECONDS
        while True:
            try:
                with self._metrics.group_seconds.time():
                    return await group.run(self._session, requests, self._settings.drift_max_ms * 1_000)
            except OutcomeRaced:
                continue
            except errors.DatabaseUnavailable as exc:
                deadline = deadline or time.monotonic() + self._settings.retry_seconds
                if time.monotonic() + wait > deadline:
                    raise
                self._metrics.database_retries.inc()
                _log.warning("database unavailable; trying again", reason=exc.context.get("reason"), wait=wait)
            await asyncio.sleep(wait)
            wait = min(2 * wait, RETRY_WAIT_SECONDS_MAX)


class Sequencer:
    """Takes commands from any number of tasks and answers each when it is durable.

    Commands of one table always take the same lane, so that they share groups; very large ones have a lane
    of their own, so that nobody queues behind them.
    """

    def __init__(self, database: Database, settings: Settings, metrics: Metrics, bell: Bell) -> None:
        self._is_stopped = False
        self._large_files = settings.group_files_max
        lane = functools.partial(_Lane, database, settings, metrics, bell)
        self._large = lane(max(settings.silent_seconds, SILENT_SECONDS_MAX))
        self._lanes = [lane(settings.silent_seconds) for _ in range(settings.lanes)]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Sequencer]:
        """Carry commands out while the block runs; what still waits at its end is not carried out."""
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(lane.run()) for lane in [*self._lanes, self._large]]
            for task in running:
                task.add_done_callback(self._lane_ended)
            try:
                yield self
            finally:
                self._is_stopped = True
                for task in running:
                    task.cancel()
                for lane in [*self._lanes, self._large]:
                    lane.refuse_waiting()

    def _lane_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            # Nobody would take its commands any more: better no server than one that does not answer.
            self._is_stopped = True
            _log.critical("a lane ended; the server stops", exc_info=task.exception())
            signal.raise_signal(signal.SIGTERM)

    async def submit(self, request: Request) -> Answer:
        """Carry out one command and give its answer; raises ``TimelineError``.

        A caller that is cancelled does not undo its command.
        """
        if self._is_stopped:
            raise _stopping()
        command = request.command
        files = _files_of(command)
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._lane_of(request, files).put(_Waiting(request, answer, files))
        return await answer

    def _lane_of(self, request: Request, files: int) -> _Lane:
        if files >= self._large_files:
            return self._large
        if isinstance(request.command, CatalogCommand | CompleteTogether):
            return self._lanes[0]
        return self._lanes[zlib.crc32(request.command.table.encode()) % len(self._lanes)]


def _files_of(command: Command) -> int:
    match command:
        case CompleteInstant():
            return len(command.request.write_stats)
        case CompleteTogether():
            return sum(len(member.request.write_stats) for member in command.members)
        case BeginInstant():
            return command.request.count or 0
        case _:
            return 0


def _stopping() -> errors.DatabaseUnavailable:
    return errors.DatabaseUnavailable(
        "the server stops; send the request again to another one, with the same idempotency key"
    )


def _name_of(result: Result | Exception) -> str:
    if isinstance(result, Answer):
        return "ok"
    return result.code if isinstance(result, errors.TimelineError) else "internal-error"


def _resolve(future: asyncio.Future[Answer], result: Result | Exception) -> None:
    if future.done():  # the caller went away
        return
    if isinstance(result, Exception):
        future.set_exception(result)
    else:
        future.set_result(result)
