"""Instants leave PostgreSQL: first it is announced that the timeline before a time is in the archive alone.

Then rows are deleted, of instants and of the files that cleans among them have deleted. Their events have left
before, and the archive makes instants from them. So these events are read back again (``archive.proving``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

from chronolake_metastore import errors
from chronolake_metastore.domain import needed_events as needs, needed_instants as domain
from chronolake_metastore.domain.leaving_rows import LeavingRows, RowRanges
from chronolake_metastore.domain.needed_instants import InstantBorder
from chronolake_metastore.proof.replay import Progress
from chronolake_metastore.store import (
    archive,
    eras,
    needed_events,
    needed_files,
    needed_instants as stored,
    thinning,
)
from chronolake_metastore.store.needed_files import FilePeriod
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.postgres.transaction import Transaction
from chronolake_model.times import Micros

ANNOUNCED_AT_ONCE: Final = 100
"""Tables whose new times one transaction announces. Commands of all tables wait for it."""


async def plan(database: Database) -> list[InstantBorder]:
    """The borders that may move, and how far."""
    async with archive.at_one_moment(database) as tx:
        await tx.query("SET LOCAL statement_timeout = 0", {})
        return [border for border in await borders(tx) if border.until > border.since]


async def borders(tx: Transaction) -> list[InstantBorder]:
    """How far the instants of each table may leave, by name; not of tables whose instants may not."""
    tables = await stored.tables(tx)
    wanted = [
        domain.wanted(of_table.table_id, table.definition, of_table, needs.need(of_table), table.history)
        for of_table in await needed_events.causes(tx)
        if (table := tables.get(of_table.table_id)) is not None
    ]
    return await stored.borders(tx, [found for found in wanted if found is not None])


async def rows(database: Database, planned: Sequence[InstantBorder]) -> LeavingRows:
    """The rows that leave by a plan, with those of a command that did not end, in the index of instants."""
    async with archive.at_one_moment(database) as tx:
        await tx.query("SET LOCAL statement_timeout = 0", {})
        return LeavingRows(instants=RowRanges(await stored.rows(tx, _times(planned))))


def _times(planned: Sequence[InstantBorder]) -> dict[UUID, Micros]:
    return {border.table_id: border.until for border in planned}


async def leave(database: Database, planned: Sequence[InstantBorder], progress: Progress) -> int:
    """Let instants leave whose events have left; gives the number of rows that were deleted.

    Raises as ``thinning.thin``. What was announced stays so, and the next command goes on.
    """
    async with archive.at_one_moment(database) as tx:
        if not planned and not await stored.leaving(tx):
            return 0
    async with thinning.opened(database) as session:
        for begin in range(0, len(planned), ANNOUNCED_AT_ONCE):
            times = _times(planned[begin : begin + ANNOUNCED_AT_ONCE])
            await eras.change(database, lambda tx: _announce(tx, times))  # noqa: B023
        async with archive.at_one_moment(database) as tx:
            leaving = await stored.leaving(tx)
        # A transaction that began before may read the rows.
        if leaving and not await session.wait_for_readers():
            raise errors.ConfigurationError(eras.READ)
        deleted = 0
        for number, table_id in enumerate(leaving):
            progress("deleting instants that have left", number, len(leaving))
            # The last part of the instants ends it, so the files are first.
            await _delete_files(database, table_id)
            deleted += await _delete(database, table_id)
    return deleted


async def _announce(tx: Transaction, times: Mapping[UUID, Micros]) -> None:
    # No command is under way, and each one that begins later sees the new border.
    await tx.query("LOCK TABLE clock IN EXCLUSIVE MODE", {})
    unblocked: dict[UUID, Micros] = {}
    for causes in await needed_events.blockers(tx, times):
        since, until = needs.need_for_blockers(causes).since, times[causes.table_id]
        if since is None or since >= until:
            unblocked[causes.table_id] = until
    await stored.announce(tx, unblocked)


async def _delete_files(database: Database, table_id: UUID) -> None:
    after: FilePeriod | None = FilePeriod()
    while after is not None:
        place = after
        part = await eras.change(database, lambda tx: needed_files.delete(tx, table_id, place))  # noqa: B023
        after = part.last


async def _delete(database: Database, table_id: UUID) -> int:
    deleted, after, is_done = 0, needs.BEGINNING, False
    while not is_done:
        place = after
        part = await eras.change(database, lambda tx: stored.delete(tx, table_id, place))  # noqa: B023
        deleted, after, is_done = deleted + part.deleted, part.last, part.is_last
    return deleted
