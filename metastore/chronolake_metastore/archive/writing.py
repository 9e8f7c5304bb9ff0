"""Writing an archive of the log: new runs, and merges of runs.

The rows are copied to a local folder first, in one transaction that only reads, so that neither vacuum nor
followers of the log wait for object storage. A run is listed after it was read back and verified. Of two
archivers that write at once, one lists its run, and the other removes its own and goes on after it.
"""

from __future__ import annotations

import heapq
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from chronolake_metastore import errors
from chronolake_metastore.archive import indexes, instant_index, rows, run_rows, verification
from chronolake_metastore.archive.instant_index import InstantEntries
from chronolake_metastore.archive.pace import FULL_SPEED, Pace
from chronolake_metastore.archive.rows import Row, RowWriter
from chronolake_metastore.archive.storage import ArchiveDamaged, ArchiveStorage, StoredManifest
from chronolake_metastore.domain import archives
from chronolake_metastore.domain.archives import (
    ArchiveEnds,
    ArchiveManifest,
    ArchiveRun,
    ChainSpan,
    ListedRun,
    RowBounds,
)
from chronolake_metastore.domain.logs import START, ChainHead
from chronolake_metastore.settings import Settings
from chronolake_metastore.store import archive
from chronolake_metastore.store.archive import FoundEntries
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.postgres.transaction import Transaction

Files = dict[str, dict[str, RowBounds]]
"""By table of the log or index, the names of files with the bounds of their rows."""
_DAMAGED: Final = "run chronolake-metastore verify; nothing was archived"


class Archived(msgspec.Struct, frozen=True):
    """The result of archiving: new runs and their events, and merges."""

    runs: int = 0
    events: int = 0
    size_bytes: int = 0
    merges: int = 0

    def with_run(self, listed: ListedRun) -> Archived:
        """The result with one more new run."""
        return Archived(
            self.runs + 1, self.events + listed.events, self.size_bytes + listed.size_bytes, self.merges
        )


async def write(
    settings: Settings,
    storage: ArchiveStorage,
    *,
    events_max: int = archive.EVENTS_MAX,
    pace: Pace = FULL_SPEED,
) -> Archived:
    """Archive all of the log that does not change any more, and merge runs, with the rests of ``pace``.

    Raises ``DatabaseUnavailable``, and ``ConfigurationError`` when log or archive is damaged, when the archive
    is not of this log, or storage refuses. Runs that were listed stay.
    """
    database = Database(settings)
    done, is_last = Archived(), False
    try:
        while not is_last:
            is_last, listed = await _write_run(database, storage, events_max, pace)
            done = done if listed is None else done.with_run(listed)
            while await _merge(storage, pace):
                done = msgspec.structs.replace(done, merges=done.merges + 1)
    except ArchiveDamaged as exc:
        raise errors.ConfigurationError(f"the archive is damaged: {exc}; run archive verify") from exc
    finally:
        await database.close()
    return done


async def _write_run(
    database: Database, storage: ArchiveStorage, events_max: int, pace: Pace
) -> tuple[bool, ListedRun | None]:
    """Write the next run, if there is anything to archive; gives also whether it was the last for now."""
    stored, ends = _present(storage)
    manifest = stored.manifest
    with tempfile.TemporaryDirectory(prefix="chronolake-archive-") as folder:
        spool = Path(folder)
        async with archive.at_one_moment(database) as tx:
            await _refuse_table(tx, storage)
            await verification.refuse_other_manifest(tx, manifest, storage.location)
            run, is_last = await _next_run(tx, manifest, ends, events_max)
            if not run.has_rows:
                return is_last and _move_end(storage, stored, run.end), None
            files = await _copy(tx, spool, run, pace)
        listed = await _list(storage, stored, run, spool, files, ends, pace)
        return is_last and listed is not None, listed


def _move_end(storage: ArchiveStorage, stored: StoredManifest, end: int) -> bool:
    """Note that the log has no new rows before ``end``; False if another archiver changed the archive.

    Without it, eras that ended on an idle log would wait for the next row. An empty log has an archive too.
    """
    if end == stored.manifest.end:
        return True
    return storage.replace_manifest(stored, msgspec.structs.replace(stored.manifest, empty_before=end))


def _present(storage: ArchiveStorage) -> tuple[StoredManifest, ArchiveEnds]:
    """The manifest and the ends of the archive. Runs that were merged before are removed."""
    stored = storage.stored_manifest()
    if stored.manifest.merged_away:
        storage.remove(stored.manifest.merged_away)
        storage.replace_manifest(stored, msgspec.structs.replace(stored.manifest, merged_away=()))
        stored = storage.stored_manifest()
    ends = ArchiveEnds()
    for listed in stored.manifest.runs:
        ends.add(storage.run(listed))
    return stored, ends


async def _refuse_table(tx: Transaction, storage: ArchiveStorage) -> None:
    folder = None if storage.key is None else await archive.folder_of_table(tx, storage.key)
    if folder is not None:
        raise errors.ConfigurationError(
            f"the archive would lie in the folder {folder} of a table, or around it; name a location outside "
            "of all tables"
        )


