"""A server and its command line through a real pgbouncer, in session mode and in transaction mode."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import httpx
import psycopg
import pytest

import chronolake
from tests.fix_server import ServerProcess
from tests.forked_program import complaint, run
from tests.poolers.pgbouncer import PgBouncer, advisory_locks
from tests.processes import wait_until
from tests.server import database, rest
from tests.server.rest import refused, succeeded, write_stat

pytestmark = [pytest.mark.pgbouncer, pytest.mark.slow]

NewPooler = Callable[..., PgBouncer]
NewServer = Callable[..., ServerProcess]
WORKING = ("--reaper-seconds", "0.05", "--deleter-seconds", "0.05", "--publisher-seconds", "0.1")


def reaped(http: httpx.Client, dsn: str) -> None:
    """Wait until the server rolls back an instant whose writer is silent."""
    table = rest.make_table(http)
    instant = table.begun(lease_seconds=60)
    database.pass_time(dsn, 61)
    wait_until(lambda: table.state(instant) == "rolled_back")


def test_a_server_through_a_pooler_in_session_mode_commits_reads_and_reaps(
    new_pooler: NewPooler, new_server: NewServer, dsn: str
) -> None:
    server = new_server(new_pooler(dsn, pool_mode="session").dsn, *WORKING)
    with rest.connect(server.url) as http:
        table = rest.make_table(http)
        requested = table.begun()
        table.marked(requested, rest.marker(requested))
        succeeded(table.complete(requested, write_stat(requested)))
        with chronolake.connect(server.url) as client:
            assert client.table(table.name).snapshot_arrow().num_rows == 1
        reaped(http, dsn)


@pytest.mark.parametrize("command", [("verify",), ("rebuild",), ("migrate",)])
def test_a_command_through_a_pooler_in_session_mode_succeeds(
    new_pooler: NewPooler, dsn: str, command: tuple[str, ...]
) -> None:
    pooler = new_pooler(dsn, pool_mode="session")
    for _ in range(2):
        ended = run(*command, "--dsn", pooler.dsn)
        assert ended.returncode == 0, ended.stderr
    wait_until(lambda: advisory_locks(dsn) == 0)


def test_a_server_goes_on_when_the_pooler_has_started_again(
    new_pooler: NewPooler, new_server: NewServer, dsn: str
) -> None:
    pooler = new_pooler(dsn, pool_mode="session")
    server = new_server(pooler.dsn, *WORKING)
    with rest.connect(server.url) as http:
        reaped(http, dsn)
        pooler.stop()
        refused(http.get("/ready"), 503, "database-unavailable")
        pooler.start()
        wait_until(lambda: http.get("/ready").status_code == 200)
        reaped(http, dsn)


def test_after_a_server_was_killed_another_one_reaps(
    new_pooler: NewPooler, new_server: NewServer, dsn: str
) -> None:
    pooler = new_pooler(dsn, pool_mode="session")
    first, second = (new_server(pooler.dsn, *WORKING) for _ in range(2))
    first.kill()
    with rest.connect(second.url) as http:
        reaped(http, dsn)
    second.kill()
    wait_until(lambda: advisory_locks(dsn) == 0)


@pytest.mark.parametrize(
    "settings",
    [{}, {"server_round_robin": 1}, {"default_pool_size": 1}, {"server_round_robin": 1, "min_pool_size": 3}],
    ids=["defaults", "in turn", "one session", "three sessions in turn"],
)
@pytest.mark.parametrize("command", [("serve", "--port", "0"), ("verify",)], ids=["serve", "verify"])
def test_a_pooler_in_transaction_mode_is_refused(
    new_pooler: NewPooler, dsn: str, settings: dict[str, int], command: tuple[str, ...]
) -> None:
    pooler = new_pooler(dsn, pool_mode="transaction", **settings)
    # Sessions that are set up already, as by a server that ran before.
    with contextlib.ExitStack() as opened:
        for connection in [opened.enter_context(psycopg.connect(pooler.dsn)) for _ in range(3)]:
            with contextlib.suppress(psycopg.OperationalError):
                connection.execute("SET statement_timeout = '1s'; SET search_path = chronolake; SELECT 1")
                connection.commit()
        ended = run(*command, "--dsn", pooler.dsn)

    assert "use session mode (pgbouncer: pool_mode = session)" in complaint(ended)
    wait_until(lambda: advisory_locks(dsn) == 0)


def test_migrations_run_through_a_pooler_in_transaction_mode_and_leave_no_lock(
    new_pooler: NewPooler, empty_database: str
) -> None:
    pooler = new_pooler(empty_database, pool_mode="transaction")
    for _ in range(2):
        ended = run("migrate", "--dsn", pooler.dsn)
        assert ended.returncode == 0, ended.stderr
    assert advisory_locks(empty_database) == 0


def test_a_server_whose_pooler_changes_to_transaction_mode_leaves_no_lock(
    new_pooler: NewPooler, new_server: NewServer, dsn: str
) -> None:
    pooler = new_pooler(dsn, pool_mode="session")
    server = new_server(pooler.dsn, *WORKING)
    with rest.connect(server.url) as http:
        pooler.change(pool_mode="transaction")
        wait_until(lambda: "does not keep sessions" in http.get("/ready").text)
    server.kill()
    wait_until(lambda: advisory_locks(dsn) == 0)
    # The pooler is still there, and so are its sessions.
    assert database.query(dsn, "SELECT FROM pg_stat_activity WHERE application_name = 'chronolake-metastore'")

    with rest.connect(new_server(dsn, *WORKING).url) as http:
        reaped(http, dsn)
