# Generated from chronolake/_async/publishing.py by tools/async_to_sync.py: do not edit.
"""Publishing for Hudi's readers: the client executes the steps that the server computes from the log."""

from __future__ import annotations

import contextlib

from chronolake import calls, errors
from chronolake._concurrency import blocking as concurrency
from chronolake._http import default_writer
from chronolake._location import Location
from chronolake._sync.transport import Transport
from chronolake_model.publication import (
    FOREIGN_FILES_MAX,
    Publication,
    PublicationLease,
    ReportPublication,
    TakePublicationLease,
)


def publish(transport: Transport, location: Location, table: str, body: TakePublicationLease) -> Publication:
    """The answer of ``Table.publish``."""
    lease = transport.send(calls.publication.take_lease(table, body))
    concurrency.run_blocking(location.begin_publication, lease.published_version == 0)
    return _execute(transport, location, lease)


def publish_if_possible(transport: Transport, location: Location, table: str) -> None:
    """Publish a table after a write. A failure is left to the next publisher: the write has completed."""
    with contextlib.suppress(errors.ChronolakeError, ImportError, ValueError):
        publish(transport, location, table, TakePublicationLease(default_writer()))


def _execute(transport: Transport, location: Location, lease: PublicationLease) -> Publication:
    version, is_last = lease.published_version, False
    while not is_last:
        page = transport.send(calls.publication.steps(lease.table, version))
        concurrency.run_blocking(location.publish, page.steps, page.is_hidden)
        version, is_last = page.version, page.is_last
        report = ReportPublication(lease.publisher, lease.epoch, version)
        transport.send(calls.publication.report(lease.table, report))
    foreign = _check(transport, location, lease.table) if lease.is_new else None
    report = ReportPublication(lease.publisher, lease.epoch, version, foreign, release=True)
    return transport.send(calls.publication.report(lease.table, report))


def _check(transport: Transport, location: Location, table: str) -> list[str]:
    """Put right what is missing of the publication; the first files that no publisher wrote."""
    expected: dict[str, int] = {}
    version, is_last = 0, False
    properties: bytes | None = None
    adopted_at: str | None = None
    while not is_last:
        page = transport.send(calls.publication.files(table, version))
        expected.update(page.written)
        for path in page.removed:
            expected.pop(path, None)
        version, is_last = page.version, page.is_last
        properties, adopted_at = page.properties, page.adopted_at
    found = concurrency.run_blocking(location.check_publication, expected, properties, adopted_at)
    repaired = 0
    for version in sorted(expected[path] for path in found.missing):
        if version > repaired:
            steps = transport.send(calls.publication.steps(table, version - 1))
            concurrency.run_blocking(location.repair_publication, steps.steps, found.missing)
            repaired = steps.version
    return found.foreign[:FOREIGN_FILES_MAX]
