"""A table that cannot be published costs next to nothing, and is named once in the log."""

from __future__ import annotations

import asyncio
from pathlib import Path
from uuid import UUID

import pytest
from structlog.testing import capture_logs

import chronolake
from chronolake_metastore.batching.sequencer import Notifier
from chronolake_metastore.settings import Settings
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.workers import held_tables
from chronolake_metastore.workers.held_tables import PAUSED, UNREACHABLE, UNTIL_ALTERED, HeldTables
from chronolake_metastore.workers.publication_execution import Counts
from chronolake_metastore.workers.publisher import ServerPublisher
from chronolake_model.schemas import RenameColumn
from chronolake_model.tables import Field
from tests.fix_clock import SettableClock
from tests.fix_server import ServerProcess
from tests.processes import wait_until
from tests.published import FIELDS, PublishedTable, row
from tests.server import database as stored
from tests.server.test_metrics import figures

TABLE = UUID(int=1)


@pytest.fixture
def held(clock: SettableClock) -> HeldTables:
    return HeldTables(clock)


def tries_in_an_hour(held: HeldTables, clock: SettableClock, write_seconds: float) -> int:
    """How often a table that always fails, and is written so often, is tried in an hour."""
    tries = 0
    while clock.now < 3_600:
        held.wake(TABLE, is_altered=False)
        if not held.holds(TABLE):
            tries += 1
            held.hold(TABLE, UNREACHABLE)
        clock.now += write_seconds
    return tries


@pytest.mark.parametrize("write_seconds", [0.1, 1.0, 60.0])
def test_a_table_that_is_always_written_is_tried_every_few_minutes(
    held: HeldTables, clock: SettableClock, write_seconds: float
) -> None:
    at_most = 2 * (3_600 / UNREACHABLE.max_seconds + 10)

    assert tries_in_an_hour(held, clock, write_seconds) <= at_most


def test_a_write_after_a_long_silence_wakes_a_table_at_once(held: HeldTables, clock: SettableClock) -> None:
    for _ in range(20):
        held.hold(TABLE, UNREACHABLE)
        clock.now += UNREACHABLE.max_seconds
    held.hold(TABLE, UNREACHABLE)
    assert held.holds(TABLE)

    held.wake(TABLE, is_altered=False)

    assert not held.holds(TABLE)


def test_only_a_change_of_its_definition_wakes_a_table_that_hudi_cannot_read(
    held: HeldTables, clock: SettableClock
) -> None:
    held.hold(TABLE, UNTIL_ALTERED)
    clock.now = 1e9
    held.wake(TABLE, is_altered=False)
    assert held.due() == []
    assert held.holds(TABLE)

    held.wake(TABLE, is_altered=True)

    assert not held.holds(TABLE)


def test_a_table_is_due_once_when_its_pause_has_ended(held: HeldTables, clock: SettableClock) -> None:
    held.hold(TABLE, PAUSED)
    assert held.due() == []
    clock.now = PAUSED.first_seconds
    assert held.due() == [TABLE]
    assert held.due() == []

    # The second pause is longer, and the end of the first one does not count for it.
    held.hold(TABLE, PAUSED)
    clock.now += PAUSED.first_seconds
    assert held.due() == []
    held.release(TABLE)
    clock.now += 1_000
    assert held.due() == []


def test_many_tables_share_one_warning_a_minute(held: HeldTables, clock: SettableClock) -> None:
    def tables_of_warnings(reason: str) -> list[int]:
        with capture_logs() as lines:
            for number in range(1_000):
                held.warn(UUID(int=number), f"n.t{number}", reason)
                held.write_warnings()
            clock.now += held_tables.WARNING_SECONDS
            held.write_warnings()
        return [line["tables"] for line in lines]

    assert tables_of_warnings("it is not there") == [1, 999]
    clock.now += held_tables.WARNING_SECONDS
    assert tables_of_warnings("it is not there") == []
    assert tables_of_warnings("access denied") == [1, 999]


