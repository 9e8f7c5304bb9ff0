"""The role of the servers locks the rows that a command needs, and not the tables that every command passes."""

from __future__ import annotations

import os
from collections.abc import Iterator

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.fix_secrets import DATABASE_PASSWORD
from tests.forked_program import run
from tests.store import tampering

TABLES = ("clock", "answer_chain", "wall_clock")


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("mode", ["SHARE UPDATE EXCLUSIVE", "SHARE", "EXCLUSIVE", "ACCESS EXCLUSIVE"])
def test_the_servers_role_cannot_lock_the_tables_of_every_command(
    shared_dsn: str, table: str, mode: str
) -> None:
    with psycopg.connect(shared_dsn) as connection:
        connection.execute("SET ROLE chronolake_server")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(f"LOCK TABLE chronolake.{table} IN {mode} MODE".encode())


@pytest.mark.parametrize("table", TABLES)
def test_the_servers_role_locks_rows(shared_dsn: str, table: str) -> None:
    with psycopg.connect(shared_dsn) as connection:
        connection.execute("SET ROLE chronolake_server")
        connection.execute(f"SELECT * FROM chronolake.{table} FOR UPDATE".encode())


@pytest.fixture
def server_login(dsn: str) -> Iterator[str]:
    """The DSN of a login that may serve, and nothing more."""
    name = f"serving_{os.getpid()}"
    with psycopg.connect(dsn, autocommit=True) as connection:
        login = f"LOGIN PASSWORD '{DATABASE_PASSWORD}' IN ROLE chronolake_server"
        connection.execute(f"CREATE ROLE {name} {login}".encode())
        yield make_conninfo(dsn, user=name, password=DATABASE_PASSWORD)
        connection.execute(f"DROP ROLE {name}".encode())


def test_a_login_that_may_only_serve_learns_which_role_can_rebuild(dsn: str, server_login: str) -> None:
    tampering.make(dsn)

    ended = run("rebuild", "--dsn", server_login)

    assert (ended.returncode, "owner of the schema" in ended.stderr) == (2, True), ended
    assert tampering.verify(server_login).holds
