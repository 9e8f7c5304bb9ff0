"""Publishing for Hudi's readers: the client executes the steps that the server computes from the log."""

from __future__ import annotations

import contextlib

from chronolake import calls, errors
from chronolake._async.transport import AsyncTransport
from chronolake._concurrency import awaiting as concurrency
from chronolake._http import default_writer
from chronolake._location import Location
from chronolake_model.publication import (
    FOREIGN_FILES_MAX,
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
    await concurrency.run_blocking(location.begin_publication, lease.published_version == 0)
    return await _execute(transport, location, lease)


async def publish_if_possible(transport: AsyncTransport, location: Location, table: str) -> None:
    """Publish a table after a write. A failure is left to the next publisher: the write has completed."""
    with contextlib.suppress(errors.ChronolakeError, ImportError, ValueError):
        await publish(transport, location, table, TakePublicationLease(default_writer()))


async def _execute(transport: AsyncTransport, location: Location, lease: PublicationLease) -> Publication:
    version, is_last = lease.published_version, False
    while not is_last:
        page = await transport.send(calls.publication.steps(lease.table, version))
        await concurrency.run_blocking(location.publish, page.steps, page.is_hidden)
        version, is_last = page.version, page.is_last
        report = ReportPublication(lease.publisher, lease.epoch, version)
        await transport.send(calls.publication.report(lease.table, report))
    foreign = await _check(transport, location, lease.table) if lease.is_new else None
    report = ReportPublication(lease.publisher, lease.epoch, version, foreign, release=True)
    return await transport.send(calls.publication.report(lease.table, report))


async def _check(transport: AsyncTransport, location: Location, table: str) -> list[str]:
    """Put right what is missing of the publication; the first files that no publisher wrote."""
    expected: dict[str, int] = {}
    version, is_last = 0, False
    properties: bytes | None = None
    adopted_at: str | None = None
    while not is_last:
        page = await transport.send(calls.publication.files(table, version))
        expected.update(page.written)
        for path in page.removed:
            expected.pop(path, None)
        version, is_last = page.version, page.is_last
        properties, adopted_at = page.properties, page.adopted_at
    found = await concurrency.run_blocking(location.check_publication, expected, properties, adopted_at)
    repaired = 0
    for version in sorted(expected[path] for path in found.missing):
        if version > repaired:
            steps = await transport.send(calls.publication.steps(table, version - 1))
            await concurrency.run_blocking(location.repair_publication, steps.steps, found.missing)
            repaired = steps.version
    return found.foreign[:FOREIGN_FILES_MAX]
