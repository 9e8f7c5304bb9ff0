"""Publishing for Hudi's readers: the client's executor of ``chronolake_storage.publications``."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Final

from chronolake import calls, errors
from chronolake._async.transport import AsyncTransport
from chronolake._concurrency import awaiting as concurrency
from chronolake._http import default_writer
from chronolake._location import TableLocation
from chronolake._published_location import PublishedLocation
from chronolake_model import operations
from chronolake_model.backoff import Backoff
from chronolake_model.publication import (
    HistoryFile,
    HistoryInstant,
    HistoryPage,
    HistoryPlan,
    HistoryRange,
    PlanHistory,
    Publication,
    PublicationFiles,
    PublicationLease,
    PublicationPartitions,
    PublicationState,
    PublicationSteps,
    PublishedFile,
    PublishedHistory,
    ReportPublication,
    TakePublicationLease,
)
from chronolake_storage import publications
from chronolake_storage.publications import Inspection
from chronolake_storage.published_history import HistoryListing, HistorySource
from chronolake_storage.publishing import PROPERTIES_PATH, Comparison, Owned

INSPECTIONS_MAX: Final = 5
"""A publication that changes its state so often is not inspected."""
SHOWN: Final = "the table is hidden from Hudi's readers, and this file shows it again"
"""The defect of a ``hoodie.properties`` that exists while publication is off."""
LOOKS_MAX: Final = 12
"""So often a publisher that was fenced asks for the lease again, which takes 20 seconds."""
LOOK_BACKOFF: Final = Backoff(first_seconds=0.1, max_seconds=3.0)


async def publish(
    transport: AsyncTransport, location: TableLocation, table: str, body: TakePublicationLease
) -> Publication:
    """The answer of ``AsyncTable.publish``."""
    lease = await transport.send(calls.call(operations.streams.TAKE_PUBLICATION_LEASE, table, body=body))
    publisher = _Publisher(transport, location, lease.table)
    try:
        return await _publish(transport, publisher, lease, is_check_due=False)
    except errors.PublicationFenced:
        if publisher.has_changed_visibility:
            await _look_again(transport, location, lease.table, body)
        raise


async def _look_again(
    transport: AsyncTransport, location: TableLocation, table: str, body: TakePublicationLease
) -> None:
    """Put right what a publisher did after it was replaced.

    It may have written ``hoodie.properties`` after the other one hid the table, or removed it after the other
    one showed the table.
    """
    for look in range(LOOKS_MAX):
        try:
            lease = await transport.send(
                calls.call(operations.streams.TAKE_PUBLICATION_LEASE, table, body=body)
            )
            await _publish(transport, _Publisher(transport, location, table), lease, is_check_due=True)
        except (errors.LeaseLive, errors.PublicationFenced):
            # The other one may have passed the place already.
            await concurrency.sleep(LOOK_BACKOFF.pause_seconds(look))
        except errors.ChronolakeError:
            return
        else:
            return


async def _publish(
    transport: AsyncTransport, publisher: _Publisher, lease: PublicationLease, *, is_check_due: bool
) -> Publication:
    try:
        await concurrency.run_protocol(publications.publish(lease, is_check_due=is_check_due), publisher)
    except Exception as exc:
        # Others need not wait for the end of the lease. The position stays: it never moves back.
        is_paused = isinstance(exc, errors.NotPublished)
        with contextlib.suppress(errors.ChronolakeError):
            report = ReportPublication(
                lease.publisher, lease.epoch, lease.published_version, release=True, paused=is_paused
            )
            await transport.send(calls.call(operations.streams.REPORT_PUBLICATION, lease.table, body=report))
        raise
    assert publisher.publication is not None, "the protocol ends with a report"
    return publisher.publication


async def publish_if_possible(transport: AsyncTransport, location: TableLocation, table: str) -> None:
    """Publish a table after a write. A failure is left to the next publisher: the write has completed."""
    with contextlib.suppress(errors.ChronolakeError, ImportError, ValueError):
        await publish(transport, location, table, TakePublicationLease(default_writer()))


async def inspect(
    transport: AsyncTransport, location: TableLocation, table: str, *, reads_contents: bool
) -> Inspection | None:
    """The differences from a publication; None where nothing was published, or it is off. Nothing is changed.

    Of a table that is hidden because publication is off, only the file that shows it nevertheless differs.

    Raises ``NotPublished`` if the publication pauses, resumes or is turned off again and again meanwhile.
    """
    attempts, was_refused = 0, False
    while True:
        attempts += 1
        publication = await transport.send(calls.call(operations.streams.GET_PUBLICATION, table))
        if publication.is_hidden:
            shown_by = await concurrency.run_blocking(location.shown_by)
            return None if shown_by is None else Inspection(damaged={shown_by: SHOWN})
        if publication.state is PublicationState.OFF or not publication.published_version:
            return None
        result, is_paused = Inspection(), was_refused or publication.state is PublicationState.PAUSED
        executor = _Publisher(transport, location, table)
        try:
            await concurrency.run_protocol(
                publications.inspect(result, is_paused=is_paused, reads_contents=reads_contents), executor
            )
        except errors.NotPublished:
            # It pauses at its next step, which no publisher has reported yet, or it was turned off meanwhile.
            if attempts == INSPECTIONS_MAX:
                raise
            was_refused = True
            continue
        return result


class _Publisher:
    """As ``publications.PublicationExecutor``. ``publication`` is the answer to the last report.

    ``has_changed_visibility`` says whether it may have written or removed ``hoodie.properties``.
    """

    def __init__(self, transport: AsyncTransport, location: TableLocation, table: str) -> None:
        self._transport = transport
        self._location = PublishedLocation(location)
        self._table = table
        self.publication: Publication | None = None
        self.has_changed_visibility = False

    async def begin(self, files_since: str | None) -> None:
        await concurrency.run_blocking(self._location.begin, files_since)

    async def hide(self, *, was_published: bool) -> None:
        self.has_changed_visibility = True
        await concurrency.run_blocking(self._location.hide, was_published)

    async def read_steps(self, after: int) -> PublicationSteps:
        return await self._transport.send(calls.timeline.publication_steps(self._table, after))

    async def execute_steps(self, page: PublicationSteps) -> None:
        self.has_changed_visibility |= publications.changes_visibility(page)
        await concurrency.run_blocking(self._location.execute, page.steps, page.is_hidden)

    async def report(self, report: ReportPublication) -> None:
        self.publication = await self._transport.send(
            calls.call(operations.streams.REPORT_PUBLICATION, self._table, body=report)
        )

    async def read_files(self, after: int) -> PublicationFiles:
        return await self._transport.send(calls.timeline.publication_files(self._table, after))

    async def read_partitions(self, after: str) -> PublicationPartitions:
        return await self._transport.send(calls.timeline.publication_partitions(self._table, after))

    async def find(self, owned: Owned) -> Comparison:
        return await concurrency.run_blocking(self._location.find, owned)

    async def plan_history(self, body: PlanHistory) -> HistoryPlan:
        return await self._transport.send(
            calls.call(operations.streams.PLAN_PUBLICATION_HISTORY, self._table, body=body)
        )

    async def read_history(self, range_: HistoryRange, after: int) -> HistoryPage:
        return await self._transport.send(calls.timeline.publication_history(self._table, range_, after))

    async def find_history(self, written: PublishedHistory | None) -> HistoryListing:
        return await concurrency.run_blocking(self._location.find_history, written)

    async def write_history(self, range_: HistoryRange, source: HistorySource) -> HistoryFile:
        return await concurrency.run_blocking(self._location.write_history, range_, source)

    async def compare_history(self, name: str, instants: Sequence[HistoryInstant]) -> bool:
        return await concurrency.run_blocking(self._location.compare_history, name, instants)

    async def show_history(self, history: PublishedHistory) -> None:
        await concurrency.run_blocking(self._location.show_history, history)

    async def remove_archived(self, before: str) -> bool:
        return await concurrency.run_blocking(self._location.remove_archived, before)

    async def remove_unused_history(self, history: PublishedHistory) -> None:
        await concurrency.run_blocking(self._location.remove_unused_history, history)

    async def remove(self, paths: Sequence[str]) -> None:
        await concurrency.run_blocking(self._location.remove, paths)

    async def compare(self, expected: Sequence[PublishedFile], comparison: Comparison) -> list[PublishedFile]:
        return await concurrency.run_blocking(self._location.compare, expected, comparison)

    async def put_right(self, expected: Sequence[PublishedFile], comparison: Comparison) -> list[PublishedFile]:
        self.has_changed_visibility |= PROPERTIES_PATH in [file.path for file in expected]
        return await concurrency.run_blocking(self._location.put_right, expected, comparison)
