"""The marker batcher: markers that are requested at the same time are created together.

It has connections of its own: commands of a table and markers of its instants never wait in one queue.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from typing_extensions import override

from chronolake_metastore import errors
from chronolake_metastore.batching.batcher import OVERDUE_SECONDS, Batcher, Lane, Waiting, Work, resolve
from chronolake_metastore.domain.markers import CreateMarkers, check
from chronolake_metastore.metrics import Metrics
from chronolake_metastore.notes import markers
from chronolake_metastore.settings import Settings
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.postgres.transaction import Session
from chronolake_model.markers import MarkerOutcome

MILLISECONDS: Final = 1_000


class _Markers(Work[CreateMarkers, list[bool]]):
    """Creates markers. The result says which were new."""

    name = "markers"

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    @override
    async def run(
        self, session: Session, requests: Sequence[CreateMarkers]
    ) -> Sequence[list[bool] | Exception]:
        with self._metrics.marker_batch_seconds.time():
            return await markers.create(session, requests)

    @override
    def describe(self, request: CreateMarkers) -> dict[str, str]:
        return {"table": request.table}

    @override
    def answer(
        self,
        batch: Sequence[Waiting[CreateMarkers, list[bool]]],
        results: Sequence[list[bool] | Exception],
    ) -> None:
        for waiting, result in zip(batch, results, strict=True):
            resolve(waiting.answer, result)
        self._metrics.marker_batch_requests.observe(len(batch))
        self._metrics.marker_batch_size.observe(sum(waiting.files for waiting in batch))
        counted: Counter[str] = Counter()
        for waiting, result in zip(batch, results, strict=True):
            if isinstance(result, list):
                counted[MarkerOutcome.CREATED] += sum(result)
                counted[MarkerOutcome.EXISTED] += len(result) - sum(result)
            else:
                code = result.code if isinstance(result, errors.TimelineError) else "internal-error"
                counted[code] += waiting.files
        for code, number in counted.items():
            self._metrics.markers.labels(code).inc(number)


class MarkerBatcher:
    """Takes requests for markers from any number of tasks and answers each when its markers are durable."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        metrics: Metrics,
    ) -> None:
        interval_seconds = settings.marker_interval_ms / MILLISECONDS
        work = _Markers(metrics)
        lanes = [
            Lane(Session(database, settings.silent_seconds), work, settings, metrics, interval_seconds)
            for _ in range(settings.marker_lanes)
        ]
        self._batcher = Batcher(
            [lanes],
            settings,
            files_max=settings.marker_batch_max,
            overdue_seconds=OVERDUE_SECONDS + interval_seconds,
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[MarkerBatcher]:
        """Create markers while the block runs. Requests that still wait at its end are not executed."""
        async with self._batcher.running():
            yield self

    async def create(self, request: CreateMarkers) -> list[bool]:
        """Create the markers of one instant and give which of them were new; raises ``TimelineError``."""
        self._batcher.refuse_if_stopped()
        check(request)
        named = request.markers
        size_bytes = sum(len(marker.partition_path) + len(marker.file_name) for marker in named)
        instant = f"{request.table}/{request.requested_time}"
        return await self._batcher.submit(request, frozenset([instant]), len(named), size_bytes)


def outcome(is_new: bool) -> MarkerOutcome:
    """The answer for a marker."""
    return MarkerOutcome.CREATED if is_new else MarkerOutcome.EXISTED
