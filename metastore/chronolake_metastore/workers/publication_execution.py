"""Executes for one table the steps of a publication, and of its history, at a server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from chronolake_metastore import errors, telemetry
from chronolake_metastore.batching.sequencer import Notifier, Sequencer
from chronolake_metastore.metrics import Metrics
from chronolake_metastore.notes import publication as notes, published_history as note_history
from chronolake_metastore.queries import publication as queries, published_history as history
from chronolake_metastore.service.service import Service
from chronolake_metastore.settings import Settings
from chronolake_metastore.store.pending_plans import Place
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.workers.table_storage import TableFiles
from chronolake_metastore.workers.worker import context_of, submit
from chronolake_model.publication import (
    HistoryFile,
    HistoryPage,
    HistoryPlan,
    HistoryRange,
    PlanHistory,
    PublicationFiles,
    PublicationLease,
    PublicationPartitions,
    PublicationSteps,
    PublishedFile,
    PublishedHistory,
    ReportPublication,
)
from chronolake_model.times import parse_time
from chronolake_storage.published_history import HistoryListing, HistorySource
from chronolake_storage.publishing import Comparison, Owned

ACTOR: Final = "chronolake-publisher"
_log = telemetry.logger(__name__)


class Counts(msgspec.Struct):
    """Counts of a publisher since it started: the metrics of publication."""

    steps: int = 0
    failures: int = 0
    foreign_files: int = 0


class PublicationExecution:
    """``publications.PublicationExecutor`` for one table. Raises ``ConfigurationError``, ``TableNotFound``."""

    def __init__(
        self, database: Database, settings: Settings, counts: Counts, place: Place, files: TableFiles
    ) -> None:
        self._database = database
        self._service = Service(database)
        self._settings = settings
        self._counts = counts
        self._place = place
        self._files = files
        self.is_published = False
        self.is_checked = False
        self.is_history_left = False

    async def begin(self, files_since: str | None) -> None:
        await self._files.begin_publication(files_since)

    async def hide(self, *, was_published: bool) -> None:
        await self._files.hide_publication(was_published=was_published)

    async def read_steps(self, after: int) -> PublicationSteps:
        page = await self._service.read(context_of("publisher", ACTOR), queries.steps, self._place.table, after)
        if page.table_id != str(self._place.table_id):
            raise errors.TableNotFound(self._place.table)
        return page

    async def execute_steps(self, page: PublicationSteps) -> None:
        await self._files.publish(page.steps, is_hidden=page.is_hidden)
        self._counts.steps += len(page.steps)
        self.is_published = page.is_last

    async def report(self, report: ReportPublication) -> None:
        table = self._place.table
        ctx = context_of("publisher", report.publisher)
        await self._service.note(ctx, notes.report, table, report)
        command = await self._service.read(ctx, queries.files_to_record, table, report)
        if command is not None:
            # At most once an hour for a table, so the sequencer is not kept.
            sequencer = Sequencer(self._database, self._settings, Metrics(), Notifier())
            async with sequencer.running():
                await submit(Service(self._database, sequencer), command, "publisher", report.publisher)

    async def report_pause(self, lease: PublicationLease) -> None:
        """Report that the steps after the position were refused. The position stays."""
        version = lease.published_version
        await self.report(ReportPublication(lease.publisher, lease.epoch, version, release=True, paused=True))

    async def read_files(self, after: int) -> PublicationFiles:
        return await self._service.read(context_of("publisher", ACTOR), queries.files, self._place.table, after)

    async def read_partitions(self, after: str) -> PublicationPartitions:
        return await self._service.read(
            context_of("publisher", ACTOR), queries.partitions, self._place.table, after
        )

    async def find(self, owned: Owned) -> Comparison:
        comparison = await self._files.find_publication(owned)
        self.is_checked = True
        self._counts.foreign_files += len(comparison.foreign)
        if comparison.foreign:
            _log.warning("foreign files in .hoodie", table=self._place.table, files=comparison.foreign[:10])
        return comparison

    async def plan_history(self, body: PlanHistory) -> HistoryPlan:
        ctx = context_of("publisher", body.publisher)
        return await self._service.note(ctx, note_history.plan, self._place.table, body)

    async def read_history(self, range_: HistoryRange, after: int) -> HistoryPage:
        times = parse_time(range_.begin), parse_time(range_.end)
        ctx = context_of("publisher", ACTOR)
        return await self._service.read(ctx, history.page, self._place.table, *times, after)

    async def find_history(self, written: PublishedHistory | None) -> HistoryListing:
        return await self._files.find_history(written)

    async def write_history(self, range_: HistoryRange, source: HistorySource) -> HistoryFile:
        return await self._files.write_history(range_, source)

    async def show_history(self, history: PublishedHistory) -> None:
        await self._files.show_history(history)

    async def remove_archived(self, before: str) -> bool:
        self.is_history_left = await self._files.remove_archived(before)
        return self.is_history_left

    async def remove_unused_history(self, history: PublishedHistory) -> None:
        await self._files.remove_unused_history(history)

    async def remove(self, paths: Sequence[str]) -> None:
        await self._files.remove_publication(paths)
        self._log_repair(paths)

    async def put_right(self, expected: Sequence[PublishedFile], comparison: Comparison) -> list[PublishedFile]:
        written = await self._files.put_publication_right(expected, comparison)
        if written:
            self._log_repair([file.path for file in written])
        return written

    def _log_repair(self, paths: Sequence[str]) -> None:
        _log.warning("publication put right", table=self._place.table, files=len(paths), first=paths[:10])
