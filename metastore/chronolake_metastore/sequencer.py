"""The sequencer: executes queued commands in groups, one transaction each (docs/architecture.md#commands).

While one group commits, the next gathers; so the busier the server is, the more commands share a lock, a round
trip and a flush to disk, and when nothing waits nothing is delayed.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import msgspec

from chronolake_metastore import errors, lanes, telemetry
from chronolake_metastore.bell import Bell
from chronolake_metastore.commands import group, needs
from chronolake_metastore.commands.answers import Answer
from chronolake_metastore.commands.group import CarriedOut, Request, Result
from chronolake_metastore.commands.staging import completes_staged
from chronolake_metastore.domain.commands import CatalogCommand, Command
from chronolake_metastore.domain.deletions import ReportDeletions
from chronolake_metastore.domain.instants import BeginInstant, CompleteInstant
from chronolake_metastore.domain.staging import StageWriteStats
from chronolake_metastore.domain.sweeps import RecordSweep
from chronolake_metastore.domain.transactions import CompleteTogether
from chronolake_metastore.metrics import Metrics
from chronolake_metastore.settings import Settings
from chronolake_metastore.store.engine import SILENT_SECONDS_MAX, Database
from chronolake_metastore.store.transaction import MarkedMeanwhile, OutcomeRaced, Session
from chronolake_metastore.waiting_line import Bounds, WaitingLine
from chronolake_model.times import MICROS_PER_SECOND

_CATALOG = ""
_log = telemetry.logger(__name__)


class _Waiting(msgspec.Struct):
    request: Request
    answer: asyncio.Future[Answer]
    tables: frozenset[str]
    files: int
    size_bytes: int
    arrived_at: float
    """By ``time.monotonic``."""


class _Decided(msgspec.Struct, frozen=True):
    """The result of a request, and how long its answer is held back, in seconds."""

    result: Result | Exception
    commit_wait: float = 0.0


class _Lane:
    """One connection, one group at a time."""

    def __init__(
        self, database: Database, settings: Settings, metrics: Metrics, bell: Bell, silent_seconds: float
    ) -> None:
        self._bell = bell
        self._session = Session(database, silent_seconds)
        self._settings = settings
        self._metrics = metrics

    async def run(self, line: WaitingLine[_Waiting]) -> None:
        """Carry out what waits in ``line``, until cancelled."""
        try:
            while True:
                group = await line.take()
                try:
                    await self._carry_out_and_answer(group)
                finally:
                    line.done(group)
        finally:
            await self._session.close()

    async def _carry_out_and_answer(self, group: Sequence[_Waiting]) -> None:
        self._metrics.group_size.observe(len(group))
        give_up_at = group[0].arrived_at + self._settings.retry_seconds
        decided = await self._carry_out([entry.request for entry in group], give_up_at)
        self._bell.ring()
        for entry, decision in zip(group, decided, strict=True):
            self._answer(entry, decision)

    async def _carry_out(self, requests: Sequence[Request], give_up_at: float) -> list[_Decided]:
        try:
            return self._decided(await self._persist(requests, give_up_at))
        except errors.Unavailable as exc:
            return [_Decided(exc)] * len(requests)
        except Exception as exc:
            # A bug, met by one of them at least: it must not take its neighbours with it.
            if len(requests) == 1:
                _log.exception("command failed", request_id=requests[0].request_id)
                return [_Decided(exc)]
            _log.warning("group failed; its commands run one by one", commands=len(requests))
            return [(await self._carry_out([request], give_up_at))[0] for request in requests]

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
            loop.call_later(decided.commit_wait, lanes.resolve, waiting.answer, decided.result)
        else:
            lanes.resolve(waiting.answer, decided.result)

    async def _persist(self, requests: Sequence[Request], give_up_at: float) -> CarriedOut:
        """Run a group, and again when the database went away: the request ids tell what had happened."""
        return await lanes.persist(lambda: self._run(requests), self._metrics, give_up_at)

    async def _run(self, requests: Sequence[Request]) -> CarriedOut:
        while True:
            try:
                with self._metrics.group_seconds.time():
                    return await group.run(self._session, requests, self._settings.drift_max_ms * 1_000)
            except (OutcomeRaced, MarkedMeanwhile):
                continue


class Sequencer:
    """Takes commands from any number of tasks and answers each when it is durable.

    What waits is carried out together. Very large commands have a lane of their own, so that nobody queues
    behind them.
    """

    def __init__(self, database: Database, settings: Settings, metrics: Metrics, bell: Bell) -> None:
        self._is_stopped = False
        self._large_files = settings.group_files_max
        lane = functools.partial(_Lane, database, settings, metrics, bell)
        self._large_lane = lane(max(settings.silent_seconds, SILENT_SECONDS_MAX))
        self._lanes = [lane(settings.silent_seconds) for _ in range(settings.lanes)]
        self._line, self._large = (
            WaitingLine[_Waiting](
                Bounds(
                    length_max=settings.queue_max,
                    bytes_max=settings.queue_bytes_max,
                    group_max=settings.group_max,
                    group_bytes_max=settings.group_bytes_max,
                    files_max=settings.group_files_max,
                ),
                overdue_seconds=lanes.OVERDUE_SECONDS,
            )
            for _ in range(2)
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Sequencer]:
        """Carry commands out while the block runs; what still waits at its end is not carried out."""
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(lane.run(self._line)) for lane in self._lanes]
            running.append(tasks.create_task(self._large_lane.run(self._large)))
            for task in running:
                task.add_done_callback(self._lane_ended)
            try:
                yield self
            finally:
                self._is_stopped = True
                for task in running:
                    task.cancel()
                for entry in [*self._line.disband(), *self._large.disband()]:
                    lanes.resolve(entry.answer, lanes.stopping())

    def _lane_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            self._is_stopped = True
            lanes.stop_server(task)

    async def submit(self, request: Request) -> Answer:
        """Carry out one command and give its answer; raises ``TimelineError``.

        A caller that is cancelled does not undo its command.
        """
        if self._is_stopped:
            raise lanes.stopping()
        command = request.command
        files = _files_of(command)
        is_large = files >= self._large_files or _is_bulk(command)
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        line = self._large if is_large else self._line
        line.put(_Waiting(request, answer, _tables_of(command), files, request.size_bytes, time.monotonic()))
        return await answer


def _tables_of(command: Command) -> frozenset[str]:
    """The tables that a command waits for; those that change the catalog wait for each other."""
    catalog = [_CATALOG] if isinstance(command, CatalogCommand) else []
    return frozenset([*needs.tables_of(command), *catalog])


def _files_of(command: Command) -> int:
    match command:
        case CompleteInstant() | StageWriteStats():
            return len(command.request.write_stats)
        case ReportDeletions():
            return len(command.request.files)
        case RecordSweep():
            return len(command.request.found)
        case CompleteTogether():
            return sum(len(member.request.write_stats) for member in command.members)
        case BeginInstant():
            return command.request.count or 0
        case _:
            return 0


def _is_bulk(command: Command) -> bool:
    """Whether a command has to do with staged write stats: there are thousands wherever there are some."""
    return isinstance(command, StageWriteStats) or completes_staged(command)


def _name_of(result: Result | Exception) -> str:
    if isinstance(result, Answer):
        return "ok"
    return result.code if isinstance(result, errors.TimelineError) else "internal-error"