def test_a_server_names_all_unreachable_tables_in_few_lines(
    publishing_server: ServerProcess, publishing_client: chronolake.Client, tmp_path: Path
) -> None:
    tables = [
        PublishedTable(publishing_client, tmp_path / f"lake{number}", base_path=str(tmp_path / f"no{number}"))
        for number in range(6)
    ]
    for table in tables:
        table.write(row(1))
    for table in tables:
        table.wait_for(lambda publication: publication.failure is not None)
        for number in range(3):
            table.write(row(number), bucket=number)

    # A table that can be published is published beside them.
    healthy = PublishedTable(publishing_client, tmp_path / "healthy")
    healthy.write(row(1))
    healthy.published()
    wait_until(lambda: "tables cannot be published" in publishing_server.log())
    assert publishing_server.log().count("cannot be published") == 1


def test_a_missing_folder_is_a_problem_only_of_a_table_that_was_written(
    publishing_server: ServerProcess, publishing_client: chronolake.Client, tmp_path: Path
) -> None:
    table = PublishedTable(publishing_client, tmp_path / "lake", base_path=str(tmp_path / "missing"))
    name = table.table.name
    # A publisher was there, and has recorded what it found.
    wait_until(lambda: stored.contents(publishing_server.dsn, "publication")["publication"] != [])

    [new] = publishing_client.health()
    figures_of_new = figures(publishing_server)
    table.write(row(1))
    table.wait_for(lambda publication: publication.failure is not None)
    [written] = publishing_client.health()
    figures_of_written = figures(publishing_server)

    assert (new.problem, new.publication.lag_seconds) == (None, 0)
    assert ("chronolake_table_unpublished", name, "failing") not in figures_of_new
    assert figures_of_new["chronolake_publication_lag_seconds",] == 0
    assert "does not exist yet" in str(written.problem)
    assert written.publication.lag_seconds > 0
    assert figures_of_written["chronolake_table_unpublished", name, "failing"] == 1
    assert figures_of_written["chronolake_publication_lag_seconds",] > 0


def test_a_server_logs_why_it_pauses_a_table(
    publishing_server: ServerProcess, following_table: PublishedTable
) -> None:
    following_table.write(row(1))
    following_table.published()
    following_table.table.change_schema([RenameColumn("name", "label")])
    wait_until(lambda: "was renamed" in publishing_server.log())
    assert following_table.table.name in publishing_server.log()


def test_a_rename_that_hudi_can_read_ends_a_pause_by_definition(
    publishing_server: ServerProcess, publishing_client: chronolake.Client, tmp_path: Path
) -> None:
    table = PublishedTable(publishing_client, tmp_path / "lake", schema=[*FIELDS, Field("a b", "int")])
    wait_until(lambda: "Avro" in publishing_server.log())
    table.folder.mkdir()

    table.table.change_schema([RenameColumn("a b", "a_b")])

    table.wait_for(lambda publication: publication.is_visible)


def test_a_publisher_leaves_a_table_that_is_not_published_alone_until_it_is_altered(
    dsn: str, publishing_client: chronolake.Client, tmp_path: Path
) -> None:
    table = PublishedTable(publishing_client, tmp_path / "lake", properties={"hudi.publish": "false"})
    table.write(row(1))
    table_id = UUID(table.table.definition.table_id)

    async def looks() -> tuple[bool, bool, bool]:
        settings = Settings(dsn=dsn)
        database = Database(settings)
        worker = ServerPublisher(database, Notifier(), Counts(), settings, "one")
        try:
            async with asyncio.TaskGroup() as tasks:
                worker._waiting[table_id] = None
                first = await worker._look(tasks)
            async with asyncio.TaskGroup() as tasks:
                table.write(row(2))
                second = await worker._look(tasks)
            async with asyncio.TaskGroup() as tasks:
                await asyncio.to_thread(table.table.alter, set={"hudi.publish": "true"})
                third = await worker._look(tasks)
        finally:
            await database.close()
        return first, second, third

    assert asyncio.run(looks()) == (True, False, True)
