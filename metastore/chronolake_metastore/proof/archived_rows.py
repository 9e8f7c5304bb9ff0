"""The log over the border: rows that are in an archive alone are loaded, and the kept ones compared with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, Protocol
from uuid import UUID

from chronolake_metastore import errors
from chronolake_metastore.domain.proof import Check, ProofFinding
from chronolake_metastore.proof.replay import Progress
from chronolake_metastore.store import eras, thinning
from chronolake_metastore.store.eras import ThinnedEras
from chronolake_metastore.store.postgres.transaction import Transaction
from chronolake_metastore.store.replay_tables import LogRow, ReplaySession

_PROGRESS_ROWS: Final = 10_000


class ArchivedLogRows(Protocol):
    """The rows of an archive: events before a border, and answers before those of PostgreSQL."""

    @property
    def events_count(self) -> int:
        """The number of all of its events."""

    def events(self, border: int) -> Iterator[LogRow]: ...
    def beside(self, table: str, border: int) -> Iterator[LogRow]:
        """The rows of another table that belong to these events."""

    def outcomes(self, before: Mapping[UUID, int]) -> Iterator[LogRow]:
        """The outcomes whose numbers are lower than that of their chain."""

    def refusals(self, before: Mapping[UUID, int]) -> Iterator[LogRow]: ...


async def add(
    session: ReplaySession, archived: ArchivedLogRows | None, progress: Progress, *, with_answers: bool = True
) -> ThinnedEras | None:
    """Add what has left PostgreSQL to a session, which sees the whole log then; gives the thinned eras.

    Raises ``ConfigurationError`` if rows have left and ``archived`` is None.
    """
    async with session.replaying() as tx:
        beginnings = await eras.beginnings(tx) if with_answers else {}
        thinned = await eras.thinned(tx)
        recorded = await eras.recorded(tx)
    before = {chain_id: number for chain_id, number in beginnings.items() if number > 1}
    if recorded is None or not (before or thinned):
        return None
    if archived is None:
        raise errors.ConfigurationError(
            "old rows of the log are in the archive alone, and the whole log is read: add --archive "
            f"{recorded.location}"
        )
    if thinned is not None:
        border, total = thinned.border, archived.events_count
        events = _counted(archived.events(border), "reading archived events", total, progress)
        await session.add_archived("event", events, thinned.last_era)
        for table in thinning.TABLES[1:]:
            beside = _counted(archived.beside(table, border), f"reading archived rows of {table}", 0, progress)
            await session.add_archived(table, beside, thinned.last_era)
    if before:
        await session.add_archived("outcome", archived.outcomes(before))
        await session.add_archived("refusal", archived.refusals(before))
    return thinned


def _counted(rows: Iterable[LogRow], doing: str, total: int, progress: Progress) -> Iterator[LogRow]:
    for number, row in enumerate(rows):
        if number % _PROGRESS_ROWS == 0:
            progress(doing, number, total)
        yield row


async def compare_kept(
    session: ReplaySession,
    tx: Transaction,
    thinned: ThinnedEras,
    name: Callable[[UUID], str],
    limit: int,
) -> list[ProofFinding]:
    """The events before the border whose rows in PostgreSQL are others than in the archive, or are missing."""
    return [
        ProofFinding(
            Check.ARCHIVE,
            name(table_id),
            version,
            f"the rows of {table} that PostgreSQL keeps of eras that left",
            "those of the archive",
            "others",
        )
        for table in thinning.TABLES
        for table_id, version in await session.kept_differences(tx, table, thinned.last_era, limit)
    ]
