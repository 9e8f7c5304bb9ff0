"""Archives of logs in tests: written, verified, read as rows, and changed by hand."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pyarrow.parquet as pq

from chronolake_metastore.archive import dropping, leaving, rows, run_rows, thinning, verification, writing
from chronolake_metastore.archive.dropping import Dropped
from chronolake_metastore.archive.proving import ArchiveProof
from chronolake_metastore.archive.storage import ArchiveStorage
from chronolake_metastore.archive.verification import ArchiveReport
from chronolake_metastore.archive.writing import Archived
from chronolake_metastore.domain import archives
from chronolake_metastore.proof.replay import no_progress
from chronolake_metastore.settings import Settings
from chronolake_metastore.store import archive as stored
from chronolake_metastore.store.postgres.engine import Database
from chronolake_storage import opening
from chronolake_storage.files import Files

ROLE = "chronolake_auditor"


def write(dsn: str, files: Files, events_max: int = stored.EVENTS_MAX) -> Archived:
    """Archive, as the command does, when no transaction of another database or of PostgreSQL is in its way."""
    wait_for_others(dsn)
    settings = Settings(dsn=dsn, role=ROLE)
    return asyncio.run(writing.write(settings, ArchiveStorage(files), events_max=events_max))


def wait_for_others(dsn: str) -> None:
    """Wait until no transaction is open but those of this database's clients: an archive ends before it."""
    open_transactions = """
        SELECT count(*) FROM pg_stat_activity
        WHERE backend_xid IS NOT NULL AND (datname <> current_database() OR backend_type <> 'client backend')
    """
    with psycopg.connect(dsn, autocommit=True) as connection:
        deadline = time.monotonic() + 30
        while connection.execute(open_transactions).fetchall() != [(0,)] and time.monotonic() < deadline:
            time.sleep(0.01)


def drop_once(dsn: str, files: Files, keep_seconds: int = 0, *, whole: bool = False) -> Dropped:
    """Drop the answers of eras that have ended, as the command does."""
    return asyncio.run(dropping.drop(Settings(dsn=dsn), ArchiveStorage(files), keep_seconds, whole=whole))


def drop(dsn: str, files: Files, keep_seconds: int = 0) -> Dropped:
    """As ``drop_once``, also if the archive ends before the era that begins here.

    It does if PostgreSQL has given a transaction id meanwhile, as to autovacuum. Then this archives and drops
    once more.
    """
    dropped = drop_once(dsn, files, keep_seconds)
    if dropped.began is None or dropped.eras or not dropped.waiting:
        return dropped
    write(dsn, files)
    again = drop_once(dsn, files, keep_seconds)
    events, instants = dropped.events + again.events, dropped.instants + again.instants
    return msgspec.structs.replace(again, began=dropped.began, events=events, instants=instants)


def thin(dsn: str, files: Files) -> int:
    """Let events leave of eras whose answers left before; gives their number."""

    async def run() -> int:
        settings = Settings(dsn=dsn, role="none")
        proof = ArchiveProof(settings, ArchiveStorage(files), (), no_progress)
        database = Database(settings)
        try:
            return (await thinning.thin(database, proof, 0, no_progress)).leaving
        finally:
            await database.close()

    return asyncio.run(run())


def let_instants_leave(dsn: str) -> int:
    """Let instants leave whose events have left before; gives their number."""

    async def run() -> int:
        database = Database(Settings(dsn=dsn, role="none"))
        try:
            return await leaving.leave(database, await leaving.plan(database), no_progress)
        finally:
            await database.close()

    return asyncio.run(run())


def verify(files: Files, dsn: str | None = None) -> ArchiveReport:
    """Verify, as the command does, and compare with a database if it is given."""

    async def run() -> ArchiveReport:
        verified = await verification.verify(ArchiveStorage(files))
        if dsn is None:
            return verified.report
        settings = Settings(dsn=dsn, role=ROLE)
        return await verification.compared(settings, verified.report, verified.ends)

    return asyncio.run(run())


def content(files: Files) -> dict[str, list[rows.Row]]:
    """All rows of an archive by table of the log, in the order of their chains."""
    storage = ArchiveStorage(files)
    listed = storage.manifest().runs
    return {
        table: sorted(
            (row for run in listed for row in run_rows.read(storage, run, storage.run(run), table)), key=repr
        )
        for table in rows.COLUMNS
    }


def local(folder: Path) -> Files:
    """The files of a local archive."""
    return opening.open_files(str(folder))


def change_manifest(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the manifest as JSON."""
    path = folder / "manifest.json"
    document = json.loads(path.read_bytes())
    change(document)
    overwrite(path, msgspec.json.encode(document))


def forge_run(folder: Path, number: int, change: Callable[[Path, dict[str, Any]], None]) -> None:
    """Change a run, given its folder and its description as JSON, so that all digests of files fit."""

    def forge(manifest: dict[str, Any]) -> None:
        listed = manifest["runs"][number]
        run = folder / "runs" / listed["name"]
        description = json.loads((run / "run.json").read_bytes())
        change(run, description)
        for file in description["files"]:
            body = (run / file["name"]).read_bytes()
            file["sha256"], file["size_bytes"] = archives.digests(body), len(body)
        encoded = msgspec.json.encode(description)
        overwrite(run / "run.json", encoded)
        entry = archives.list_run(listed["name"], archives.decode_run(encoded))
        manifest["runs"][number] = json.loads(msgspec.json.encode(entry))

    change_manifest(folder, forge)


def change_rows(path: Path, table: str, change: Callable[[list[rows.Row]], object]) -> None:
    """Change the rows of a file."""
    found = list(rows.read(table, path.read_bytes()))
    change(found)
    path.unlink()
    writer = rows.RowWriter(path.parent, table)
    for row in found:
        writer.add(row)
    writer.close()
    assert pq.ParquetFile(path).metadata.num_rows == len(found)


def overwrite(path: Path, body: bytes) -> None:
    """Replace a file, which is read-only."""
    path.unlink()
    path.write_bytes(body)


def flip(path: Path) -> None:
    """Change one bit in the middle of a file."""
    body = bytearray(path.read_bytes())
    body[len(body) // 2] ^= 1
    overwrite(path, bytes(body))
