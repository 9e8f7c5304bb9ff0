"""Publishing for Hudi's readers: the client executes the steps that the server computes from the log."""

from __future__ import annotations

from chronolake import calls
from chronolake._async.transport import AsyncTransport
from chronolake._concurrency import awaiting as concurrency
from chronolake._location import Location
from chronolake_model.publication import (
    Publication,
    PublicationLease,
    ReportPublication,
    TakePublicationLease,
)


async def publish(
    transport: AsyncTransport, location: Location, table: str, body: TakePublicationLease
) -> Publication:
    """The answer of ``AsyncTable.publish``."""
    lease = await transport.send(calls.publication.take_lease(table, body))
    await concurrency.run_blocking(location.begin_publication)
    return await _execute(transport, location, lease)


async def _execute(transport: AsyncTransport, location: Location, lease: PublicationLease) -> Publication:
    version = lease.published_version
    while True:
        page = await transport.send(calls.publication.steps(lease.table, version))
        await concurrency.run_blocking(location.publish, page.steps, page.is_hidden)
        version = page.version
        report = ReportPublication(lease.publisher, lease.epoch, version, release=page.is_last)
        publication = await transport.send(calls.publication.report(lease.table, report))
        if page.is_last:
            return publication
