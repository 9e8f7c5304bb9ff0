"""Events leave PostgreSQL: the partitions of old eras are replaced by what the state still needs of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

import msgspec

from chronolake_metastore import errors
from chronolake_metastore.archive.proving import ArchiveProof
from chronolake_metastore.domain import eras as domain, needed_events as needs
from chronolake_metastore.domain.archives import ArchiveEnds
from chronolake_metastore.domain.eras import EraPart
from chronolake_metastore.domain.leaving_rows import LeavingRows, RowRange, RowRanges
from chronolake_metastore.domain.needed_events import Need
from chronolake_metastore.proof.replay import Progress
from chronolake_metastore.store import archive, eras, needed_events, thinning
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.postgres.transaction import Transaction
from chronolake_metastore.store.thinning import Thinning

TRIES: Final = 3
"""How often the copies are made anew because a table needs more than before."""


class ThinningPlan(msgspec.Struct, frozen=True):
    """The groups of partitions to thin, and by table the first event that stays where some may leave."""

    groups: list[list[EraPart]]
    needs: dict[UUID, Need]
    first: dict[UUID, int]
    leaving: int


class _NeedsMore(Exception):
    """A table needs events that were not copied."""


async def plan(
    database: Database, end: int, keep_seconds: int, ends: ArchiveEnds | None = None
) -> ThinningPlan:
    """Find what is to leave, given the ``end`` of the archive, and its last events where they are known.

    The last archived event of a table stays, because the next run of the archive compares its hash.
    """
    async with archive.at_one_moment(database) as tx:
        # Old eras have any number of events.
        await tx.query("SET LOCAL statement_timeout = 0", {})
        parts = domain.may_thin(await thinning.parts(tx), (await eras.kept(tx)).now, keep_seconds, end)
        if not parts:
            return ThinningPlan([], {}, {}, 0)
        needed = {causes.table_id: needs.need(causes) for causes in await needed_events.causes(tx)}
        first = await needed_events.first_versions(tx, needed)
        if ends is not None:
            first = {
                table_id: min(version, ends.events[table_id].number)
                for table_id, version in first.items()
                if table_id in ends.events
            }
        first = {table_id: version for table_id, version in first.items() if version > 1}
        counts = await thinning.count(tx, parts[-1].last, first)
    groups = domain.to_thin(parts, counts)
    leaving = sum(counts[part.last].leaving for group in groups for part in group if part.last in counts)
    return ThinningPlan(groups, {table_id: needed[table_id] for table_id in first}, first, leaving)


async def rows(database: Database, planned: ThinningPlan) -> LeavingRows:
    """The rows that leave by a plan."""
    events: list[RowRange] = []
    entries: list[RowRange] = []
    async with archive.at_one_moment(database) as tx:
        await tx.query("SET LOCAL statement_timeout = 0", {})
        for group in planned.groups:
            events += await thinning.leaving(tx, _eras(group), planned.first)
            entries += await thinning.kept_entries(tx, _eras(group))
    return LeavingRows(RowRanges(events), RowRanges(entries))


async def thin(database: Database, proof: ArchiveProof, keep_seconds: int, progress: Progress) -> ThinningPlan:
    """Let events leave that the archive has, by its proof; gives what was done.

    Raises ``DatabaseUnavailable``, and ``ConfigurationError`` if the archive is damaged, or while another
    session thins eras, verifies the log, or reads it for too long. Groups that were done stay so.
    """
    proved = await proof.proved()
    async with thinning.opened(database) as session:
        for _ in range(TRIES):
            done = await plan(database, proved.manifest.end, keep_seconds, proved.ends)
            await proof.read_back(await rows(database, done))
            try:
                for number, group in enumerate(done.groups):
                    progress("copying the events that are needed", number, len(done.groups))
                    await _thin(database, session, group, done)
            except _NeedsMore:
                continue
            return done
    raise errors.ConfigurationError(
        "tables need more of their old events again and again; run this command again when there are fewer "
        "savepoints, restores and rollbacks"
    )


async def _thin(database: Database, session: Thinning, group: list[EraPart], planned: ThinningPlan) -> None:
    of_group = _eras(group)
    await session.copy(of_group, planned.first)
    await session.announce(of_group, planned.first)
    if not await session.wait_for_readers():
        raise errors.ConfigurationError(eras.READ)

    async def swap(tx: Transaction) -> None:
        await tx.query("LOCK TABLE clock IN EXCLUSIVE MODE", {})
        await _refuse_more(tx, planned.needs)
        await thinning.swap(tx, of_group)

    await eras.change(database, swap)


def _eras(group: Sequence[EraPart]) -> tuple[int, int]:
    return group[0].first, group[-1].last


async def _refuse_more(tx: Transaction, copied: Mapping[UUID, Need]) -> None:
    """Raise ``_NeedsMore`` if a table needs more than before; no command is under way."""
    for causes in await needed_events.blockers(tx, copied):
        if not copied[causes.table_id].covers(needs.need_for_blockers(causes)):
            raise _NeedsMore
