"""A PostgreSQL that refuses writes: the server says that it is not ready, and is ready again by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from chronolake_metastore.queries import readiness
from chronolake_metastore.settings import Settings
from chronolake_metastore.store.postgres.engine import Database
from tests.fix_server import ServerProcess
from tests.forked_program import complaint, run
from tests.server import database, rest
from tests.server.rest import refused, succeeded

READ_ONLY = "SHOW default_transaction_read_only"


@contextmanager
def read_only(dsn: str) -> Iterator[None]:
    """Have a database refuse writes, on connections that are made from now on."""
    name = str(conninfo_to_dict(dsn)["dbname"])
    setting = sql.SQL("ALTER DATABASE {} SET default_transaction_read_only = {}")
    with database.connected(dsn) as connection:
        connection.execute(setting.format(sql.Identifier(name), sql.SQL("on")))
        database.sever(dsn)
        yield
        connection.execute(setting.format(sql.Identifier(name), sql.SQL("off")))


def test_a_server_is_not_ready_while_postgresql_is_read_only(
    dsn: str, new_server: Callable[..., ServerProcess]
) -> None:
    server = new_server(dsn, "--answer-seconds", "2")
    with rest.connect(server.url) as http:
        table = rest.make_table(http)
        begun = table.begun()
        with read_only(dsn):
            problem = refused(http.get("/ready"), 503, "database-unavailable")
            assert "reason" not in refused(table.begin(), 503, "database-unavailable")["context"]
            readable = http.get(f"/v1/tables/{table.name}/instants/{begun}")

        assert "read-only" in problem["detail"]
        assert succeeded(readable)["requested_time"] == begun
        assert http.get("/ready").status_code == 200
        assert table.begun() > begun


def test_connections_that_began_while_postgresql_was_read_only_do_not_keep_a_server_from_being_ready(
    dsn: str,
) -> None:
    async def look() -> None:
        database = Database(Settings(dsn=dsn))
        try:
            with read_only(dsn):
                async with database.probing() as one, database.probing() as another:
                    found = [(await each.execute(READ_ONLY)).scalar_one() for each in (one, another)]
                    assert found == ["on", "on"]
            await readiness.check(database)
        finally:
            await database.close()

    asyncio.run(look())


def test_a_server_does_not_start_on_a_read_only_postgresql(dsn: str) -> None:
    with read_only(dsn):
        ended = run("serve", "--dsn", dsn, "--port", "0")

    assert "read-only" in complaint(ended)


def test_health_does_not_depend_on_the_database(dsn: str, server: ServerProcess) -> None:
    with read_only(dsn):
        assert httpx.get(f"{server.url}/health").status_code == 200
