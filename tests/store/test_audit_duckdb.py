"""The whole log with SQL in DuckDB: the rows that PostgreSQL had before any of them left it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import duckdb
import msgspec
import psycopg
import pytest
from psycopg import conninfo

from chronolake_metastore.domain import instants, restores, savepoints, staging, tables
from chronolake_model.credentials import StorageAccess
from chronolake_model.roles import Right
from chronolake_model.times import Tick, parse_time
from chronolake_storage import opening
from tests.docs.test_audit import EXAMPLES
from tests.fix_s3 import S3
from tests.fix_secrets import STORAGE_SECRET
from tests.forked_program import complaint, run
from tests.store import archiving, leaving, shown
from tests.store.duckdb_views import Rows, connect, made, of_duckdb, of_postgres
from tests.store.history import History, file_of, make_history, make_roles, make_token, vend

LOG = ("event", "event_entry", "write_stat", "deleted_file", "outcome", "refusal")
OF_THE_LOG = (
    *("audit_history", "audit_commands", "audit_deletions", "audit_tables", "audit_conflicts"),
    *("audit_rollbacks", "audit_schemas", "audit_files", "audit_denials", "audit_credentials"),
)
OF_THE_STATE = (
    *("audit_pending", "audit_markers", "audit_services", "audit_streams", "audit_tokens", "audit_grants"),
    *("metastore", "base_path"),
)
VIEWS = (*LOG, *OF_THE_LOG, *OF_THE_STATE)
NOT_THERE = {"previous_hash", "hash", "answers_hash", "era"}
"""Columns that the views lack: hashes follow from the rows, and the era is a place in PostgreSQL."""
QUERIES = [query for query in EXAMPLES if not re.search(r"\bhash\b", query)]
NAME = "o'brien\"; DROP SCHEMA chronolake CASCADE; --"
"""The name of an actor."""

REFUSALS = 6
"""Two conflicts and four denials."""
LOGIN = "auditor_of_duckdb"
"""A login that may take on the role of auditors, and nothing else."""


class Stage(msgspec.Struct, frozen=True):
    """The rows of views and queries in both databases at some time."""

    duckdb: dict[str, Rows]
    postgres: dict[str, Rows]


class Lake(msgspec.Struct, frozen=True):
    """A lake with a part of its log in the archive, after answers were dropped, and after events have left."""

    dsn: str
    archive: Path
    columns: dict[str, set[str]]
    archived: Stage
    dropped: Stage
    left: Stage
    outdated: duckdb.DuckDBPyConnection
    """Views that were made before rows left."""

    @property
    def older(self) -> Path:
        """The archive as it was before rows left."""
        return self.archive.with_name("older")


def names_of(query: str) -> str:
    return " ".join(query.split())[:60]


@pytest.fixture(scope="module")
def extensions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("extensions")


@pytest.fixture(scope="module")
def lake(shared_dsn: str, tmp_path_factory: pytest.TempPathFactory, extensions: Path) -> Lake:
    folder = tmp_path_factory.mktemp("audit")
    archive = folder / "archive"

    def load() -> duckdb.DuckDBPyConnection:
        connection = connect(extensions)
        connection.execute(made(folder / "audit.sql", "--dsn", shared_dsn, "--archive", str(archive)))
        return connection

    make_token(shared_dsn)
    with History(shared_dsn) as history:
        make_history(history)
        make_roles(history, "shop.orders")
        archiving.write(shared_dsn, archiving.local(archive), 10)
        go_on(history)
        outdated = load()
        shutil.copytree(archive, folder / "older")
        columns = {view: columns_of(outdated, view) for view in VIEWS}
        archived = stage(shared_dsn, outdated, columns)
        with psycopg.connect(shared_dsn) as connection:
            connection.execute("SELECT chronolake.begin_era(2)")
        archiving.write(shared_dsn, archiving.local(archive))
        assert 1 in archiving.drop(shared_dsn, archiving.local(archive)).eras
        dropped = stage(shared_dsn, load(), columns)
        assert leaving.leave_once(shared_dsn) > 10
        left = stage(shared_dsn, load(), columns)
    return Lake(shared_dsn, archive, columns, archived, dropped, left, outdated)


def go_on(history: History) -> None:
    """Change all that views show, after a part of the log was archived."""
    history.make_table("shop.precise", Tick.MICROSECOND)
    history.done(tables.AlterTable("shop.precise", "shop.exact", set={"owner": "ann"}), actor=NAME)
    history.done(tables.AlterTable("shop.exact", unset=["owner"]))
    first, _ = history.write("shop.exact", 0)
    pinned = savepoints.CreateSavepoint("shop.exact", parse_time(first), "ann")
    savepoint = parse_time(shown.instant(history.done(pinned)).requested_time)
    requested_time = history.begin("shop.exact")
    staged = [file_of(requested_time, bucket) for bucket in (0, 2)]
    history.done(staging.StageWriteStats("shop.exact", parse_time(requested_time), staged))
    with psycopg.connect(history.dsn) as connection:
        [version] = connection.execute("SELECT version FROM chronolake.event WHERE type = 'WriteStatsStaged'")
    history.done(instants.CompleteInstant("shop.exact", parse_time(requested_time), staged=[*version]))
    history.done(restores.RestoreTable("shop.exact", savepoint, "ann", "wrong"))
    history.done(savepoints.ReleaseSavepoint("shop.exact", savepoint, "ann", "over"))
    loser = history.begin("shop.clicks", actor=NAME)
    history.write("shop.clicks", 3)
    stat = msgspec.structs.replace(file_of(loser, 3), partition_path="", records=2**40)
    history.refused(instants.CompleteInstant("shop.clicks", parse_time(loser), [stat]), actor=NAME)
    history.denied(tables.DropTable("shop.clicks"), Right.DEFINE)
    vend(history, "shop.exact", StorageAccess.MAINTAIN)


def columns_of(connection: duckdb.DuckDBPyConnection, view: str) -> set[str]:
    return {name for name, *_ in connection.execute(f"SELECT * FROM chronolake.{view} LIMIT 0").description}


def stage(dsn: str, connection: duckdb.DuckDBPyConnection, columns: dict[str, set[str]]) -> Stage:
    queries = {query: query for query in QUERIES}
    for view in VIEWS:
        names = ", ".join(f'"{name}"' for name in sorted(columns[view]))
        queries[view] = f"SELECT {names} FROM chronolake.{view}"
    of_refusals = {
        "outcome": queries["outcome"].replace('"result"', "CASE WHEN code IS NOT NULL THEN result END")
    }
    return Stage(
        {name: of_duckdb(connection, query) for name, query in queries.items()},
        {name: of_postgres(dsn, query) for name, query in (queries | of_refusals).items()},
    )


def without_eras(rows: Rows) -> Rows:
    """Rows but those of the command that drops eras."""
    return Rows(
        {row: number for row, number in rows.items() if "ArchivedEra" not in row and "EraArch" not in row}
    )


@pytest.mark.parametrize("query", [*VIEWS, *QUERIES], ids=names_of)
def test_views_and_queries_give_the_rows_of_postgresql(lake: Lake, query: str) -> None:
    assert lake.archived.duckdb[query] == lake.archived.postgres[query]


@pytest.mark.parametrize("query", [*VIEWS, *QUERIES], ids=names_of)
def test_views_and_queries_give_the_same_rows_after_answers_have_left(lake: Lake, query: str) -> None:
    expected = (lake.dropped if "FROM era" in query else lake.archived).postgres[query]

    assert without_eras(lake.dropped.duckdb[query]) == without_eras(expected)


@pytest.mark.parametrize("query", [*VIEWS, *QUERIES], ids=names_of)
def test_views_and_queries_give_the_same_rows_after_events_have_left(lake: Lake, query: str) -> None:
    assert lake.left.duckdb[query] == lake.dropped.duckdb[query]


def test_rows_have_left_postgresql(lake: Lake) -> None:
    for view in ("outcome", "refusal", "audit_commands", "audit_conflicts"):
        assert lake.dropped.postgres[view].total() < lake.archived.postgres[view].total()
    for view in ("event", "write_stat", "audit_history", "audit_files", "audit_schemas"):
        assert lake.left.postgres[view].total() < lake.dropped.postgres[view].total()


def test_every_view_has_rows(lake: Lake) -> None:
    assert [view for view in VIEWS if not lake.dropped.duckdb[view]] == []


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_has_all_columns_but_those_that_follow(lake: Lake, view: str) -> None:
    with psycopg.connect(lake.dsn) as connection:
        described = connection.execute(f"SELECT * FROM chronolake.{view} LIMIT 0".encode()).description
    assert described is not None

    assert {column.name for column in described} - NOT_THERE == lake.columns[view]


def test_nearly_all_queries_of_the_audit_page_run_in_duckdb() -> None:
    assert len(EXAMPLES) - len(QUERIES) == 1


def test_names_are_rows_and_never_sql(lake: Lake) -> None:
    assert any("o'brien" in row for row in lake.dropped.duckdb["audit_commands"])
    assert any("o'brien" in row for row in lake.dropped.duckdb["audit_conflicts"])


def test_outdated_views_say_that_they_are(lake: Lake) -> None:
    for view in (*LOG, "audit_history"):
        with pytest.raises(duckdb.Error, match="run chronolake-metastore audit duckdb again"):
            lake.outdated.execute(f"SELECT count(*) FROM chronolake.{view}").fetchall()


def test_the_archive_is_the_one_that_the_database_names(lake: Lake, tmp_path: Path, extensions: Path) -> None:
    connection = connect(extensions)
    connection.execute(made(tmp_path / "audit.sql", "--dsn", lake.dsn))

    assert of_duckdb(connection, "SELECT count(*) FROM chronolake.refusal") == {f"[{REFUSALS}]": 1}


def test_later_rows_are_there_without_new_views(dsn: str, tmp_path: Path, extensions: Path) -> None:
    archive = archiving.local(tmp_path / "archive")
    with History(dsn) as history:
        make_history(history)
        archiving.write(dsn, archive)
        connection = connect(extensions)
        connection.execute(made(tmp_path / "audit.sql", "--dsn", dsn, "--archive", str(tmp_path / "archive")))
        history.write("shop.orders", 2, actor=NAME)
    query = "SELECT version, type, actor, address FROM chronolake.audit_history"

    assert of_duckdb(connection, query) == of_postgres(dsn, query)


@pytest.fixture
def login(lake: Lake) -> Iterator[str]:
    with psycopg.connect(lake.dsn) as connection:
        connection.execute(f"CREATE ROLE {LOGIN} LOGIN IN ROLE chronolake_auditor".encode())
    yield conninfo.make_conninfo(lake.dsn, user=LOGIN)
    with psycopg.connect(lake.dsn) as connection:
        connection.execute(f"DROP ROLE {LOGIN}".encode())


def test_a_login_of_auditors_sees_everything_and_changes_nothing(
    lake: Lake, login: str, tmp_path: Path, extensions: Path
) -> None:
    connection = connect(extensions)
    connection.execute(made(tmp_path / "audit.sql", "--dsn", login))

    for view in VIEWS:
        names = ", ".join(f'"{name}"' for name in sorted(lake.columns[view]))
        query = f"SELECT {names} FROM chronolake.{view}"
        assert of_duckdb(connection, query) == lake.dropped.duckdb[view]
    with pytest.raises(duckdb.Error, match="read-only"):
        connection.execute("DELETE FROM postgresql.chronolake.event")


def test_the_owner_reads_as_an_auditor(lake: Lake, tmp_path: Path, extensions: Path) -> None:
    connection = connect(extensions)
    connection.execute(made(tmp_path / "audit.sql", "--dsn", lake.dsn))

    query = "FROM postgres_query('postgresql', 'SELECT current_user AS who')"
    assert connection.execute(query).fetchall() == [("chronolake_auditor",)]


def test_the_file_has_no_password_and_a_dsn_is_no_sql(lake: Lake, tmp_path: Path, extensions: Path) -> None:
    name = "it's {end} $$'); DROP SCHEMA chronolake; --"
    dsn = conninfo.make_conninfo(lake.dsn, password="a secret", application_name=name)
    text = made(tmp_path / "audit.sql", "--dsn", dsn)
    connection = connect(extensions)
    connection.execute(text)

    query = "FROM postgres_query('postgresql', 'SELECT current_setting(''application_name'') AS name')"
    assert connection.execute(query).fetchall() == [(name,)]
    assert "a secret" not in text


def test_places_with_quotes_and_patterns_are_no_sql(lake: Lake, tmp_path: Path, extensions: Path) -> None:
    place = tmp_path / "it's [a] *?'); DROP SCHEMA chronolake; --"
    shutil.copytree(lake.archive, place)
    connection = connect(extensions)
    connection.execute(made(tmp_path / "audit.sql", "--dsn", lake.dsn, "--archive", str(place)))

    assert of_duckdb(connection, "FROM chronolake.refusal").total() == REFUSALS


def test_the_file_is_replaced_as_a_whole_and_may_be_loaded_again(
    lake: Lake, tmp_path: Path, extensions: Path
) -> None:
    file, connection = tmp_path / "audit.sql", connect(extensions)
    first = made(file, "--dsn", lake.dsn)
    connection.execute(first)
    again = made(file, "--dsn", lake.dsn)
    connection.execute(again)

    assert again == first
    assert [path.name for path in tmp_path.iterdir()] == ["audit.sql"]
    assert of_duckdb(connection, "FROM chronolake.refusal").total() == REFUSALS


@pytest.mark.parametrize("view", [*LOG, "audit_history", "audit_rollbacks"])
def test_the_archived_part_is_read_without_a_database(
    lake: Lake, tmp_path: Path, extensions: Path, view: str
) -> None:
    connection = connect(extensions)
    connection.execute(made(tmp_path / "audit.sql", "--archive-only", "--archive", str(lake.archive)))

    rows = of_duckdb(connection, f"SELECT {', '.join(sorted(lake.columns[view]))} FROM chronolake.{view}")

    assert without_eras(rows) == without_eras(lake.dropped.duckdb[view])


def test_an_archive_on_s3_is_read(lake: Lake, tmp_path: Path, extensions: Path, s3: S3) -> None:
    upload(lake.archive, s3)
    with pytest.MonkeyPatch.context() as environment:
        for name, value in {
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": STORAGE_SECRET,
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": s3.options["endpoint_override"],
        }.items():
            environment.setenv(name, value)
        text = made(tmp_path / "audit.sql", "--dsn", lake.dsn, "--archive", f"s3://{s3.bucket}/archive")
    connection = connect(extensions)
    endpoint = s3.options["endpoint_override"].removeprefix("http://")
    connection.execute(
        "CREATE SECRET (TYPE s3, KEY_ID 'key', SECRET 'secret', REGION 'us-east-1', URL_STYLE 'path',"
        f" USE_SSL false, ENDPOINT '{endpoint}')"
    )
    connection.execute(text)

    for view in LOG:
        query = f"SELECT {', '.join(sorted(lake.columns[view]))} FROM chronolake.{view}"
        assert of_duckdb(connection, query) == lake.dropped.duckdb[view]


def upload(archive: Path, s3: S3) -> None:
    files = opening.open_files(f"s3://{s3.bucket}/archive", s3.options)
    for path in archive.rglob("*"):
        if path.is_file():
            files.put(str(path.relative_to(archive)), path.read_bytes())


def refused(*arguments: str) -> str:
    return complaint(run("audit", "duckdb", *arguments))


def test_without_an_archive_the_error_says_how_to_make_one(lake: Lake, dsn: str, tmp_path: Path) -> None:
    to = ("--to", str(tmp_path / "audit.sql"))

    missing = refused("--dsn", lake.dsn, "--archive", str(tmp_path / "none"), *to)
    unnamed = refused("--dsn", dsn, *to)
    without_both = refused("--archive-only", *to)

    assert "there is no archive at" in missing
    assert "name that one" in missing
    assert "name the location with --archive" in unnamed
    assert "--archive" in without_both
    assert list(tmp_path.iterdir()) == []


def test_an_archive_of_another_metastore_is_refused(lake: Lake, dsn: str, tmp_path: Path) -> None:
    refusal = refused("--dsn", dsn, "--archive", str(lake.archive), "--to", str(tmp_path / "audit.sql"))

    assert "whose identity this database never had" in refusal


def test_an_archive_that_is_behind_is_refused(lake: Lake, tmp_path: Path) -> None:
    refusal = refused("--dsn", lake.dsn, "--archive", str(lake.older), "--to", str(tmp_path / "audit.sql"))

    assert f"it is an older copy; the log has left for the archive at {lake.archive}" in refusal


def test_a_damaged_archive_is_refused(lake: Lake, tmp_path: Path) -> None:
    shutil.copytree(lake.archive, tmp_path / "damaged")
    archiving.flip(next(tmp_path.glob("damaged/runs/*/run.json")))

    refusal = refused(
        "--dsn", lake.dsn, "--archive", str(tmp_path / "damaged"), "--to", str(tmp_path / "audit.sql")
    )

    assert "the archive is damaged" in refusal


def test_a_login_without_the_rights_is_told_what_it_lacks(lake: Lake, tmp_path: Path) -> None:
    with psycopg.connect(lake.dsn) as connection:
        connection.execute(b"CREATE ROLE no_auditor LOGIN")
    try:
        dsn = conninfo.make_conninfo(lake.dsn, user="no_auditor")
        refusal = refused("--dsn", dsn, "--to", str(tmp_path / "audit.sql"))
    finally:
        with psycopg.connect(lake.dsn) as connection:
            connection.execute(b"DROP ROLE no_auditor")

    assert "may not take on the role 'chronolake_auditor'" in refusal


def test_a_file_that_cannot_be_written_is_an_error(lake: Lake, tmp_path: Path) -> None:
    refusal = refused("--dsn", lake.dsn, "--to", str(tmp_path / "none" / "audit.sql"))

    assert "audit.sql cannot be written" in refusal
