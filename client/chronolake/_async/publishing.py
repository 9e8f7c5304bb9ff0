"""Publishing for Hudi's readers: the client's executor of ``chronolake_storage.publications``."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Final

from chronolake import calls, errors
from chronolake._async.transport import AsyncTransport
from chronolake._concurrency import awaiting as concurrency
from chronolake._http import default_writer
from chronolake._location import Location
from chronolake_model.publication import (
    Publication,
    PublicationFiles,
    PublicationPartitions,
    PublicationState,
    PublicationSteps,
    PublishedFile,
    ReportPublication,
    TakePublicationLease,
)
from chronolake_storage import publications
from chronolake_storage.publications import Inspection
from chronolake_storage.publishing import Comparison, Owned

INSPECTIONS_MAX: Final = 5
"""A publication that changes its state so often is not inspected."""


async def publish(
    transport: AsyncTransport, location: Location, table: str, body: TakePublicationLease
) -> Publication:
    """The answer of ``AsyncTable.publish``."""
    lease = await transport.send(calls.publication.take_lease(table, body))
    publisher = _Publisher(transport, location, lease.table)
    try:
        await concurrency.run_protocol(publications.publish(lease, is_check_due=False), publisher)
    except Exception:
        # Others need not wait for the end of the lease. The position stays: it never moves back.
        with contextlib.suppress(errors.ChronolakeError):
            report = ReportPublication(lease.publisher, lease.epoch, lease.published_version, release=True)
            await transport.send(calls.publication.report(lease.table, report))
        raise
    assert publisher.publication is not None, "the protocol ends with a report"
    return publisher.publication


async def publish_if_possible(transport: AsyncTransport, location: Location, table: str) -> None:
    """Publish a table after a write. A failure is left to the next publisher: the write has completed."""
    with contextlib.suppress(errors.ChronolakeError, ImportError, ValueError):
        await publish(transport, location, table, TakePublicationLease(default_writer()))


async def inspect(
    transport: AsyncTransport, location: Location, table: str, *, reads_contents: bool
) -> Inspection | None:
    """What differs from a publication; None where nothing was published, or it is off. Nothing is changed.

    Raises ``NotPublished`` if the publication pauses, resumes or is turned off again and again meanwhile.
    """
    attempts = 0
    while True:
        attempts += 1
        publication = await transport.send(calls.publication.get(table))
        if publication.state is PublicationState.OFF or not publication.published_version:
            return None
        result, is_paused = Inspection(), publication.state is PublicationState.PAUSED
        executor = _Publisher(transport, location, table)
        try:
            await concurrency.run_protocol(
                publications.inspect(result, is_paused=is_paused, reads_contents=reads_contents), executor
            )
        except errors.NotPublished:
            # It has paused, or was turned off, meanwhile.
            if attempts == INSPECTIONS_MAX:
                raise
            continue
        return result


class _Publisher:
    """As ``publications.Executor``. ``publication`` is the answer to the last report."""

    def __init__(self, transport: AsyncTransport, location: Location, table: str) -> None:
        self._transport = transport
        self._location = location
        self._table = table
        self.publication: Publication | None = None

    async def begin(self, files_since: str | None) -> None:
        await concurrency.run_blocking(self._location.begin_publication, files_since)

    async def hide(self, *, was_published: bool) -> None:
        await concurrency.run_blocking(self._location.hide_publication, was_published)

    async def read_steps(self, after: int) -> PublicationSteps:
        return await self._transport.send(calls.publication.steps(self._table, after))

    async def execute_steps(self, page: PublicationSteps) -> None:
        await concurrency.run_blocking(self._location.publish, page.steps, page.is_hidden)

    async def report(self, report: ReportPublication) -> None:
        self.publication = await self._transport.send(calls.publication.report(self._table, report))

    async def read_files(self, after: int) -> PublicationFiles:
        return await self._transport.send(calls.publication.files(self._table, after))

    async def read_partitions(self, after: str) -> PublicationPartitions:
        return await self._transport.send(calls.publication.partitions(self._table, after))

    async def find(self, owned: Owned) -> Comparison:
        return await concurrency.run_blocking(self._location.find_publication, owned)

    async def remove(self, paths: Sequence[str]) -> None:
        await concurrency.run_blocking(self._location.remove_publication, paths)

    async def compare(self, expected: Sequence[PublishedFile], comparison: Comparison) -> list[PublishedFile]:
        return await concurrency.run_blocking(self._location.compare_publication, expected, comparison)

    async def put_right(self, expected: Sequence[PublishedFile], comparison: Comparison) -> list[PublishedFile]:
        return await concurrency.run_blocking(self._location.put_publication_right, expected, comparison)
