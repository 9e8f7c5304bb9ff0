"""Starting, stopping and readiness (docs/operations.md)."""

from __future__ import annotations

import importlib.metadata
import json
import os
import signal
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from chronolake_metastore.store.postgres import diagnosis
from tests.fix_secrets import DATABASE_PASSWORD
from tests.fix_server import ServerProcess
from tests.forked_program import TIMEOUT_SECONDS, complaint, run
from tests.server import database, rest
from tests.server.rest import refused, succeeded, write_stat


@pytest.fixture
def taken_port() -> Iterator[int]:
    """A port on which a socket listens."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield listening.getsockname()[1]


def test_a_database_that_was_never_migrated_is_not_served(empty_database: str) -> None:
    assert "migrate" in complaint(run("serve", "--dsn", empty_database, "--port", "0"))


def test_a_log_from_another_postgresql_is_not_served(dsn: str) -> None:
    database.query_nothing(
        dsn,
        "INSERT INTO chronolake.event (transaction_id, table_id, version, type, time, actor, request_id,"
        " payload, payload_bytes, previous_hash, hash)"
        " SELECT '9999999999', gen_random_uuid(), 1, 'TableCreated', now(), 'a', 'r', '{}', 2, '', sha256('')",
    )
    assert "physical backup" in complaint(run("serve", "--dsn", dsn, "--port", "0"))


def test_a_database_of_an_unknown_revision_is_not_served(dsn: str) -> None:
    database.query_nothing(dsn, "UPDATE chronolake.alembic_version SET version_num = '9999'")

    message = complaint(run("serve", "--dsn", dsn, "--port", "0"))

    assert "9999" in message
    assert "migrate" in message


def test_a_missing_database_is_reported_in_one_line(dsn: str) -> None:
    nowhere = make_conninfo(dsn, dbname="nowhere_at_all")

    assert "nowhere_at_all" in complaint(run("serve", "--dsn", nowhere, "--port", "0"))
    assert "nowhere_at_all" in complaint(run("migrate", "--dsn", nowhere))
    assert "nowhere_at_all" in complaint(run("rebuild", "--dsn", nowhere))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
def test_strangers_are_not_let_in_by_mistake(host: str) -> None:
    assert "--allow-anonymous" in complaint(run("serve", "--dsn", "dbname=never_reached", "--host", host))


def test_strangers_are_let_in_when_that_is_wanted(dsn: str, new_server: Callable[..., ServerProcess]) -> None:
    server = new_server(dsn, "--host", "0.0.0.0", "--allow-anonymous", "--location", "/")

    [warning] = httpx.get(f"{server.url}/ready").json()["warnings"]
    assert "access is off" in warning
    assert warning in server.log()


def test_a_port_that_is_taken_is_refused_before_a_database_is_made(tmp_path: Path, taken_port: int) -> None:
    folder = tmp_path / "server"
    ended = run("serve", "--data-dir", str(folder), "--port", str(taken_port))
    assert f"{taken_port} (Address already in use; another program listens there)" in complaint(ended)
    assert not folder.exists()


def test_a_second_server_at_the_same_port_is_refused(shared_server: ServerProcess) -> None:
    port = str(shared_server.port)

    refusal = complaint(run("serve", "--dsn", shared_server.dsn, "--port", port))
    assert f"{port} (Address already in use; a Chronolake server listens there)" in refusal


def test_a_refused_login_is_distinguished_from_a_missing_database(
    plain_login: str, empty_database: str
) -> None:
    unreachable = complaint(run("serve", "--dsn", "host=127.0.0.1 port=9 dbname=x", "--port", "0"))
    unknown_login = complaint(
        run("serve", "--dsn", make_conninfo(plain_login, user="nobody_at_all"), "--port", "0")
    )
    unmigrated = complaint(run("serve", "--dsn", empty_database, "--port", "0"))

    assert "cannot connect to PostgreSQL" in unreachable
    assert 'server at "127.0.0.1", port 9 failed: Connection refused' in unreachable
    assert "no such login" in unknown_login
    assert "run chronolake-metastore migrate" in unmigrated
    for command in ("migrate", "verify", "rebuild"):
        assert "cannot connect to PostgreSQL" in complaint(
            run(command, "--dsn", "host=127.0.0.1 port=9 dbname=x")
        )


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ('FATAL:  password authentication failed for user "me"', "refuses the login"),
        ("fe_sendauth: no password supplied", "refuses the login"),
        ('FATAL:  no pg_hba.conf entry for host "10.0.0.1", user "me"', "refuses the login"),
        ('FATAL:  database "lake" does not exist', "no such database"),
        ('FATAL:  role "me" does not exist', "no such login"),
        ("connection timeout expired", "cannot connect"),
        ('failed to resolve host "nowhere": Name or service not known', "cannot connect"),
    ],
)
def test_a_libpq_error_of_a_connection_becomes_a_remedy(reason: str, expected: str) -> None:
    message = str(diagnosis.of_connecting(psycopg.OperationalError(f"connection failed: {reason}\n")))

    assert expected in message
    assert reason in message


def test_each_address_that_was_tried_is_named() -> None:
    refused_by_two = (
        'connection failed: connection to server at "h", port 2 failed: Connection refused\n'
        "\tIs the server running on that host and accepting TCP/IP connections?\n"
        "Multiple connection attempts failed. All failures were:\n"
        "- host: 'g', port: '1', hostaddr: '192.0.2.1': connection timeout expired\n"
        "- host: 'h', port: '2', hostaddr: '192.0.2.2': connection failed: Connection refused"
    )

    message = str(diagnosis.of_connecting(psycopg.OperationalError(refused_by_two)))

    assert "'192.0.2.1'" in message
    assert "'192.0.2.2'" in message
    assert "Is the server running" not in message


def test_an_unknown_environment_variable_is_named_with_the_nearest(
    monkeypatch: pytest.MonkeyPatch, empty_database: str
) -> None:
    monkeypatch.setenv("CHRONOLAKE_PROT", "1")

    ended = run("serve", "--dsn", empty_database, "--port", "0")

    assert "CHRONOLAKE_PROT is unknown and ignored; did you mean CHRONOLAKE_PORT?" in ended.stderr


def test_a_missing_or_ungranted_role_is_reported_with_the_grant(plain_login: str) -> None:
    missing = complaint(run("serve", "--dsn", plain_login, "--role", "no_such_role", "--port", "0"))
    not_granted = complaint(run("serve", "--dsn", plain_login, "--role", "chronolake_auditor", "--port", "0"))

    login = conninfo_to_dict(plain_login)["user"]
    assert "no role 'no_such_role'" in missing
    assert f'GRANT "chronolake_auditor" TO "{login}"' in not_granted


def test_a_schema_of_a_later_release_is_refused(dsn: str) -> None:
    database.query_nothing(dsn, "UPDATE chronolake.alembic_version SET version_num = '9999'")
    newer, migrated = (
        complaint(run("serve", "--dsn", dsn, "--port", "0")),
        complaint(run("migrate", "--dsn", dsn)),
    )

    assert "does not know" in newer
    assert "does not know" in migrated


def test_a_schema_of_a_development_version_is_refused_with_a_remedy(dsn: str) -> None:
    database.query_nothing(dsn, "UPDATE chronolake.alembic_version SET version_num = '0023'")

    served, migrated = (
        complaint(run("serve", "--dsn", dsn, "--port", "0")),
        complaint(run("migrate", "--dsn", dsn)),
    )

    for message in (served, migrated):
        assert "schema 0023 of a development version" in message
        assert "make a new database" in message
    assert database.query(dsn, "SELECT version_num FROM chronolake.alembic_version") == [
        {"version_num": "0023"}
    ]


@pytest.mark.parametrize(
    "arguments",
    [
        ("serve", "--port", "99999"),
        ("serve", "--log-level", "loud"),
        ("serve", "--request-log", "loud"),
        ("serve", "--dsn", "nonsense"),
        ("serve", "--dsn", "postgresql://me:pa#secret@host:port/db"),
        ("migrate", "--dsn", "http://host"),
        ("serve", "--dsn", ""),
        ("migrate", "--dsn", " "),
    ],
)
def test_wrong_settings_are_reported_in_a_few_lines(arguments: tuple[str, ...]) -> None:
    ended = run(*arguments)

    assert "secret" not in complaint(ended)
    assert ended.returncode == 2
    assert len(ended.stderr.splitlines()) < 12


def test_an_empty_dsn_does_not_start_an_empty_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHRONOLAKE_DSN", "")

    message = complaint(run("serve", "--data-dir", str(tmp_path / "data")))

    assert "unset CHRONOLAKE_DSN" in message
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("command", [("verify",), ("heads", "--to", "heads"), ("rebuild",), ("claim",)])
def test_a_command_for_an_existing_database_makes_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.delenv("CHRONOLAKE_DSN", raising=False)
    monkeypatch.chdir(tmp_path)

    message = complaint(run(*command, "--data-dir", str(tmp_path / "data")))

    assert f"no embedded database in {tmp_path / 'data'}" in message
    assert not (tmp_path / "data").exists()


def test_a_level_may_be_written_in_capitals(dsn: str, new_server: Callable[..., ServerProcess]) -> None:
    new_server(dsn, "--log-level", "WARNING")


def test_the_version_is_printed() -> None:
    assert run("--version").stdout == f"chronolake-metastore {importlib.metadata.version('chronolake')}\n"


def test_a_second_migration_changes_nothing(empty_database: str) -> None:
    assert run("migrate", "--dsn", empty_database).returncode == 0
    before = database.contents(empty_database, "alembic_version", *database.PROJECTIONS)

    again = run("migrate", "--dsn", empty_database)

    assert (again.returncode, "as before" in again.stdout) == (0, True)
    assert database.contents(empty_database, "alembic_version", *database.PROJECTIONS) == before


def test_of_migrations_at_once_each_succeeds_and_one_does_it(empty_database: str) -> None:
    with ThreadPoolExecutor(3) as threads:
        ended = list(threads.map(lambda _: run("migrate", "--dsn", empty_database), range(3)))

    assert [ended_process.returncode for ended_process in ended] == [0, 0, 0], ended
    assert sorted("as before" in ended_process.stdout for ended_process in ended) == [False, True, True]


RIGHTS = """
    SELECT object, grantee::regrole::text, privilege_type FROM (
        SELECT oid::regclass::text AS object, relacl AS acl FROM pg_class
        WHERE relnamespace = 'chronolake'::regnamespace
        UNION ALL
        SELECT oid::regprocedure::text, proacl FROM pg_proc WHERE pronamespace = 'chronolake'::regnamespace
        UNION ALL
        SELECT nspname, nspacl FROM pg_namespace WHERE nspname = 'chronolake'
    ) objects, aclexplode(acl)
    WHERE grantee <> 0 AND starts_with(grantee::regrole::text, 'chronolake')
    ORDER BY 1, 2, 3
