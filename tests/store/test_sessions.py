"""Sessions of PostgreSQL: the settings of each connection, and poolers that do not keep sessions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager

import pyarrow as pa
import pytest
from psycopg.conninfo import conninfo_to_dict

from chronolake_metastore import errors
from chronolake_metastore.queries import readiness
from chronolake_metastore.settings import Settings
from chronolake_metastore.store.postgres import sessions
from chronolake_metastore.store.postgres.arrow import ArrowStream
from chronolake_metastore.store.postgres.connections import BoundedConnection
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.postgres.pooled import Connection

pytestmark = pytest.mark.anyio

COMMON = {
    "role": "chronolake_server",
    "search_path": "chronolake",
    "TimeZone": "UTC",
    "jit": "off",
    "lock_timeout": "10s",
}
READS = {"statement_timeout": "1min", "idle_in_transaction_session_timeout": "1min", "enable_seqscan": "on"}
WRITES = {"statement_timeout": "1min", "idle_in_transaction_session_timeout": "15s", "enable_seqscan": "on"}
LOOKS_UP = WRITES | {"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off", "enable_hashjoin": "off"}
Open = Callable[[Database], AbstractAsyncContextManager[Connection]]


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[Database]:
    database = Database(Settings(dsn=dsn, arrow_streams_per_client_max=1))
    yield database
    await database.close()


async def shown(connection: BoundedConnection, names: list[str]) -> dict[str, str]:
    rows = await connection.execute("SELECT n, current_setting(n) FROM unnest(%s::text[]) AS n", [names])
    return dict(await rows.fetchall())


def test_nothing_is_set_in_the_options_of_a_connection() -> None:
    made = sessions.session_settings(Settings(dsn="postgresql://somebody@host/lake"))
    assert "options" not in conninfo_to_dict(made.conninfo)


def test_the_options_of_a_dsn_are_kept() -> None:
    made = sessions.session_settings(
        Settings(dsn="postgresql://host/lake?options=-c%20chronolake.place%3Dhere")
    )
    assert conninfo_to_dict(made.conninfo)["options"] == "-c chronolake.place=here"


@pytest.mark.parametrize(("looks_up", "expected"), [(False, WRITES), (True, LOOKS_UP)])
async def test_a_connection_for_commands_has_its_settings_also_after_a_rollback(
    database: Database, looks_up: bool, expected: dict[str, str]
) -> None:
    async with await database.connect(looks_up=looks_up) as connection:
        await connection.rollback()
        assert await shown(connection, [*COMMON, *expected]) == COMMON | expected


@pytest.mark.parametrize(
    ("connection_of", "expected"),
    [
        (Database.reading, READS),
        (Database.following, READS),
        (Database.probing, READS),
    ],
)
async def test_a_connection_of_a_pool_has_its_settings(
    database: Database, connection_of: Open, expected: dict[str, str]
) -> None:
    names = [*COMMON, *expected]
    async with connection_of(database) as connection:
        rows = await connection.execute(
            "SELECT n, current_setting(n) FROM unnest(%(names)s::text[]) AS n", {"names": names}
        )
        assert {name: value for name, value in rows} == COMMON | expected


async def test_a_connection_for_arrow_has_its_settings(database: Database) -> None:
    expected = COMMON | {"statement_timeout": "15min"}
    columns = ", ".join(f"current_setting('{name}') AS \"{name}\"" for name in expected)
    schema = pa.schema([(name, pa.string()) for name in expected])
    async with ArrowStream(database, f"SELECT {columns}", schema).opened("here") as messages:
        answer = b"".join([message async for message in messages])
    assert pa.ipc.open_stream(answer).read_all().to_pylist() == [expected]
    # Its only slot is free again when its connection is closed.
    await database.stream_slots.take("here")


async def test_a_role_that_is_gone_makes_the_database_unavailable(dsn: str) -> None:
    database = Database(Settings(dsn=dsn, role="dropped_meanwhile"))
    with pytest.raises(errors.DatabaseUnavailable) as refused:
        async with database.reading():
            pass
    assert 'role "dropped_meanwhile" does not exist' in refused.value.context["reason"]


async def test_a_database_whose_connections_keep_their_sessions_is_not_refused(database: Database) -> None:
    await database.refuse_lost_sessions()


async def test_a_pooler_that_gives_one_session_to_two_connections_is_refused(database: Database) -> None:
    opened: list[BoundedConnection] = []

    async def connect() -> BoundedConnection:
        made = await database.connect()
        for other in opened:
            await other.execute(database.streaming.setting_up.encode())
            await other.commit()
        opened.append(made)
        return made

    with pytest.raises(errors.ConfigurationError, match="use session mode"):
        await sessions.refuse_lost(connect)


async def test_a_pooler_that_takes_a_new_session_for_a_statement_is_refused(database: Database) -> None:
    async def connect() -> BoundedConnection:
        made = await database.connect()
        await made.execute("RESET ALL")
        await made.commit()
        return made

    with pytest.raises(errors.ConfigurationError, match="use session mode"):
        await sessions.refuse_lost(connect)


async def test_a_connection_that_lost_its_session_is_not_ready(database: Database) -> None:
    async with database.probing() as connection:
        await connection.execute("RESET ALL")
        await connection.commit()
    with pytest.raises(errors.DatabaseUnavailable, match="does not keep sessions"):
        await readiness.check(database)
