"""Tables of which old rows of the log are only in an archive, published by a publisher in this process."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import psycopg
import pytest

from chronolake import Action
from chronolake_metastore.archive.reading import ArchiveReader
from chronolake_metastore.archive.storage import ArchiveStorage
from chronolake_metastore.batching.sequencer import Notifier
from chronolake_metastore.queries import publication, published_history
from chronolake_metastore.settings import Settings
from chronolake_metastore.store import archived
from chronolake_metastore.store.archived import ArchivedLog, LogBorder
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.postgres.transaction import Query
from chronolake_metastore.workers.publication_execution import Counts
from chronolake_metastore.workers.publisher import ServerPublisher
from chronolake_model.schemas import AddColumn
from chronolake_model.times import parse_time
from chronolake_storage import claims
from chronolake_storage.publishing import PARTITION_METADATA, Owned
from tests.hudi.keyed_table import KeyedTable
from tests.hudi.test_hudi_spark_histories import History
from tests.hudi.written_tables import Blocks
from tests.published import PublishedTable, Row, row
from tests.store import archiving
from tests.store.shown import TESTER

STEPS = ("delete", "begin", "end", "plan", "compact", "cluster", "overwrite", "savepoint", "restore", "clean")
KEPT = "('TableCreated', 'TableAltered', 'TableDropped')"
Reading = Callable[[Database], Awaitable[Any]]


def table_id(table: PublishedTable) -> UUID:
    """The id of a table."""
    return UUID(table.table.definition.table_id)


def play(table: KeyedTable) -> None:
    """Write, compact, roll back, restore, clean, cluster and overwrite; nothing of it is published."""
    table.upsert(*rows(range(4)))
    table.upsert(*rows(range(2), name="y"))
    with table.table.begin() as write:
        write.mark(*table.markers(table.files(write.requested_time, rows([9]), bucket=1, generation=5)))
        write.rollback()
    savepoint = table.table.savepoint().requested_time
    table.upsert(*rows(range(3), name="z"))
    compact(table)
    pending = table.table.begin()
    table.upsert(*rows([3], name="w"))
    pending.rollback()
    table.table.change_schema([AddColumn("note", "string")])
    table.table.restore(savepoint)
    table.table.release_savepoint(savepoint)
    table.upsert(*rows(range(5), name="v"))
    table.cluster("a")
    table.overwrite("b", row(1, "b", "over"))
    table.upsert(*rows(range(4), name="u"))
    compact(table)
    table.table.clean(retain_commits=1)
    table.table.savepoint(comment="kept")
    table.upsert(*rows(range(2), name="t"))


def play_at_random(table: KeyedTable, seed: int) -> None:
    """Apply random steps. Some of them publish."""
    draws, history = random.Random(seed), History(table)
    for _ in range(16):
        kind = draws.choice(["upsert", "upsert", *STEPS])
        day, batch = draws.choice("ab"), rows(draws.sample(range(6), 3), draws.choice("xyz"))
        match kind:
            case "upsert":
                history.apply((kind, batch, Blocks.PARQUET))
            case "delete" | "begin":
                history.apply((kind, batch))
            case "end":
                history.apply((kind, draws.random() < 0.7))
            case "cluster":
                history.apply((kind, day))
            case "overwrite":
                history.apply((kind, day, draws.random() < 0.7))
            case _:
                history.apply((kind,))


def rows(numbers: Any, name: str = "x") -> list[Row]:
    """Rows of two days."""
    return [row(number, "ab"[number % 2], name) for number in numbers]


def compact(table: KeyedTable) -> None:
    """Compact a merge-on-read table, without publishing the plan."""
    if table.is_merge_on_read and (requested := table.plan(Action.COMPACTION)) is not None:
        table.compact(requested)


def published_files(table: PublishedTable) -> dict[str, bytes]:
    """Files that a publisher has written for Hudi's readers. The claim of the folder is not one of them."""
    files = {
        str(path.relative_to(table.folder)): path.read_bytes()
        for path in sorted(table.folder.rglob("*"))
        if path.is_file() and (".hoodie" in path.parts or path.name == PARTITION_METADATA)
    }
    files.pop(claims.PATH, None)
    return files


def forget(dsn: str, table: PublishedTable) -> None:
    """Delete the files of a publication, and its position."""
    for path in published_files(table):
        (table.folder / path).unlink()
    with psycopg.connect(dsn) as connection:
        connection.execute("DELETE FROM chronolake.publication WHERE table_id = %s", [table_id(table)])


