"""Dropping rows from PostgreSQL that an archive of the log has: the answers and the events of old eras."""

from __future__ import annotations

import uuid
from typing import Final

import msgspec

from chronolake_metastore import errors
from chronolake_metastore.archive import leaving, thinning, verification
from chronolake_metastore.archive.reading import ArchiveReader
from chronolake_metastore.archive.storage import ArchiveStorage
from chronolake_metastore.commands import group
from chronolake_metastore.commands.handler import Answer
from chronolake_metastore.domain import eras as domain
from chronolake_metastore.domain.archives import ArchiveEnds, ArchiveManifest
from chronolake_metastore.domain.context import Context
from chronolake_metastore.domain.eras import Era, RecordArchivedEra
from chronolake_metastore.domain.subjects import SERVER
from chronolake_metastore.proof.replay import Progress, no_progress
from chronolake_metastore.settings import Settings
from chronolake_metastore.store import archive, eras
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


class _Proved(msgspec.Struct, frozen=True):
    """An archive that is proved: its manifest, and its ends, which may be later."""

    manifest: ArchiveManifest
    ends: ArchiveEnds


async def drop(
    settings: Settings, storage: ArchiveStorage, keep_seconds: int, progress: Progress = no_progress
) -> Dropped:
    """Begin an era if one is due, and drop the rows of eras that ended more than ``keep_seconds`` ago.

    All answers leave, and the events that the state does not need any more. Raises
    ``DatabaseUnavailable``, and ``ConfigurationError`` unless the archive proves that it has all of
    them. Eras that were dropped before stay so.
    """
    # The role of the servers may change no partition; the login may, if it is the owner of the schema.
    owner = msgspec.structs.replace(settings, role="none")
    await verification.refuse_other(owner, storage)
    database = Database(owner, lambda: ArchiveReader(storage))
    try:
        began = await _begin_era(database, keep_seconds)
        async with archive.at_one_moment(database) as tx:
            kept = await eras.kept(tx)
        dropped: list[int] = []
        proved: _Proved | None = None
        left: thinning.ThinningPlan | None = None
        due = domain.to_drop(kept.eras, kept.now, keep_seconds)
        if due:
            proved = await _proved(settings, storage, progress)
            covered = [era for era in due if domain.is_covered(era, proved.manifest.end)]
            for era in covered or due[:1]:
                await _refuse_unless_archived(database, era, proved.ends)
            for era in covered:
                await _drop(database, storage, era, proved.manifest.link)
                dropped.append(era.number)
        if (await thinning.plan(database, storage.manifest().end, keep_seconds)).groups:
            proved = proved or await _proved(settings, storage, progress)
            left = await thinning.thin(database, proved.manifest.end, proved.ends, keep_seconds, progress)
        planned = await leaving.plan(database)
        if planned and proved is None:
            await _proved(settings, storage, progress)
        instants = await leaving.leave(database, planned, progress)
        waiting = [era.number for era in due if era.number not in dropped]
        events = 0 if left is None else left.leaving
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


async def _proved(settings: Settings, storage: ArchiveStorage, progress: Progress) -> _Proved:
    """The archive, which is proved, and which is the archive of this log."""
    manifest = storage.manifest()  # What is archived meanwhile is proved next time.
    report, ends = await verification.verify(storage, progress=progress)
    report = await verification.compared(settings, report, ends)
    for finding in report.findings:
        raise errors.ConfigurationError(
            f"the archive does not prove what it has: {finding.what}: expected {finding.expected}, found "
            f"{finding.found}; run archive verify; nothing was dropped"
        )
    return _Proved(manifest, ends)


async def _drop(database: Database, storage: ArchiveStorage, era: Era, link: str) -> None:
    assert era.ended_before is not None
    command = RecordArchivedEra(era.number, era.ended_before, storage.location, link)
    request = group.request_of(Context(ACTOR, f"{_KEYS}{era.number}-{uuid.uuid4()}", subject=SERVER), command)
    session = Session(database)
    try:
        [result] = (await group.run(session, [request], drift_max_us=0)).results
    finally:
        await session.close()
    assert isinstance(result, Answer), result
    await eras.drop_answers(database, era.number)


async def _refuse_unless_archived(database: Database, era: Era, ends: ArchiveEnds) -> None:
    async with archive.at_one_moment(database) as tx:
        last_of_era = await eras.ends(tx, era.number)
    for chain_id, number in last_of_era.items():
        head = ends.outcomes.get(chain_id)
        if head is None or head.number < number:
            raise errors.ConfigurationError(
                f"the archive lacks outcome {number} of chain {chain_id}; run archive write first; nothing of "
                f"era {era.number} was dropped"
            )
