"""The marker batcher: creates markers of many requests together (docs/architecture.md#markers-and-deletion).

It is to markers what the sequencer is to commands, with connections of its own: a table's commands and the
markers of its instants never wait in one line.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

import msgspec

from chronolake_metastore import errors, lanes, telemetry
from chronolake_metastore.commands import markers
from chronolake_metastore.domain.markers import CreateMarkers, check
from chronolake_metastore.metrics import Metrics
from chronolake_metastore.settings import Settings
from chronolake_metastore.store.engine import Database
from chronolake_metastore.store.transaction import Session
from chronolake_metastore.waiting_line import Bounds, WaitingLine
from chronolake_model.markers import MarkerOutcome

MILLISECONDS: Final = 1_000

_log = telemetry.logger(__name__)


class _Waiting(msgspec.Struct):
    """A request that waits. What a batch must not share with another that is under way is the instant."""

    request: CreateMarkers
    answer: asyncio.Future[list[bool]]
    tables: frozenset[str]
    files: int
    size_bytes: int
    arrived_at: float
    """By ``time.monotonic``."""


class _Lane:
    """One connection, one batch at a time."""

    def __init__(self, database: Database, settings: Settings, metrics: Metrics) -> None:
        self._session = Session(database, settings.silent_seconds)
        self._settings = settings
        self._metrics = metrics

    async def run(self, line: WaitingLine[_Waiting]) -> None:
        """Create what waits in ``line``, until cancelled."""
        loop = asyncio.get_running_loop()
        interval = self._settings.marker_interval_ms / MILLISECONDS
        try:
            while True:
                batch = await line.take()
                started = loop.time()
                try:
                    await self._create_and_answer(batch)
                    if (left := started + interval - loop.time()) > 0:
                        await asyncio.sleep(left)
                finally:
                    line.done(batch)
        finally:
            await self._session.close()

    async def _create_and_answer(self, batch: Sequence[_Waiting]) -> None:
        self._metrics.marker_batch_requests.observe(len(batch))
        self._metrics.marker_batch_size.observe(sum(entry.files for entry in batch))
        give_up_at = batch[0].arrived_at + self._settings.retry_seconds
        results = await self._create([entry.request for entry in batch], give_up_at)
        for entry, result in zip(batch, results, strict=True):
            lanes.resolve(entry.answer, result)
        self._count(batch, results)

    async def _create(
        self, requests: Sequence[CreateMarkers], give_up_at: float
    ) -> list[list[bool] | Exception]:
        try:
            with self._metrics.marker_batch_seconds.time():
                created = await lanes.persist(
                    lambda: markers.create(self._session, requests), self._metrics, give_up_at
                )
        except errors.Unavailable as exc:
            return [exc] * len(requests)
        except Exception as exc:
            # A bug, met by one of them at least: it must not take its neighbours with it.
            if len(requests) == 1:
                _log.exception("markers failed", table=requests[0].table)
                return [exc]
            _log.warning("a batch of markers failed; its requests run one by one", requests=len(requests))
            return [(await self._create([request], give_up_at))[0] for request in requests]
        return list(created)

    def _count(self, batch: Sequence[_Waiting], results: Sequence[list[bool] | Exception]) -> None:
        counted: Counter[str] = Counter()
        for entry, result in zip(batch, results, strict=True):
            if isinstance(result, list):
                counted[MarkerOutcome.CREATED] += sum(result)
                counted[MarkerOutcome.EXISTED] += len(result) - sum(result)
            else:
                code = result.code if isinstance(result, errors.TimelineError) else "internal-error"
                counted[code] += entry.files
        for code, number in counted.items():
            self._metrics.markers.labels(code).inc(number)


class MarkerBatcher:
    """Takes requests for markers from any number of tasks and answers each when its markers are durable."""

    def __init__(self, database: Database, settings: Settings, metrics: Metrics) -> None:
        self._is_stopped = False
        self._lanes = [_Lane(database, settings, metrics) for _ in range(settings.marker_lanes)]
        self._line = WaitingLine[_Waiting](
            Bounds(
                length_max=settings.queue_max,
                bytes_max=settings.queue_bytes_max,
                group_max=settings.group_max,
                group_bytes_max=settings.group_bytes_max,
                files_max=settings.marker_batch_max,
            ),
            overdue_seconds=lanes.OVERDUE_SECONDS + settings.marker_interval_ms / MILLISECONDS,
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[MarkerBatcher]:
        """Create markers while the block runs; what still waits at its end is not created."""
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(lane.run(self._line)) for lane in self._lanes]
            for task in running:
                task.add_done_callback(self._lane_ended)
            try:
                yield self
            finally:
                self._is_stopped = True
                for task in running:
                    task.cancel()
                for entry in self._line.disband():
                    lanes.resolve(entry.answer, lanes.stopping())

    def _lane_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            self._is_stopped = True
            lanes.stop_server(task)

    async def create(self, request: CreateMarkers) -> list[bool]:
        """Create the markers of one instant and give which of them were new; raises ``TimelineError``."""
        if self._is_stopped:
            raise lanes.stopping()
        check(request)
        answer: asyncio.Future[list[bool]] = asyncio.get_running_loop().create_future()
        instant = f"{request.table}/{request.requested_time}"
        named = request.request.markers
        size_bytes = sum(len(one.partition_path) + len(one.file_name) for one in named)
        waiting = _Waiting(request, answer, frozenset((instant,)), len(named), size_bytes, time.monotonic())
        self._line.put(waiting)
        return await answer


def outcome(is_new: bool) -> MarkerOutcome:
    """What a marker is answered with."""
    return MarkerOutcome.CREATED if is_new else MarkerOutcome.EXISTED