class Archived:
    """An archive of the log in several runs, to which all is added, and the database, from which rows leave."""

    def __init__(self, dsn: str, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self._dsn = dsn
        self._folder = folder
        self._patch = patch
        self.write()

    def write(self) -> None:
        """Archive what was written since."""
        archiving.write(self._dsn, archiving.local(self._folder), 7)

    def leave(self, table: PublishedTable, share: float) -> None:
        """Delete the rows of the log of a table before a version, as they leave."""
        named = {"id": table_id(table)}
        with psycopg.connect(self._dsn) as connection:
            connection.execute("SET search_path = chronolake")
            [last] = _one(connection, "SELECT version FROM clock WHERE table_id = %(id)s", named)
            named["first"] = max(round(share * last), 2)
            for name in ("event", "event_entry", "write_stat", "deleted_file"):
                kept = f"AND type NOT IN {KEPT}" if name == "event" else ""
                connection.execute(f"ALTER TABLE {name} DISABLE TRIGGER {name}_append_only".encode())
                deleted = f"DELETE FROM {name} WHERE table_id = %(id)s AND version < %(first)s {kept}"
                connection.execute(deleted.encode(), named)
            connection.execute(
                "INSERT INTO first_event SELECT (jsonb_populate_record(NULL::first_event, jsonb_build_object("
                "'table_id', %(id)s::uuid, 'version', %(first)s::bigint, 'dropped_before', %(first)s::bigint"
                "))).*",
                named,
            )
            event = (
                "SELECT transaction_id::text::bigint FROM event WHERE (table_id, version) = (%(id)s, %(first)s)"
            )
            [transaction_id] = _one(connection, event, named)
        border = LogBorder(transaction_id)
        self._patch.setattr(archived, "find_border", lambda: Query.known(border))

    def reader(self) -> ArchiveReader:
        """A reader that has read nothing."""
        return ArchiveReader(ArchiveStorage(archiving.local(self._folder)), has_outcomes=False)


def _one(connection: psycopg.Connection, query: str, parameters: dict[str, Any]) -> Any:
    return connection.execute(query.encode(), parameters).fetchone()


def publish(dsn: str, log: ArchivedLog | None, *tables: PublishedTable) -> Counts:
    """Publish tables, one after the other, up to the ends of their logs."""
    counts = Counts()

    async def run(database: Database) -> None:
        worker = ServerPublisher(database, Notifier(), counts, Settings(dsn=dsn), "late")
        for table in tables:
            worker._waiting[table_id(table)] = None
            while worker._waiting:
                worker._waiting.clear()
                await worker._publish_steps(table_id(table))

    read(dsn, log, run)
    return counts


def read(dsn: str, log: ArchivedLog | None, reading: Reading) -> Any:
    """The result of a function of a database with an archive."""

    async def run() -> Any:
        database = Database(Settings(dsn=dsn), lambda: log)
        try:
            return await reading(database)
        finally:
            await database.close()

    return asyncio.run(run())


def owned(table: PublishedTable) -> Reading:
    """All that checks and repairs of a publication read: names, steps, and ranges of the history."""

    async def read_all(database: Database) -> Any:
        return [await _files(database, table), await _steps(database, table), await _histories(database, table)]

    return read_all


async def _files(database: Database, table: PublishedTable) -> Any:
    files = Owned()
    after, is_last = 0, False
    while not is_last:
        page = await publication.files(TESTER, database, table.table.name, after)
        files.add(page)
        after, is_last = page.version, page.is_last
    return files


async def _steps(database: Database, table: PublishedTable) -> Any:
    steps: dict[int, bytes] = {}
    after, is_last = 0, False
    while not is_last:
        page = await publication.steps(TESTER, database, table.table.name, after)
        # A page of a hidden table begins by hiding it.
        steps |= {step.version: msgspec.json.encode(step.writes) for step in page.steps if step.writes}
        after, is_last = page.version, page.is_last
    return steps


async def _histories(database: Database, table: PublishedTable) -> Any:
    instants = [instant.requested_time for instant in table.table.instants()]
    histories: list[object] = []
    for begin, end in [(instants[0], instants[-1]), (instants[1], instants[len(instants) // 2])]:
        times = parse_time(begin), parse_time(end)
        after, is_last = 0, False
        while not is_last:
            page = await published_history.page(TESTER, database, table.table.name, *times, after)
            histories += page.instants
            after, is_last = page.version, page.is_last
    return histories