"""


def test_rights_that_a_dump_came_without_are_granted_by_the_next_migration(dsn: str) -> None:
    before = database.query(dsn, RIGHTS)
    for role in ("chronolake_server", "chronolake_auditor", "chronolake_namespace_auditor"):
        database.query_nothing(dsn, f"REVOKE ALL ON ALL TABLES IN SCHEMA chronolake FROM {role}")
        database.query_nothing(dsn, f"REVOKE ALL ON ALL FUNCTIONS IN SCHEMA chronolake FROM {role}")
        database.query_nothing(dsn, f"REVOKE ALL ON ALL SEQUENCES IN SCHEMA chronolake FROM {role}")
        database.query_nothing(dsn, f"REVOKE ALL ON SCHEMA chronolake FROM {role}")
    assert database.query(dsn, RIGHTS) == []
    assert "run chronolake-metastore migrate" in complaint(run("serve", "--dsn", dsn, "--port", "0"))

    assert run("migrate", "--dsn", dsn).returncode == 0

    assert before != []
    assert database.query(dsn, RIGHTS) == before


@pytest.fixture
def bare_login(dsn: str) -> Iterator[str]:
    """The DSN of a login that may connect, and nothing more."""
    name = f"bare_{os.getpid()}"
    database.query_nothing(dsn, f"CREATE ROLE {name} LOGIN PASSWORD '{DATABASE_PASSWORD}'")
    yield make_conninfo(dsn, user=name, password=DATABASE_PASSWORD)
    database.query_nothing(dsn, f"DROP OWNED BY {name}")
    database.query_nothing(dsn, f"DROP ROLE {name}")


def test_a_login_that_may_not_migrate_gets_the_grant_needed_to_serve(bare_login: str) -> None:
    login = conninfo_to_dict(bare_login)["user"]

    message = complaint(run("migrate", "--dsn", bare_login))

    assert "migrate as the owner" in message
    assert f'GRANT chronolake_server TO "{login}"' in message


def test_a_second_login_that_migrates_gets_the_grant_that_it_needs(dsn: str, bare_login: str) -> None:
    login = conninfo_to_dict(bare_login)["user"]
    database.query_nothing(dsn, f"GRANT USAGE ON SCHEMA chronolake TO {login}")
    database.query_nothing(dsn, f"GRANT SELECT ON chronolake.alembic_version TO {login}")

    again = run("migrate", "--dsn", bare_login)

    assert (again.returncode, "as before" in again.stdout) == (0, True)
    assert f"GRANT chronolake_server TO {login}" in again.stderr


def test_requests_are_logged_when_that_is_wanted(dsn: str, new_server: Callable[..., ServerProcess]) -> None:
    server = new_server(dsn, "--request-log", "info", "--log-format", "json")
    with rest.connect(server.url) as http:
        table = rest.make_table(http, "shop.orders")
        table.begin(key="the-key")
        http.get("/nowhere")
    # A request is logged when it has been answered; a server that has ended has logged all of them.
    server.stop()

    lines = [json.loads(line) for line in server.log().splitlines()]
    logged = {(line["method"], line["path"]): line for line in lines if line["event"] == "request"}
    begun = logged["POST", "/v1/tables/shop.orders/instants"]
    assert (begun["status"], begun["request_id"], begun["level"]) == (201, "the-key", "info")
    assert 0 < begun["ms"] < 60_000
    assert logged["POST", "/v1/namespaces"]["request_id"].startswith("server-")
    assert logged["GET", "/nowhere"]["status"] == 404


def test_requests_are_not_logged_unless_that_is_wanted(server: ServerProcess) -> None:
    httpx.get(f"{server.url}/health")

    assert "/health" not in server.log()


@pytest.fixture
def plain_login(dsn: str) -> Iterator[str]:
    """The DSN of a login that is no superuser and may be the server, no more."""
    name = f"login_{os.getpid()}"
    database.query_nothing(dsn, f"CREATE ROLE {name} LOGIN PASSWORD '{DATABASE_PASSWORD}'")
    database.query_nothing(dsn, f"GRANT chronolake_server TO {name}")
    yield make_conninfo(dsn, user=name, password=DATABASE_PASSWORD)
    database.query_nothing(dsn, f"DROP ROLE {name}")


def test_a_login_that_is_no_superuser_serves_when_granted_the_role(
    plain_login: str, new_server: Callable[..., ServerProcess]
) -> None:
    with rest.connect(new_server(plain_login).url) as http:
        table = rest.make_table(http)
        requested_time = table.begun()

        assert succeeded(table.complete(requested_time, write_stat(requested_time)))["state"] == "completed"
        assert len(succeeded(http.get(f"/v1/tables/{table.name}/snapshot"))["slices"]) == 1


def shut(dsn: str, allowed: bool) -> None:
    """Disconnect all clients of a database and refuse new connections, or allow them again."""
    name = conninfo_to_dict(dsn)["dbname"]
    elsewhere = make_conninfo(dsn, dbname="postgres")
    with psycopg.connect(elsewhere, autocommit=True) as connection:
        connection.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS {str(allowed).lower()}'.encode())
        connection.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = %s", (name,)
        )


@pytest.fixture
def database_away(shared_dsn: str, shared_server: ServerProcess) -> Iterator[str]:
    """The address of a server whose database is unavailable."""
    shut(shared_dsn, allowed=False)
    yield shared_server.url
    shut(shared_dsn, allowed=True)


def test_a_server_whose_database_is_away_lives_and_is_not_ready(database_away: str) -> None:
    assert httpx.get(f"{database_away}/health").status_code == 200
    away = httpx.get(f"{database_away}/ready", timeout=TIMEOUT_SECONDS)
    refused(away, 503, "database-unavailable")
    assert away.headers["retry-after"] == "1"


@pytest.mark.parametrize("path", ["/v1/time", "/v1/tables/a.b/snapshot"])
def test_reading_while_the_database_is_away_is_answered_at_once(database_away: str, path: str) -> None:
    refused(httpx.get(database_away + path, timeout=TIMEOUT_SECONDS), 503, "database-unavailable")


def test_a_server_is_ready_again_when_its_database_is_back(
    shared_dsn: str, shared_server: ServerProcess
) -> None:
    shut(shared_dsn, allowed=False)
    refused(httpx.get(f"{shared_server.url}/ready", timeout=TIMEOUT_SECONDS), 503, "database-unavailable")
    shut(shared_dsn, allowed=True)

    assert httpx.get(f"{shared_server.url}/ready", timeout=TIMEOUT_SECONDS).status_code == 200


def test_a_command_sent_while_the_database_is_away_is_carried_out_when_it_is_back(
    shared_dsn: str, shared_http: httpx.Client
) -> None:
    table = rest.make_table(shared_http)
    shut(shared_dsn, allowed=False)
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(table.begin)
        refused(shared_http.get("/ready"), 503, "database-unavailable")
        shut(shared_dsn, allowed=True)

        assert succeeded(waiting.result())["state"] == "inflight"


@pytest.fixture
def stopped() -> Callable[[ServerProcess, signal.Signals], int]:
    """Asks a server to stop, and gives the exit code that it ended with."""

    def stop(server: ServerProcess, requested_signal: signal.Signals) -> int:
        process = server._process
        assert process is not None
        process.send_signal(requested_signal)
        return process.wait(TIMEOUT_SECONDS)

    return stop


@pytest.mark.parametrize("stop_signal", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_signal_ends_the_server_with_exit_code_zero(
    server: ServerProcess, stopped: Callable[[ServerProcess, signal.Signals], int], stop_signal: signal.Signals
) -> None:
    assert stopped(server, stop_signal) == 0
    assert "Traceback" not in server.log()


def test_projections_that_were_lost_are_rebuilt_while_the_server_runs(
    dsn: str, server: ServerProcess, http: httpx.Client
) -> None:
    table = rest.make_table(http)
    requested_time = table.begun()
    succeeded(table.complete(requested_time, write_stat(requested_time)))
    before = database.contents(dsn, *database.PROJECTIONS)
    database.query_nothing(dsn, "TRUNCATE " + ", ".join(f"chronolake.{name}" for name in database.PROJECTIONS))

    ended = run("rebuild", "--dsn", dsn)

    assert ended.returncode == 0
    assert ended.stdout.startswith(
        "rebuilt from 4 events; corrected rows: clock 2, namespace 1, lake_table 1, schema_version 1, "
        "base_path 1, instant 1, file 1;"
    )
    assert database.contents(dsn, *database.PROJECTIONS) == before
    assert table.begun() > requested_time


def test_a_ready_server_reports_it(server_url: str) -> None:
    assert httpx.get(f"{server_url}/ready").json()["status"] == "ok"
