"""Statements that are sent together have the same results as sent one by one."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator

import psycopg
import pytest
from psycopg import errors
from psycopg.pq import TransactionStatus
from psycopg.rows import TupleRow

from chronolake_metastore.settings import Settings
from chronolake_metastore.store.postgres import connections
from chronolake_metastore.store.postgres.connections import BoundedConnection
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.postgres.transaction import Query, Statement, Transaction
from tests.processes import wait_until

pytestmark = pytest.mark.anyio

TABLE: Statement = ("CREATE TEMPORARY TABLE t (n bigint CONSTRAINT t_once UNIQUE)", {})
INSERT = "INSERT INTO t VALUES (%(n)s)"
SUM: Statement = ("SELECT sum(n)::bigint FROM t", {})


@pytest.fixture
async def connection(dsn: str) -> AsyncIterator[BoundedConnection]:
    database = Database(Settings(dsn=dsn))
    connection = await database.connect()
    await connection.set_autocommit(True)
    yield connection
    await connection.close()
    await database.close()


async def test_results_come_in_order_with_rows_and_tag(connection: BoundedConnection) -> None:
    results = await connection.run_together([TABLE, (INSERT, {"n": 1}), (INSERT, {"n": 2}), SUM])
    assert [result.tag for result in results] == ["CREATE TABLE", "INSERT 0 1", "INSERT 0 1", "SELECT 1"]
    assert [result.rows for result in results] == [[], [], [], [(3,)]]


async def test_values_come_back_as_they_went(connection: BoundedConnection) -> None:
    values = {
        "flag": True,
        "number": -(2**62),
        "text": "naïve % \U0001f600",
        "octets": b"\x00\xff",
        "key": uuid.uuid4(),
        "nothing": None,
        "numbers": [1, None, 2**40],
        "texts": ["a", None, '{"}'],
    }
    sql = (
        "SELECT %(flag)s::boolean, %(number)s::bigint, %(text)s::text, %(octets)s::bytea, %(key)s::uuid,"
        " %(nothing)s::text, %(numbers)s::bigint[], %(texts)s::text[]"
    )
    [result] = await connection.run_together([(sql, values)])
    assert result.rows == [tuple(values.values())]


async def test_a_parameter_may_stand_twice_and_a_percent_sign_for_itself(
    connection: BoundedConnection,
) -> None:
    statement = ("SELECT %(n)s::int, 7 %% %(n)s::int, %(m)s::int + %(n)s::int", {"m": 1, "n": 5})
    [result] = await connection.run_together([statement])
    assert result.rows == [(5, 2, 6)]


@pytest.mark.parametrize("numbers", [(1, 40_000, 2**40, 1), (2**40, 1)])
async def test_a_number_may_be_of_any_size_each_time(
    connection: BoundedConnection, numbers: tuple[int, ...]
) -> None:
    again = [await connection.run_together([("SELECT %(n)s::bigint", {"n": n})]) for n in numbers]
    assert [result.rows for [result] in again] == [[(n,)] for n in numbers]


async def test_the_first_error_is_raised_and_no_later_statement_is_run(connection: BoundedConnection) -> None:
    await connection.run_together([TABLE, (INSERT, {"n": 1})])
    with pytest.raises(errors.UniqueViolation) as caught:
        await connection.run_together(
            [(INSERT, {"n": 2}), (INSERT, {"n": 1}), ("SELECT 1 / 0", {}), (INSERT, {"n": 4})]
        )
    assert caught.value.diag.constraint_name == "t_once"
    [result] = await connection.run_together([SUM])
    assert result.rows == [(1,)], "those before it were of the same, implicit transaction"


async def test_a_statement_that_could_not_be_prepared_may_be_retried(connection: BoundedConnection) -> None:
    for _ in range(2):
        with pytest.raises(errors.UndefinedTable):
            await connection.run_together([SUM])
    [_, result] = await connection.run_together([TABLE, SUM])
    assert result.rows == [(None,)]


async def test_a_failed_transaction_is_rolled_back_and_the_next_succeeds(connection: BoundedConnection) -> None:
    await connection.run_together([TABLE])
    with pytest.raises(errors.DivisionByZero):
        await connection.run_together([("BEGIN", {}), (INSERT, {"n": 1}), ("SELECT 1 / 0", {})])
    assert connection.info.transaction_status is TransactionStatus.INERROR
    await connection.rollback()
    *_, result = await connection.run_together([("BEGIN", {}), (INSERT, {"n": 1}), ("COMMIT", {}), SUM])
    assert result.rows == [(1,)]


async def test_very_much_may_go_both_ways_at_once(connection: BoundedConnection) -> None:
    text = "x" * 4_000_000
    results = await connection.run_together([("SELECT %(text)s::text", {"text": text})] * 8)
    assert {result.rows[0][0] == text for result in results} == {True}


async def test_a_connection_that_is_severed_is_lost(connection: BoundedConnection, dsn: str) -> None:
    process = connection.info.backend_pid
    waiting = asyncio.create_task(connection.run_together([TABLE, ("SELECT pg_sleep(60)", {}), SUM]))
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as admin:
        await until_active(admin, process)
        await admin.execute("SELECT pg_terminate_backend(%s)", [process])
    with pytest.raises(psycopg.OperationalError):
        await waiting
    assert connection.broken


async def test_a_connection_that_was_closed_while_it_waited_is_lost_with_the_reason(
    connection: BoundedConnection, dsn: str
) -> None:
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as admin:
        await admin.execute("SELECT pg_terminate_backend(%s, 10000)", [connection.info.backend_pid])
    with pytest.raises(errors.AdminShutdown, match="due to administrator command"):
        await connection.run_together([])
    assert connection.broken


async def test_a_commit_at_the_end_that_fails_is_raised(connection: BoundedConnection) -> None:
    late = "CREATE TEMPORARY TABLE late (n bigint UNIQUE DEFERRABLE INITIALLY DEFERRED)"
    await connection.run_together([(late, {})])
    insert = "INSERT INTO late VALUES (%(n)s)"
    with pytest.raises(errors.UniqueViolation):
        await connection.run_together([(insert, {"n": 1}), (insert, {"n": 1})])
    [_, result] = await connection.run_together([(insert, {"n": 1}), ("SELECT n FROM late", {})])
    assert result.rows == [(1,)]


async def test_a_connection_with_abandoned_answers_is_discarded(
    connection: BoundedConnection, dsn: str
) -> None:
    process = connection.info.backend_pid
    waiting = asyncio.create_task(connection.run_together([("SELECT pg_sleep(60)", {})]))
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as admin:
        await until_active(admin, process)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert connection.broken


async def until_active(admin: psycopg.AsyncConnection[tuple[object, ...]], process: int) -> None:
    """Wait until a server process runs its statement."""
    active = "SELECT FROM pg_stat_activity WHERE pid = %s AND wait_event = 'PgSleep'"
    async with asyncio.timeout(20):
        while not (await admin.execute(active, [process])).rowcount:  # noqa: ASYNC110 - PostgreSQL signals no event
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("length", [0, 100_000])
async def test_a_large_statement_runs_while_the_next_one_is_made(
    connection: BoundedConnection, dsn: str, length: int
) -> None:
    def statements(observer: psycopg.Connection[TupleRow]) -> Iterator[Statement]:
        locked = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 7"

        def is_locked() -> bool:
            [[locks]] = observer.execute(locked).fetchall()
            return bool(locks)

        yield "SELECT pg_advisory_lock(7), length(%(text)s)", {"text": "x" * length}
        if length:
            wait_until(is_locked)
        else:
            assert not is_locked()
        yield "SELECT 2", {}

    with psycopg.connect(dsn, autocommit=True) as observer:
        _, second = await connection.run_together(statements(observer))

    assert second.rows == [(2,)]


async def test_a_transaction_sends_nothing_for_what_is_known(connection: BoundedConnection) -> None:
    tx = Transaction(connection, is_open=False)

    await tx.fetch([])
    await tx.fetch([Query.known(1)])

    assert connection.pgconn.transaction_status == TransactionStatus.IDLE
    assert await tx.fetch_one(Query("SELECT 2", {}, lambda rows: rows[0][0])) == 2
    await connection.rollback()


async def prepared(connection: BoundedConnection) -> int:
    [answered] = await connection.run_together([("SELECT count(*) FROM pg_prepared_statements", {})])
    return int(answered.rows[0][0])


async def test_prepared_statements_are_bounded(
    connection: BoundedConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "PREPARED_MAX", 10)
    for number in range(25):
        [answered] = await connection.run_together([(f"SELECT {number} + %(n)s::bigint", {"n": 1})])
        assert answered.rows == [(number + 1,)]
        assert await prepared(connection) <= 11


async def test_a_long_statement_is_not_kept(connection: BoundedConnection) -> None:
    before = await prepared(connection)
    long = f"SELECT %(n)s::bigint /* {'x' * connections.KEPT_LENGTH_MAX} */"
    answered = await connection.run_together([(long, {"n": 1}), ("SELECT 2", {}), (long, {"n": 3})])
    assert [result.rows for result in answered] == [[(1,)], [(2,)], [(3,)]]
    assert await prepared(connection) == before + 1


async def test_an_array_may_be_none_or_text(connection: BoundedConnection) -> None:
    statement = "SELECT %(ids)s::bigint[], %(ids)s::bigint[] IS NULL"
    for ids, expected in (
        (None, (None, True)),
        ("{1,2}", ([1, 2], False)),
        ([], ([], False)),
        ([3], ([3], False)),
    ):
        [answered] = await connection.run_together([(statement, {"ids": ids})])
        assert answered.rows == [expected]