async def _next_run(
    tx: Transaction, manifest: ArchiveManifest, ends: ArchiveEnds, events_max: int
) -> tuple[ArchiveRun, bool]:
    """The description of the next run, and whether nothing is to be archived after it now."""
    [*_, metastore_id] = await archive.identities(tx)
    # The ends of the log before anything of it: a log without them is another one, or was restored.
    if (refusal := (await archive.compare(tx, ends, manifest.metastore_id)).refusal()) is not None:
        raise errors.ConfigurationError(refusal)
    begin = manifest.end_of_runs
    end, horizon = await archive.end(tx, begin, events_max)
    events = [_span_of_events(found, ends) for found in await archive.events(tx, begin, end)]
    heads = {span.chain_id: ChainHead(span.last, bytes.fromhex(span.hash)) for span in events}
    taken = ArchiveEnds(ends.events | heads, ends.outcomes)
    outcomes = [
        _span(found, ends.outcomes.get(found.chain_id, START)) for found in await archive.outcomes(tx, taken)
    ]
    run = ArchiveRun(
        metastore_id=metastore_id,
        level=0,
        begin=begin,
        end=max(end, manifest.end),
        previous=manifest.link,
        events=events,
        outcomes=outcomes,
    )
    return run, end >= horizon


def _span_of_events(found: FoundEntries, ends: ArchiveEnds) -> ChainSpan:
    head = ends.events.get(found.chain_id, START)
    if (found.first, found.count) != (head.number + 1, found.last - head.number):
        raise errors.ConfigurationError(
            f"the log {found.chain_id} lacks events between version {head.number} and {found.last}; {_DAMAGED}"
        )
    return _span(found, head)


def _span(found: FoundEntries, head: ChainHead) -> ChainSpan:
    return ChainSpan(found.chain_id, head.number + 1, found.last, head.hash.hex(), found.hash.hex())


async def _copy(tx: Transaction, spool: Path, run: ArchiveRun, pace: Pace) -> Files:
    files, entries = {}, {index: list[Row]() for index in indexes.SOURCE}
    instants = InstantEntries()
    for table in rows.COLUMNS:
        of_table = indexes.of_table(table)
        writer, number = RowWriter(spool, table), 0
        async for row in archive.rows(tx, table, run):
            writer.add(row)
            for index in of_table:
                entries[index].append(indexes.entry(index, row, number))
            if table == "event":
                instants.add(row)
            number += 1
            pace.after_row(number)
        writer.close()
        files[table] = writer.files
    for index, of_index in entries.items():
        files[index] = _write(spool, index, iter(sorted(of_index)), pace)
    files[rows.INSTANT] = _write(spool, rows.INSTANT, instants.rows(), pace)
    return files


def _write(spool: Path, table: str, new: Iterator[Row], pace: Pace) -> dict[str, RowBounds]:
    writer = RowWriter(spool, table)
    for number, row in enumerate(new):
        writer.add(row)
        pace.after_row(number)
    writer.close()
    return writer.files


async def _list(
    storage: ArchiveStorage,
    stored: StoredManifest,
    run: ArchiveRun,
    spool: Path,
    files: Files,
    ends: ArchiveEnds,
    pace: Pace,
    merged: Sequence[ListedRun] = (),
) -> ListedRun | None:
    """Copy a run to storage, verify it there, and list it, in the place of the ``merged`` runs.

    None if another archiver replaced the manifest after ``stored`` was read. ``ends`` are those before the run.
    """
    listed, run = storage.add(run, spool, files)
    of_run = verification.RunVerification(pace=pace)
    await of_run.verify(storage, listed, run, ends)
    if of_run.findings:
        storage.remove([listed.name])
        finding = of_run.findings[0]
        raise errors.ConfigurationError(
            f"the log does not fit its hashes: {finding.table}: {finding.what}; expected {finding.expected}, "
            f"found {finding.found}; {_DAMAGED}"
        )
    if storage.replace_manifest(stored, archives.with_run(stored.manifest, listed, merged)):
        return listed
    storage.remove([listed.name])
    return None


async def _merge(storage: ArchiveStorage, pace: Pace) -> bool:
    """Merge runs if enough of them have one level."""
    stored = storage.stored_manifest()
    manifest = stored.manifest
    due = archives.due_merge(manifest)
    if not due:
        return False
    ends = ArchiveEnds()
    for listed in manifest.runs[: len(manifest.runs) - len(due)]:
        ends.add(storage.run(listed))
    runs = [storage.run(listed) for listed in due]

    with tempfile.TemporaryDirectory(prefix="chronolake-archive-") as folder:
        spool = Path(folder)
        merged = archives.merge([listed.link for listed in due], runs)
        files = {
            table: _write(spool, table, _merged_rows(storage, due, runs, table, merged), pace)
            for table in (*rows.COLUMNS, *rows.INDEXES)
        }
        return await _list(storage, stored, merged, spool, files, ends, pace, due) is not None


def _merged_rows(
    storage: ArchiveStorage,
    due: Sequence[ListedRun],
    runs: Sequence[ArchiveRun],
    table: str,
    merged: ArchiveRun,
) -> Iterator[Row]:
    """The rows of all runs, by chain and number; each run has rows of other numbers."""
    each = [run_rows.read(storage, listed, run, table) for listed, run in zip(due, runs, strict=True)]
    if table == rows.INSTANT:
        return instant_index.merged(each)
    if table in rows.INDEXES:
        return indexes.merged(table, runs, merged, each)
    return heapq.merge(*each, key=lambda row: row[:2])
