"""The state of an archive, and of what PostgreSQL still has of the log, and why."""

from __future__ import annotations

import msgspec

from chronolake_metastore.archive import leaving, verification
from chronolake_metastore.archive.storage import ArchiveStorage
from chronolake_metastore.domain import event_holders
from chronolake_metastore.domain.archives import ListedRun
from chronolake_metastore.domain.event_holders import HeldEvents, HoldingCause
from chronolake_metastore.domain.needed_instants import InstantBorder
from chronolake_metastore.settings import Settings
from chronolake_metastore.store import archive, eras, needed_events
from chronolake_metastore.store.eras import StoredPart
from chronolake_metastore.store.postgres.engine import Database


class ArchiveStatus(msgspec.Struct, frozen=True):
    """The size of an archive; ``end`` is the transaction before which it has everything."""

    location: str
    end: int
    events: int
    size_bytes: int
    bytes_per_event: float
    unlisted_files: int
    runs: tuple[ListedRun, ...]


class LogStatus(msgspec.Struct, frozen=True):
    """The log in PostgreSQL: its partitions, and what each table keeps of its events and instants, by name."""

    parts: list[StoredPart]
    tables: list[HeldEvents]
    instants: list[InstantBorder]
    largest_cause: HoldingCause | None


def of_archive(storage: ArchiveStorage) -> ArchiveStatus:
    """The status of an archive; raises ``ConfigurationError`` where there is none."""
    manifest = storage.existing_manifest()
    events = sum(run.events for run in manifest.runs)
    size_bytes = sum(run.size_bytes for run in manifest.runs)
    return ArchiveStatus(
        location=storage.location,
        end=manifest.end,
        events=events,
        size_bytes=size_bytes,
        bytes_per_event=size_bytes / events if events else 0.0,
        unlisted_files=sum(1 for _ in storage.unlisted(manifest)),
        runs=manifest.runs,
    )


async def of_log(settings: Settings, storage: ArchiveStorage | None = None) -> LogStatus:
    """The status of the log in PostgreSQL.

    Raises ``DatabaseUnavailable``, and ``ConfigurationError`` if a given archive is not that of the log.
    """
    database = Database(settings)
    try:
        async with archive.at_one_moment(database) as tx:
            if storage is not None:
                await verification.refuse_other_manifest(tx, storage.manifest(), storage.location)
            # Tables may be any number.
            await tx.query("SET LOCAL statement_timeout = 0", {})
            parts, held = await eras.stored_parts(tx), await needed_events.held(tx)
            instants = await leaving.borders(tx)
    finally:
        await database.close()
    return LogStatus(parts, held, instants, event_holders.largest_cause(held))


async def largest_cause(settings: Settings) -> HoldingCause | None:
    """The cause that holds most events in PostgreSQL; raises ``DatabaseUnavailable``."""
    database = Database(settings)
    try:
        async with archive.at_one_moment(database) as tx:
            await tx.query("SET LOCAL statement_timeout = 0", {})
            return event_holders.largest_cause(await needed_events.held(tx))
    finally:
        await database.close()
