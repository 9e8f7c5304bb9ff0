"""Rebuilding the projections from the log, while servers write.

The log is replayed into replay tables first. Commands wait only while its end is replayed, the replay tables
are compared with the projections, and the rows that differ are corrected.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec

from chronolake_metastore import errors
from chronolake_metastore.domain.stored_events import StoredEvent, decode
from chronolake_metastore.projections.registry import TABLES
from chronolake_metastore.proof import archived_rows
from chronolake_metastore.proof.archived_rows import ArchivedLogRows
from chronolake_metastore.proof.replay import InvalidEvent, LogReader, Progress, Replay, no_progress
from chronolake_metastore.settings import Settings
from chronolake_metastore.store import answers, proof, replay_tables
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.postgres.transaction import Transaction


class Rebuilt(msgspec.Struct, frozen=True):
    """The result of a rebuild: corrected rows of each projection, and how long commands waited."""

    events: int
    repaired: dict[str, int]
    waited_seconds: float


async def rebuild(
    settings: Settings,
    progress: Progress = no_progress,
    archived: ArchivedLogRows | None = None,
    *,
    with_instants: bool = False,
) -> Rebuilt:
    """Make every projection equal to a replay of the whole log, row by row, in one transaction.

    ``archived`` has the events that have left PostgreSQL. With ``with_instants`` all instants come back that
    have left. Raises ``ConfigurationError`` when the log cannot be replayed, events have left and
    ``archived`` is None, or when the login may not change the projections, and ``DatabaseUnavailable``; in
    each case nothing has changed.
    """
    # The role of the servers may neither lock the clocks against commands nor delete them; the login may, if it
    # is the owner of the schema.
    database = Database(msgspec.structs.replace(settings, role="none"))
    reader, replay = LogReader(), Replay()
    length = 0

    async def take(tx: Transaction, page: Sequence[StoredEvent]) -> None:
        try:
            await replay.apply(tx, [decode(stored) for stored in page])
        except ValueError as exc:
            raise errors.ConfigurationError(f"the log cannot be replayed: {exc}; {_ADVICE}") from exc
        for refusal in replay.refused.values():
            raise errors.ConfigurationError(_refusal(refusal))
        progress("replaying the log", reader.events + len(page), length)

    try:
        async with replay_tables.opened(database, TABLES) as session:
            async with session.replaying() as tx:
                await session.refuse_to_repair_without_rights(tx)
            await archived_rows.add(session, archived, progress, with_answers=False)
            async with session.replaying() as tx:
                length = await proof.log_length(tx, None)
                await replay.begin(tx)
            await reader.read_until_recent(session, take)
            progress("waiting for the commands under way", 0, 0)
            async with session.while_commands_wait() as tx:
                began = time.monotonic()
                await reader.read_remainder(tx, take)
                await tx.batch([answers.project(await answers.heads(tx))])
                progress("comparing", 0, 0)
                repaired = await session.repair(tx, with_instants=with_instants)
            return Rebuilt(reader.events, repaired, time.monotonic() - began)
    except replay_tables.Unreplayable as exc:
        raise errors.ConfigurationError(f"the log cannot be replayed: {exc}; {_ADVICE}") from exc
    finally:
        await database.close()


_ADVICE = "chronolake-metastore verify says what is wrong with it"


def _refusal(refusal: InvalidEvent) -> str:
    event = refusal.event
    return (
        f"the log cannot be replayed: version {event.version} of table {event.table_id}, {event.type}: "
        f"{refusal.reason}; {_ADVICE}"
    )
