"""Dropping rows from PostgreSQL that an archive of the log has: the answers and the events of old eras."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

import msgspec

from chronolake_metastore import errors
from chronolake_metastore.archive import leaving, thinning, verification
from chronolake_metastore.archive.proving import ArchiveProof
from chronolake_metastore.archive.reading import ArchiveReader
from chronolake_metastore.archive.storage import ArchiveStorage
from chronolake_metastore.commands import group
from chronolake_metastore.commands.handler import Answer
from chronolake_metastore.domain import eras as domain
from chronolake_metastore.domain.archives import ArchiveEnds
from chronolake_metastore.domain.context import Context
from chronolake_metastore.domain.eras import Era, RecordArchivedEra
from chronolake_metastore.domain.leaving_rows import LeavingRows, RowRanges
from chronolake_metastore.domain.subjects import SERVER
from chronolake_metastore.proof.replay import Progress, no_progress
from chronolake_metastore.settings import Settings
from chronolake_metastore.store import archive, eras
from chronolake_metastore.store.eras import RecordedArchive
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.postgres.transaction import Session

ACTOR: Final = "chronolake-metastore archive drop"
"""The actor of the events."""
_KEYS: Final = "archived-era-"
"""The beginning of the idempotency keys."""


class Dropped(msgspec.Struct, frozen=True):
    """The result: the eras whose answers left, the era that began if one did, and how many eras are kept.

    Those that are ``waiting`` leave when the archive reaches beyond their ends. ``events`` and ``instants`` are
    the numbers of events and of instants that left.
    """

    eras: list[int]
    began: int | None
    kept: int
    waiting: list[int]
    events: int = 0
    instants: int = 0


async def drop(
    settings: Settings,
    storage: ArchiveStorage,
    keep_seconds: int,
    progress: Progress = no_progress,
    *,
    whole: bool = False,
) -> Dropped:
    """Begin an era if one is due, and drop the rows of eras that ended more than ``keep_seconds`` ago.

    All answers leave, and the events that the state does not need any more. Raises
    ``DatabaseUnavailable``, and ``ConfigurationError`` unless the archive proves that it has all of
    them: new runs by their rows; those that a drop has recorded by digests, or with ``whole`` by their
    rows too. Eras that were dropped before stay so.
    """
    # The role of the servers may change no partition; the login may, if it is the owner of the schema.
    owner = msgspec.structs.replace(settings, role="none")
    await verification.refuse_other(owner, storage)
    database = Database(owner, lambda: ArchiveReader(storage))
    try:
        began = await _begin_era(database, keep_seconds)
        async with archive.at_one_moment(database) as tx:
            kept = await eras.kept(tx)
            recorded = await eras.recorded(tx)
        is_known = recorded is not None and recorded.location == storage.location and not whole
        proof = ArchiveProof(settings, storage, recorded.runs if recorded and is_known else [], progress)
        if whole:
            await proof.proved()
        due = domain.to_drop(kept.eras, kept.now, keep_seconds)
        dropped = await _drop_eras(database, storage, proof, due) if due else []
        left: thinning.ThinningPlan | None = None
        if (await thinning.plan(database, storage.manifest().end, keep_seconds)).groups:
            left = await thinning.thin(database, proof, keep_seconds, progress)
        planned = await leaving.plan(database)
        if leaving_instants := await leaving.rows(database, planned):
            await proof.read_back(leaving_instants)
        instants = await leaving.leave(database, planned, progress)
        waiting = [era.number for era in due if era.number not in dropped]
        events = 0 if left is None else left.leaving
        # Only if rows left: otherwise each recorded event would make an idle log record again.
        if recorded is not None and not dropped and (events or instants):
            await _record_proof(database, storage, recorded, proof.runs)
        return Dropped(dropped, began, len(kept.eras) - len(dropped), waiting, events, instants)
    finally:
        await database.close()


async def _begin_era(database: Database, keep_seconds: int) -> int | None:
    """Begin the next era if it is due; gives its number.

    An idle log begins none: the event of an era that left would be all of it.
    """
    async with archive.at_one_moment(database) as tx:
        kept = await eras.kept(tx)
        is_used = await eras.is_used(tx, _KEYS)
    present = kept.eras[-1].number
    if not is_used or not domain.is_due(kept.eras[-1], kept.now, keep_seconds):
        return None
    await eras.begin(database, present + 1)
    return present + 1


async def _drop_eras(
    database: Database, storage: ArchiveStorage, proof: ArchiveProof, due: Sequence[Era]
) -> list[int]:
    """Drop the answers of those eras that the archive covers; gives their numbers."""
    if not _covered(due, storage.manifest().end):
        async with archive.at_one_moment(database) as tx:
            of_era = await eras.ends(tx, due[0].number)
        _refuse_unless_archived(due[0], of_era, verification.described_ends(storage))
        return []
    proved = await proof.proved()
    covered = _covered(due, proved.manifest.end)
    async with archive.at_one_moment(database) as tx:
        first = await eras.beginnings(tx)
        last: dict[UUID, int] = {}
        for era in covered:
            of_era = await eras.ends(tx, era.number)
            _refuse_unless_archived(era, of_era, proved.ends)
            last |= of_era
    # The last answer of each chain stays.
    answers = RowRanges(
        (chain_id, first[chain_id], number - 1) for chain_id, number in last.items() if first[chain_id] < number
    )
    await proof.read_back(LeavingRows(answers=answers))
    for era in covered:
        assert era.ended_before is not None
        command = RecordArchivedEra(era.number, era.ended_before, storage.location, proof.runs)
        await _record(database, command)
        await eras.drop_answers(database, era.number)
    return [era.number for era in covered]


def _covered(due: Sequence[Era], archive_end: int) -> list[Era]:
    return [era for era in due if domain.is_covered(era, archive_end)]


async def _record_proof(
    database: Database, storage: ArchiveStorage, recorded: RecordedArchive, runs: list[str]
) -> None:
    """Record the last archived era again if ``runs`` were proved that are not recorded."""
    if recorded.location != storage.location or recorded.runs[: len(runs)] != runs:
        command = RecordArchivedEra(recorded.era, recorded.archived_before, storage.location, runs)
        await _record(database, command)


async def _record(database: Database, command: RecordArchivedEra) -> None:
    key = f"{_KEYS}{command.era}-{uuid.uuid4()}"
    request = group.request_of(Context(ACTOR, key, subject=SERVER), command)
    session = Session(database)
    try:
        [result] = (await group.run(session, [request], drift_max_us=0)).results
    finally:
        await session.close()
    assert isinstance(result, Answer), result


def _refuse_unless_archived(era: Era, last_of_era: Mapping[UUID, int], ends: ArchiveEnds) -> None:
    for chain_id, number in last_of_era.items():
        head = ends.outcomes.get(chain_id)
        if head is None or head.number < number:
            raise errors.ConfigurationError(
                f"the archive lacks outcome {number} of chain {chain_id}; run archive write first; nothing of "
                f"era {era.number} was dropped"
            )
