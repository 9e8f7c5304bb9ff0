# Generated from chronolake/_async/publishing.py by tools/async_to_sync.py: do not edit.
"""Publishing for Hudi's readers: the client executes the steps that the server computes from the log."""

from __future__ import annotations

from chronolake import calls
from chronolake._concurrency import blocking as concurrency
from chronolake._location import Location
from chronolake._sync.transport import Transport
from chronolake_model.publication import (
    Publication,
    PublicationLease,
    ReportPublication,
    TakePublicationLease,
)


def publish(transport: Transport, location: Location, table: str, body: TakePublicationLease) -> Publication:
    """The answer of ``Table.publish``."""
    lease = transport.send(calls.publication.take_lease(table, body))
    concurrency.run_blocking(location.begin_publication)
    return _execute(transport, location, lease)


def _execute(transport: Transport, location: Location, lease: PublicationLease) -> Publication:
    version = lease.published_version
    while True:
        page = transport.send(calls.publication.steps(lease.table, version))
        concurrency.run_blocking(location.publish, page.steps, page.is_hidden)
        version = page.version
        report = ReportPublication(lease.publisher, lease.epoch, version, release=page.is_last)
        publication = transport.send(calls.publication.report(lease.table, report))
        if page.is_last:
            return publication
