"""Eras of the log: partitions that follow each other, and whose old answers leave for the archive."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import conninfo, sql

from chronolake_metastore import errors
from chronolake_metastore.commands import group
from chronolake_metastore.commands.handler import Answer
from chronolake_metastore.domain import instants, namespaces
from chronolake_metastore.domain.context import Context
from chronolake_metastore.queries import outcomes
from chronolake_metastore.settings import Settings
from chronolake_metastore.store import eras
from chronolake_metastore.store.outcomes import FoundOutcome
from chronolake_metastore.store.postgres import migrations
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.postgres.transaction import Session
from chronolake_storage.files import Files
from tests.processes import wait_until
from tests.store import archiving, tampering
from tests.store.archive_reads import reader_of
from tests.store.history import History, make_history

LOG = ("event", "event_entry", "write_stat", "deleted_file", "outcome", "refusal")


def begin_era(dsn: str, era: int) -> None:
    async def run() -> None:
        database = Database(Settings(dsn=dsn, role="none"))
        await eras.begin(database, era)
        await database.close()

    asyncio.run(run())


def query(dsn: str, statement: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn) as connection:
        connection.execute("SET search_path TO chronolake")
        return connection.execute(statement.encode()).fetchall()


def count(dsn: str, table: str) -> int:
    return int(query(dsn, f"SELECT count(*) FROM {table}")[0][0])


def answers(dsn: str) -> list[tuple[Any, ...]]:
    """The answers that PostgreSQL has, without their eras."""
    columns = (
        "chain_id, number, request_id, fingerprint, table_id, version, code, result, dialect, answer_digest"
    )
    return query(dsn, f"SELECT {columns}, hash FROM outcome ORDER BY chain_id, number")


def execute(dsn: str, archive: Files | None, command: tuple[str, str]) -> object:
    """The result of a command that makes a namespace, with its key, on a server with an archive."""
    log = None if archive is None else reader_of(archive)
    key, name = command

    async def run() -> object:
        database = Database(Settings(dsn=dsn), lambda: log)
        session = Session(database)
        request = group.request_of(Context("test", key), namespaces.CreateNamespace(name))
        try:
            [result] = (await group.run(session, [request], drift_max_us=1_000_000)).results
            return result
        finally:
            await session.close()
            await database.close()

    return asyncio.run(run())


def drop_all(dsn: str, archive: Files) -> None:
    """Drop all answers but the ends of the chains."""
    begin_era(dsn, 2)
    archiving.write(dsn, archive)
    assert 1 in archiving.drop(dsn, archive).eras


@pytest.fixture
def history(dsn: str) -> Iterator[History]:
    with History(dsn) as history:
        make_history(history)
        yield history


@pytest.fixture
def archive(tmp_path: Path) -> Files:
    return archiving.local(tmp_path / "archive")


def test_rows_after_an_era_began_are_in_its_partitions(dsn: str, history: History) -> None:
    before = {table: count(dsn, table) for table in LOG}
    begin_era(dsn, 2)
    history.write("shop.orders", 1, 2)

    assert {table: count(dsn, f"{table}_1") for table in LOG} == before
    assert (count(dsn, "event_2"), count(dsn, "outcome_2"), count(dsn, "write_stat_2")) == (2, 2, 2)
    assert tampering.verify(dsn).holds


@pytest.fixture(scope="module")
def later_era(shared_dsn: str) -> str:
    """The DSN of a database in its second era, for tests whose statements are refused."""
    begin_era(shared_dsn, 2)
    return shared_dsn


@pytest.mark.parametrize("table", LOG)
@pytest.mark.parametrize("change", ["UPDATE {} SET era = era", "DELETE FROM {}", "TRUNCATE {}"])
def test_a_later_era_is_append_only_too(later_era: str, table: str, change: str) -> None:
    with (
        psycopg.connect(later_era) as connection,
        pytest.raises(psycopg.errors.RestrictViolation, match="append-only"),
    ):
        connection.execute(change.format(f"chronolake.{table}_2").encode())


def test_an_era_that_began_does_not_begin_again(dsn: str) -> None:
    begin_era(dsn, 2)
    with pytest.raises(errors.ConfigurationError, match="has changed the eras"):
        begin_era(dsn, 2)


@pytest.mark.parametrize("call", ["begin_era(2)", "drop_answers(1)"])
def test_only_the_owner_may_change_eras(dsn: str, call: str) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute("SET ROLE chronolake_server")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(f"SELECT chronolake.{call}".encode())


def test_another_login_is_told_which_one_to_use(dsn: str, archive: Files) -> None:
    execute(dsn, None, ("new", "modern"))
    archiving.write(dsn, archive)
    with psycopg.connect(dsn) as connection:
        connection.execute("CREATE ROLE not_owner LOGIN IN ROLE chronolake_server, chronolake_auditor")
    try:
        with pytest.raises(errors.ConfigurationError, match="login that migrates"):
            archiving.drop(conninfo.make_conninfo(dsn, user="not_owner"), archive)
    finally:
        with psycopg.connect(dsn) as connection:
            connection.execute("DROP ROLE not_owner")


def test_a_command_is_answered_again_over_the_border_of_an_era(dsn: str, history: History) -> None:
    begin = instants.BeginInstant("shop.orders", writer="nightly")
    first = history.ask("a key", begin, None)
    begin_era(dsn, 2)
    again = history.ask("a key", begin, None)
    another = history.ask("a key", instants.BeginInstant("shop.orders", writer="other"), None)

    assert isinstance(first, Answer)
    assert isinstance(again, Answer)
    assert again.result == first.result
    assert isinstance(another, errors.IdempotencyKeyReused)


def test_commands_go_on_while_eras_begin(dsn: str, history: History) -> None:
    ended = threading.Event()

    def begin_eras() -> None:
        era = 2
        while not ended.is_set():
            begin_era(dsn, era)
            era += 1

    thread = threading.Thread(target=begin_eras)
    thread.start()
    try:
        for _ in range(20):
            history.write("shop.orders", 1)
    finally:
        ended.set()
        thread.join()
    assert tampering.verify(dsn).holds


def test_answers_leave_that_the_archive_has(dsn: str, history: History, archive: Files) -> None:
    before = answers(dsn)
    archiving.write(dsn, archive)
    dropped = archiving.drop(dsn, archive)

    assert (dropped.eras, dropped.began, dropped.kept) == ([1], 2, 1)
    # Of each chain its end is left.
    ends = {row[0]: row for row in before}
    left = [row for row in answers(dsn) if row in before]
    assert left == sorted(ends.values())
    assert query(dsn, "SELECT to_regclass('outcome_1'), to_regclass('refusal_1')") == [(None, None)]
    assert archiving.verify(archive, dsn).findings == []


def test_the_log_is_verified_over_the_border(dsn: str, history: History, archive: Files) -> None:
    for _ in range(3):
        history.write("shop.orders", 1)
        history.refused(instants.BeginInstant("shop.none", writer="nightly"))
        archiving.write(dsn, archive)
        archiving.drop(dsn, archive)

    with pytest.raises(errors.ConfigurationError, match="add --archive"):
        tampering.verify(dsn)
    report = tampering.verify(dsn, archive=archive)
    assert report.findings == []
    history.rebuild(archive)
    assert tampering.verify(dsn, archive=archive).findings == []


def test_an_answer_that_was_changed_in_postgresql_is_found_over_the_border(
    dsn: str, history: History, archive: Files
) -> None:
    archiving.write(dsn, archive)
    archiving.drop(dsn, archive)
    with psycopg.connect(dsn) as connection:
        connection.execute("SET search_path TO chronolake")
        connection.execute("ALTER TABLE outcome DISABLE TRIGGER ALL")
        connection.execute("UPDATE outcome SET actor = 'eve' WHERE actor = 'ann'")
        connection.execute("ALTER TABLE outcome ENABLE ALWAYS TRIGGER outcome_append_only")
    assert not tampering.verify(dsn, archive=archive).holds


def test_another_archive_does_not_prove_the_log(
    dsn: str, history: History, archive: Files, tmp_path: Path
) -> None:
    archiving.write(dsn, archive)
    archiving.drop(dsn, archive)
    assert not tampering.verify(dsn, archive=archiving.local(tmp_path / "empty")).holds


def test_nothing_leaves_that_the_archive_lacks(dsn: str, history: History, archive: Files) -> None:
    archiving.write(dsn, archive)
    history.write("shop.orders", 1)
    before = answers(dsn)
    with pytest.raises(errors.ConfigurationError, match="run archive write first; nothing of era 1 was"):
        archiving.drop(dsn, archive)
    assert answers(dsn) == before

    archiving.write(dsn, archive)
    assert archiving.drop(dsn, archive).eras == [1]


def test_no_archive_begins_after_answers_left(
    dsn: str, history: History, archive: Files, tmp_path: Path
) -> None:
    drop_all(dsn, archive)
    with pytest.raises(errors.ConfigurationError, match="name that one"):
        archiving.write(dsn, archiving.local(tmp_path / "new"))
    (tmp_path / "archive").rename(tmp_path / "away")
    with pytest.raises(errors.ConfigurationError, match=r"there is no archive at .*archive: put it back"):
        archiving.write(dsn, archive)


def test_a_chain_has_no_gap_after_several_eras_left_one_by_one(
    dsn: str, history: History, archive: Files
) -> None:
    for era in (2, 3):
        begin_era(dsn, era)
        for _ in range(3):
            history.write("shop.orders", 1)
    archiving.write(dsn, archive)
    for era in (4, 5):
        begin_era(dsn, era)
        archiving.write(dsn, archive)
    assert archiving.drop(dsn, archive).eras[:3] == [1, 2, 3]

    gaps = "SELECT chain_id FROM outcome GROUP BY chain_id HAVING max(number) - min(number) + 1 <> count(*)"
    assert query(dsn, gaps) == []
    assert tampering.verify(dsn, archive=archive).findings == []


def test_an_era_stays_until_the_archive_reaches_beyond_its_end(
    dsn: str, history: History, archive: Files
) -> None:
    """Servers decide no command before they have read the archive up to there."""
    archiving.write(dsn, archive)
    with psycopg.connect(dsn) as connection:
        connection.execute("SELECT pg_current_xact_id()")
    dropped = archiving.drop_once(dsn, archive)
    assert (dropped.eras, dropped.waiting) == ([], [1])

    history.write("shop.orders", 1)
    archiving.write(dsn, archive)
    assert 1 in archiving.drop(dsn, archive).eras
    assert isinstance(execute(dsn, archive, ("new", "modern")), Answer)


def test_eras_of_an_idle_log_leave_after_the_next_archive_write(
    dsn: str, history: History, archive: Files
) -> None:
    archiving.write(dsn, archive)
    with psycopg.connect(dsn) as connection:
        connection.execute("SELECT pg_current_xact_id()")
    assert archiving.drop_once(dsn, archive).waiting == [1]
    rows = archiving.content(archive)

    assert archiving.write(dsn, archive).runs == 0
    dropped = archiving.drop(dsn, archive)

    assert dropped.eras[0] == 1
    assert archiving.content(archive) == rows
    assert isinstance(execute(dsn, archive, ("new", "modern")), Answer)
    archiving.write(dsn, archive)
    assert archiving.verify(archive, dsn).findings == []
    assert tampering.verify(dsn, archive=archive).findings == []


def test_a_server_with_the_archive_of_another_metastore_executes_no_old_command(
    dsn: str, history: History, archive: Files, empty_database: str, tmp_path: Path
) -> None:
    first = execute(dsn, None, ("old", "ancient"))
    execute(dsn, None, ("later", "modern"))
    drop_all(dsn, archive)
    migrations.upgrade(empty_database)
    execute(empty_database, None, ("other", "foreign"))
    other = archiving.local(tmp_path / "other")
    with psycopg.connect(empty_database, autocommit=True) as connection:
        for _ in range(100):
            connection.execute("SELECT pg_current_xact_id()")
    archiving.write(empty_database, other)

    with pytest.raises(errors.ArchiveUnavailable, match="must name the archive of this database"):
        execute(dsn, other, ("old", "ancient"))
    assert execute(dsn, archive, ("old", "ancient")) == first


def test_an_answer_that_a_restored_database_lost_is_not_given(dsn: str, archive: Files) -> None:
    """The archive is newer than the backup, and has what the database lost."""
    with History(dsn) as history:
        make_history(history)
    drop_all(dsn, archive)
    name = str(conninfo.conninfo_to_dict(dsn)["dbname"])
    copy = conninfo.make_conninfo(dsn, dbname=f"{name}_copy")
    with psycopg.connect(dsn, dbname="postgres", autocommit=True) as connection:
        names = map(sql.Identifier, (f"{name}_copy", name))
        connection.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(*names))
    lost = execute(dsn, archive, ("lost", "lost"))
    archiving.write(dsn, archive)

    assert lost == execute(dsn, archive, ("lost", "lost"))
    again = execute(copy, archive, ("lost", "lost"))
    assert isinstance(again, Answer)
    assert query(copy, "SELECT name FROM namespace WHERE name = 'lost'") == [("lost",)]


def test_nothing_leaves_for_an_archive_that_is_damaged(
    dsn: str, history: History, archive: Files, tmp_path: Path
) -> None:
    archiving.write(dsn, archive)
    [file] = tmp_path.rglob("outcome.parquet")
    file.write_bytes(file.read_bytes()[:-1])
    before = answers(dsn)
    with pytest.raises(errors.ConfigurationError, match="run archive verify; nothing was dropped"):
        archiving.drop(dsn, archive)
    assert answers(dsn) == before


def test_nothing_leaves_for_an_archive_of_another_log(
    dsn: str, history: History, empty_database: str, archive: Files
) -> None:
    archiving.write(dsn, archive)
    migrations.upgrade(empty_database)
    with pytest.raises(errors.ConfigurationError, match="whose identity this database never had"):
        archiving.drop(empty_database, archive)


def test_answers_stay_for_as_long_as_they_are_to_be_kept(dsn: str, history: History, archive: Files) -> None:
    archiving.write(dsn, archive)
    dropped = archiving.drop(dsn, archive, keep_seconds=3_600)
    assert (dropped.eras, dropped.began, dropped.kept) == ([], None, 1)


def test_an_era_with_nothing_but_the_events_of_eras_goes_on(dsn: str, history: History, archive: Files) -> None:
    archiving.write(dsn, archive)
    assert archiving.drop(dsn, archive).began == 2
    archiving.write(dsn, archive)
    assert archiving.drop(dsn, archive).began is None

    execute(dsn, archive, ("again", "shop"))
    archiving.write(dsn, archive)

    assert archiving.drop(dsn, archive).began == 3


def test_an_era_that_no_event_names_does_not_leave(dsn: str, history: History) -> None:
    begin_era(dsn, 2)
    with psycopg.connect(dsn) as connection, pytest.raises(psycopg.errors.RestrictViolation, match="archived"):
        connection.execute("SELECT chronolake.drop_answers(1)")


def test_a_killed_command_is_run_again(
    dsn: str, history: History, archive: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    archiving.write(dsn, archive)

    class Killed(Exception):
        pass

    def kill(*_: object) -> None:
        raise Killed

    for step in ("begin", "drop_answers"):
        with monkeypatch.context() as patch, pytest.raises(Killed):
            patch.setattr(eras, step, kill)
            archiving.drop(dsn, archive)
        assert tampering.verify(dsn).holds
        history.write("shop.orders", 1)
        archiving.write(dsn, archive)
    assert 1 in archiving.drop(dsn, archive).eras
    assert tampering.verify(dsn, archive=archive).holds


def test_an_outcome_is_found_while_its_era_leaves(
    dsn: str, history: History, archive: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    archiving.write(dsn, archive)
    keys = "SELECT DISTINCT ON (chain_id) request_id FROM outcome ORDER BY chain_id, number DESC"
    [*_, (last_of_chain,)] = query(dsn, keys)
    found: list[FoundOutcome] = []

    async def look() -> None:
        database = Database(Settings(dsn=dsn), lambda: reader_of(archive))
        found.append(await outcomes.get(Context("test", ""), database, last_of_chain))
        await database.close()

    async def drop_beside_a_reader(_: Database, era: int) -> None:
        reading = threading.Thread(target=asyncio.run, args=(look(),))
        with psycopg.connect(dsn) as connection:
            connection.execute("SET search_path TO chronolake")
            connection.execute("SELECT drop_answers(%s)", [era])
            reading.start()
            waiting = (
                "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
            )
            wait_until(lambda: len(query(dsn, waiting)) > 0)
        reading.join()

    monkeypatch.setattr(eras, "drop_answers", drop_beside_a_reader)
    assert archiving.drop(dsn, archive).eras == [1]
    assert [outcome.request_id for outcome in found] == [last_of_chain]


def test_of_two_at_once_each_leaves_the_log_whole(dsn: str, history: History, archive: Files) -> None:
    archiving.write(dsn, archive)
    failures: list[BaseException] = []

    def drop() -> None:
        try:
            archiving.drop(dsn, archive)
        except errors.ConfigurationError as exc:
            failures.append(exc)

    threads = [threading.Thread(target=drop) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(failures) < 3
    assert tampering.verify(dsn, archive=archive).holds


def test_no_answer_leaves_while_the_log_is_verified(
    dsn: str, history: History, archive: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(eras, "_PAUSES", (0.1,))
    archiving.write(dsn, archive)
    with psycopg.connect(dsn) as verifying:
        verifying.execute("SELECT pg_advisory_lock_shared(%s)", [1667788918])
        with pytest.raises(errors.ConfigurationError, match="being verified"):
            archiving.drop(dsn, archive)


def test_a_session_that_reads_all_the_time_keeps_the_answers(
    dsn: str, history: History, archive: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(eras, "_PAUSES", (0.1,))
    archiving.write(dsn, archive)
    with psycopg.connect(dsn) as reading:
        reading.execute("SELECT count(*) FROM chronolake.outcome")
        with pytest.raises(errors.ConfigurationError, match="read the log all the time"):
            archiving.drop(dsn, archive)
        history.write("shop.orders", 1)
