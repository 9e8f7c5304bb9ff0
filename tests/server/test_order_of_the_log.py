"""The order across tables, (transaction_id, position), is the order of each table's versions.

Design.md section 5. The rebuild and every tailing reader depend on it.
"""

from __future__ import annotations

import asyncio

import httpx

from chronolake_metastore.commands import group
from chronolake_metastore.commands.recording import Request
from chronolake_metastore.domain import commands, namespaces
from chronolake_metastore.domain.context import Context
from chronolake_metastore.domain.instants import BeginInstant
from chronolake_metastore.settings import Settings
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.postgres.transaction import Session
from tests.fix_server import ServerProcess
from tests.forked_program import run
from tests.server import database, rest


def request_of(command: commands.Command) -> Request:
    """The request with which the sequencer gets a command."""
    return group.request_of(Context("tester", rest.new_key()), command)


def begin(table: str) -> commands.Command:
    """The command to begin an instant."""
    return BeginInstant(table, writer="w")


async def run_group(dsn: str, *group_of_commands: commands.Command) -> None:
    """Execute commands in one group on a connection of its own."""
    lake = Database(Settings(dsn=dsn))
    session = Session(lake)
    try:
        requests = [request_of(command) for command in group_of_commands]
        await group.run(session, requests, drift_max_us=1_000_000)
    finally:
        await session.close()
        await lake.close()


def tables_in_the_order_of_their_locks(http: httpx.Client, dsn: str) -> list[str]:
    """The names of three new tables, in the order of their ids."""
    names = [rest.make_table(http).name for _ in range(3)]
    rows = database.query(
        dsn,
        "SELECT namespace || '.' || name AS name FROM lake_table "
        "WHERE namespace || '.' || name = ANY (%s) ORDER BY table_id",
        names,
    )
    return [row["name"] for row in rows]


def inversions(dsn: str) -> list[database.Row]:
    """Events that come, in the order across tables, before the event of their table that they follow."""
    return database.query(
        dsn,
        """
        SELECT * FROM (
            SELECT
                table_id, version,
                lag(version, 1, 0::bigint)
                    OVER (PARTITION BY table_id ORDER BY transaction_id, position) AS before
            FROM event
        ) AS ordered
        WHERE version <> before + 1
        """,
    )


def test_a_group_that_waits_for_one_table_is_not_overtaken_on_another(
    dsn: str, server: ServerProcess, http: httpx.Client
) -> None:
    first, middle, last = tables_in_the_order_of_their_locks(http, dsn)
    overtaken = f"""
        ({database.WAITING_FOR_A_LOCK}) = 2
        OR EXISTS (SELECT FROM event JOIN lake_table t USING (table_id)
            WHERE t.namespace || '.' || t.name = '{last}' AND type = 'InstantRequested')
    """

    async def race() -> None:
        async with asyncio.TaskGroup() as tasks:
            with database.clock_held(dsn, middle):
                tasks.create_task(run_group(dsn, begin(first), begin(middle), begin(last)))
                await asyncio.to_thread(database.wait_for_waiting, dsn, 1)
                tasks.create_task(run_group(dsn, begin(last)))
                await asyncio.to_thread(database.wait_until, dsn, overtaken)

    asyncio.run(race())

    assert inversions(dsn) == []


def test_a_namespace_dropped_and_made_again_in_one_page_is_rebuilt(
    dsn: str, server: ServerProcess, http: httpx.Client
) -> None:
    rest.succeeded(http.post("/v1/namespaces", json={"name": "a"}))
    table = rest.make_table(http, "b.orders")

    async def fill_a_page() -> None:
        await asyncio.gather(*(run_group(dsn, *[begin(table.name)] * 100) for _ in range(10)))

    asyncio.run(fill_a_page())
    assert http.delete("/v1/namespaces/a").status_code == 204
    rest.succeeded(http.post("/v1/namespaces", json={"name": "a"}))
    before = database.contents(dsn, *database.PROJECTIONS)

    run("rebuild", "--dsn", dsn).check_returncode()

    assert database.contents(dsn, *database.PROJECTIONS) == before


def test_a_namespace_dropped_and_made_again_in_one_group_is_there(dsn: str, http: httpx.Client) -> None:
    rest.succeeded(http.post("/v1/namespaces", json={"name": "a"}))

    drop = namespaces.DropNamespace("a")
    make = namespaces.CreateNamespace("a", {"owner": "new"})

    asyncio.run(run_group(dsn, drop, make))

    assert rest.succeeded(http.get("/v1/namespaces/a"))["properties"] == {"owner": "new"}
