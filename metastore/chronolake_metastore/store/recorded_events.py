"""The events that claims in storage record: a log that lacks one is an earlier state (docs/decisions/0069)."""

from __future__ import annotations

from uuid import UUID

from chronolake_metastore.store import archived, event_log
from chronolake_metastore.store.archived import EVENT_BYTES, ArchivedEvents, ArchivedLog
from chronolake_metastore.store.postgres.engine import Database
from chronolake_model.deletable import LogHead
from chronolake_storage.claims import Claim, LogState


async def log_state(database: Database, table_id: UUID, recorded: LogHead | None) -> LogState:
    """The head of a table's log, and whether the log has the event that is ``recorded``.

    Raises ``ArchiveNotSet`` or ``ArchiveUnavailable`` if the event has left the database.
    """
    async with database.reading() as connection:
        head, has_recorded = await event_log.head(connection, table_id, recorded)
        border = await archived.border(connection) if has_recorded is None else None
    if border is not None:
        assert recorded is not None, "a log has each event of none"
        found = await archived.ask(database, border, lambda log: _event(log, table_id, recorded))
        has_recorded = [entry.event.hash.hex() for entry in found.events] == [recorded.hash]
    return LogState(head, bool(has_recorded))


def _event(log: ArchivedLog, table_id: UUID, recorded: LogHead) -> ArchivedEvents:
    return log.events_of_table(table_id, recorded.version - 1, recorded.version, 1, EVENT_BYTES)


async def is_behind(database: Database, table_id: UUID, claim: Claim | None, metastore_id: UUID) -> bool:
    """Whether the claim is of this table and metastore, and records an event that the log lacks.

    Raises as ``log_state``.
    """
    if claim is None or (claim.table_id, claim.metastore_id) != (str(table_id), str(metastore_id)):
        return False
    return not (await log_state(database, table_id, claim.log_head)).has_recorded
