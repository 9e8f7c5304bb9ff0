"""Tables of which old events are only in the archive are published as if the database had all of them."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark import ParameterSet
from typing_extensions import override

import chronolake
from chronolake import _progress
from chronolake_metastore.archive.reading import ArchiveReader
from chronolake_metastore.archive.storage import ArchiveStorage
from chronolake_metastore.batching.sequencer import Notifier
from chronolake_metastore.domain import active_window
from chronolake_metastore.notes import published_history as note_history
from chronolake_metastore.queries import publication as queries
from chronolake_metastore.settings import Settings
from chronolake_metastore.store.archived import ArchivedEvents
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.workers.publication_execution import Counts
from chronolake_metastore.workers.publisher import ServerPublisher
from chronolake_model.vocabulary import GRACE_PROPERTY, TableType
from chronolake_storage.publishing import TIMELINE_FOLDER
from tests.fix_server import ServerProcess
from tests.hudi.keyed_table import KeyedTable
from tests.published import PublishedTable, row
from tests.server.publication import late_tables
from tests.server.publication.archived_tables import SHORT, active_times, archived, history_names, names, times
from tests.server.publication.late_tables import Archived, forget, publish, published_files
from tests.store import archiving
from tests.store.archive_reads import reader_of
from tests.store.test_leaving_instants import LEAST, let_leave, rebuild


@pytest.fixture
def server(new_server: Callable[..., ServerProcess], dsn: str) -> ServerProcess:
    """A server of its own: it would take a database that lacks events which it has seen for a copy."""
    return new_server(dsn)


@pytest.fixture
def client(server: ServerProcess) -> Iterator[chronolake.Client]:
    """Its client."""
    with chronolake.connect(server.url) as client:
        yield client


@pytest.fixture
def archive(dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Archived:
    """An archive of all that was written before the test."""
    return Archived(dsn, tmp_path / "archive", monkeypatch)


def slow(value: float) -> ParameterSet:
    """A value that the normal suite leaves out."""
    return pytest.param(value, marks=pytest.mark.slow)


@pytest.fixture(params=TableType)
def keyed_table(
    client: chronolake.Client, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> KeyedTable:
    """A table with all kinds of instants and staged write stats, which was never published."""
    monkeypatch.setattr(_progress, "STAGED_FROM", 1)
    monkeypatch.setattr(_progress, "STAGED_AT_ONCE", 1)
    table = KeyedTable(client, tmp_path / "lake", request.param)
    late_tables.play(table)
    return table


@pytest.mark.parametrize("share", [slow(0.0), slow(0.3), 0.6, slow(0.8), 1.0])
def test_a_late_publication_writes_the_same_bytes(
    keyed_table: KeyedTable, dsn: str, archive: Archived, share: float
) -> None:
    table = keyed_table
    archive.write()
    publish(dsn, None, table)
    expected = published_files(table)
    owned = late_tables.read(dsn, None, late_tables.owned(table))
    forget(dsn, table)

    archive.leave(table, share)
    counts = publish(dsn, archive.reader(), table)

    assert published_files(table) == expected
    assert (counts.steps > 0, counts.failures, counts.foreign_files) == (True, 0, 0)
    assert table.of_hudi_rs() == table.own_rows()
    assert late_tables.read(dsn, archive.reader(), late_tables.owned(table)) == owned


@pytest.mark.parametrize("seed", [0, slow(1), slow(2), slow(3)])
@pytest.mark.parametrize("table_type", TableType)
def test_random_histories_are_published_late_with_the_same_bytes(
    client: chronolake.Client, dsn: str, archive: Archived, tmp_path: Path, table_type: TableType, seed: int
) -> None:
    table = KeyedTable(client, tmp_path / "lake", table_type)
    late_tables.play_at_random(table, seed)
    forget(dsn, table)
    archive.write()
    publish(dsn, None, table)
    expected = published_files(table)
    forget(dsn, table)

    archive.leave(table, [0.25, 0.5, 0.75, 1.0][seed])
    publish(dsn, archive.reader(), table)

    assert published_files(table) == expected
    assert expected


def test_lost_files_are_written_again_from_the_archive(
    keyed_table: KeyedTable, dsn: str, archive: Archived
) -> None:
    table = keyed_table
    archive.write()
    publish(dsn, None, table)
    expected = published_files(table)
    # Publishers leave a table alone that does not change.
    table.upsert(*late_tables.rows([7]))
    archive.write()
    archive.leave(table, 0.7)
    for path in expected:
        (table.folder / path).unlink()

    publish(dsn, archive.reader(), table)

    assert published_files(table).items() >= expected.items()


def test_history_is_written_and_merged_from_the_archive(
    server: ServerProcess,
    client: chronolake.Client,
    dsn: str,
    archive: Archived,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(note_history, "HISTORY_ROWS", (0, 2, 8))
    for module in (note_history, active_window):
        monkeypatch.setattr(module, "HISTORY_MERGED", 2)
    table = KeyedTable(client, tmp_path / "lake", properties=SHORT)
    published: dict[str, bytes] = {}
    levels: set[int] = set()
    for number in range(16):
        if number == 9:
            archive.write()
            server.stop()
            archive.leave(table, 0.7)
            server.start()
        table.upsert(row(number % 3, name=f"n{number}"))
        publish(dsn, archive.reader(), table)
        published |= {name: table.body(f"{TIMELINE_FOLDER}/{name}") for name in names(table)}
        levels |= {int(name[36]) for name in history_names(table) if name.endswith(".parquet")}
        assert table.of_hudi_rs() == table.own_rows()

    history = archived(table)
    stay = active_times(table)
    assert sorted(times(history) + stay) == sorted({name[:17] for name in published})
    assert {(row["instantTime"], row["metadata"]) for row in history} == {
        (name[:17], content) for name, content in published.items() if name[:17] not in stay
    }
    assert levels == {0, 1, 2}


def test_a_table_whose_instants_have_left_is_published_when_they_are_back(
    server: ServerProcess, client: chronolake.Client, dsn: str, tmp_path: Path
) -> None:
    table = KeyedTable(client, tmp_path / "lake", properties={**SHORT, **LEAST, GRACE_PROPERTY: "0"})
    for number in range(6):
        table.upsert(row(number % 3, name=f"n{number}"))
        table.table.clean(retain_commits=1)
    archive = archiving.local(tmp_path / "archive")
    server.stop()
    left = let_leave(dsn, archive)
    server.start()
    table.table.alter(set={"hudi.publish": "true"})

    publish(dsn, reader_of(archive), table)
    failure = table.table.publication().failure
    server.stop()
    rebuild(dsn, archive, with_instants=True)
    server.start()
    publish(dsn, reader_of(archive), table)

    assert left > 0
    assert "chronolake-metastore rebuild --with-instants" in str(failure)
    assert table.table.publication().is_visible
    assert table.of_hudi_rs() == table.own_rows()


def test_without_the_archive_a_late_table_is_held_with_the_reason(
    client: chronolake.Client, dsn: str, archive: Archived, tmp_path: Path
) -> None:
    late = PublishedTable(client, tmp_path / "late")
    late.write(row(1))
    other = PublishedTable(client, tmp_path / "other")
    other.write(row(2))
    archive.write()
    archive.leave(late, 1.0)

    without = publish(dsn, None, late, other)
    failure = late.table.publication().failure
    for path in (tmp_path / "archive").glob("runs/*/*.parquet"):
        path.unlink()
    damaged = publish(dsn, reader_of(archiving.local(tmp_path / "archive")), late)

    assert (without.failures, damaged.failures) == (1, 1)
    assert "--archive" in str(failure)
    assert "the archive of the log cannot be read" in str(late.table.publication().failure)
    assert not late.table.publication().is_visible
    assert other.table.publication().is_visible
    assert other.hudi_rows() == other.rows()


def test_new_commits_are_published_while_the_history_waits_for_the_archive(
    server: ServerProcess, client: chronolake.Client, dsn: str, archive: Archived, tmp_path: Path
) -> None:
    table = KeyedTable(client, tmp_path / "lake", properties=SHORT)
    for number in range(3):
        table.upsert(row(number))
    publish(dsn, None, table)
    archive.write()
    server.stop()
    archive.leave(table, 1.0)
    server.start()
    for number in range(6):
        table.upsert(row(number))

    async def publish_twice(database: Database) -> int:
        counts = Counts()
        worker = ServerPublisher(database, Notifier(), counts, Settings(dsn=dsn), "one")
        await worker._publish_steps(late_tables.table_id(table))
        await asyncio.to_thread(table.upsert, row(1, name="new"))
        await worker._publish_steps(late_tables.table_id(table))
        return counts.failures

    # The second time neither history nor check is tried, and nothing fails.
    assert late_tables.read(dsn, None, publish_twice) == 1
    assert table.table.publication().lag_versions == 0
    assert table.of_hudi_rs() == table.own_rows()
    assert archived(table) == []
    publish(dsn, archive.reader(), table)
    assert len(archived(table)) > 5
    assert table.of_hudi_rs() == table.own_rows()


class Blocked(ArchiveReader):
    """A reader whose storage does not answer until it is ``open``."""

    open = threading.Event()

    @override
    def events_of_table(self, *arguments: Any) -> ArchivedEvents:
        assert self.open.wait(30)
        return super().events_of_table(*arguments)


def test_other_tables_are_published_while_one_waits_for_the_archive(
    client: chronolake.Client, dsn: str, archive: Archived, tmp_path: Path
) -> None:
    late, other = PublishedTable(client, tmp_path / "late"), PublishedTable(client, tmp_path / "other")
    late.write(row(1))
    other.write(row(2))
    archive.write()
    archive.leave(late, 1.0)
    log = Blocked(ArchiveStorage(archiving.local(tmp_path / "archive")))

    async def publish_both(database: Database) -> None:
        worker = ServerPublisher(database, Notifier(), Counts(), Settings(dsn=dsn), "one")
        worker._free = asyncio.Semaphore(1)
        worker._end, worker._searched_at = await queries.end_of_log(database), time.monotonic()
        worker._waiting = dict.fromkeys(map(late_tables.table_id, (late, other)))
        async with asyncio.TaskGroup() as tasks:
            await worker._look(tasks)
            await asyncio.to_thread(other.published)
            assert not await asyncio.to_thread(lambda: late.table.publication().is_visible)
            log.open.set()
        assert not worker._free.locked()

    late_tables.read(dsn, log, publish_both)
    assert late.hudi_rows() == late.rows()
