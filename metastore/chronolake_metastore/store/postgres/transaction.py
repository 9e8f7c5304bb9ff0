"""One transaction of one group of commands: take the locks, read, append and project, commit.

The transaction is READ COMMITTED, and it takes the locks before it reads: under REPEATABLE READ the snapshot
would be older than the locks (docs/architecture.md#commands). Statements of one step travel together (libpq's
pipeline), so that a group costs a few round trips, regardless of its number of commands.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import chain
from typing import Any, Generic, TypeVar

import psycopg

from chronolake_metastore import errors
from chronolake_metastore.store.postgres import connections, engine, schema
from chronolake_metastore.store.postgres.connections import BoundedConnection
from chronolake_metastore.store.postgres.pooled import Connection

Statement = tuple[str, Mapping[str, Any]]
Rows = list[tuple[Any, ...]]
ResultT = TypeVar("ResultT")

_OUTCOME_UNIQUE = re.compile(r"outcome_\d+_request_unique")
"""The key of each partition (``begin_era``)."""
_NO_LATE_MARKER = "marker_seen"
_STREAMED_ROWS = 10_000
_REFUSE_UNKNOWN_SCHEMA: Statement = ("SELECT refuse_unknown_schema(%(known)s)", {"known": schema.REVISION})
_BEGIN: Statement = ("BEGIN ISOLATION LEVEL READ COMMITTED", {})
_COMMIT: Statement = ("COMMIT", {})


class Query(Generic[ResultT]):
    """A statement that reads, and its result once a transaction has fetched it."""

    def __init__(self, sql: str, parameters: Mapping[str, Any], decode: Callable[[Rows], ResultT]) -> None:
        self.sql = sql
        self.parameters = parameters
        self.decode = decode
        self.is_known = False
        self._result: list[ResultT] = []

    @classmethod
    def known(cls, result: ResultT) -> Query[ResultT]:
        """A query whose result is known already: no statement is sent for it."""
        query = cls("", {}, lambda _: result)
        query.is_known = True
        query.answer([])
        return query

    def answer(self, rows: Rows) -> None:
        """Decode the rows that the statement gave."""
        self._result = [self.decode(rows)]

    @property
    def result(self) -> ResultT:
        """The decoded rows; the query must have been fetched."""
        [result] = self._result
        return result


async def read(connection: Connection, query: Query[ResultT]) -> ResultT:
    """Run a query on a connection for reading."""
    return query.decode(await connection.execute(query.sql, query.parameters))


def no_rows(rows: Rows) -> None:
    """The result of a statement that gives no rows worth reading, such as a lock."""


class TransactionRaced(Exception):
    """Another transaction came first. Its changes are found when the same commands are run again."""


class OutcomeRaced(TransactionRaced):
    """Another transaction has recorded a request id of the group."""


class MarkedMeanwhile(TransactionRaced):
    """An instant that was to end without markers has got some."""


class Transaction:
    """An open transaction, or one that its first statements open; ``commit`` ends the second kind."""

    def __init__(self, connection: BoundedConnection, *, is_open: bool = True) -> None:
        self._connection = connection
        self._is_open = is_open

    async def batch(self, statements: Sequence[Statement]) -> list[Rows]:
        """Run ``statements`` in their order, in one round trip, and give the rows of each."""
        opening = [] if self._is_open else [_BEGIN]
        self._is_open = True
        answered = await self._connection.run_together([*opening, *statements])
        return [answer.rows for answer in answered[len(opening) :]]

    async def commit(self, statements: Iterable[Statement] = ()) -> None:
        """Run the last ``statements`` and commit, in one round trip. Nothing may be run after it.

        The last of all asks which schema the database has. A migration that came before has committed, one that
        comes after waits for what was written here: so no server writes rows of a schema that it does not know.
        """
        if not self._is_open:
            return
        ending = (_REFUSE_UNKNOWN_SCHEMA, _COMMIT)
        *_, committed = await self._connection.run_together(chain(statements, ending))
        self._is_open = False
        if committed.tag != "COMMIT":
            raise psycopg.OperationalError(f"the commit was answered {committed.tag}")

    async def fetch(self, queries: Sequence[Query[Any]]) -> None:
        """Run ``queries`` in their order, in one round trip; each has its result then."""
        pending = [query for query in queries if not query.is_known]
        if not pending:
            return
        rows = await self.batch([(query.sql, query.parameters) for query in pending])
        for query, rows_of_query in zip(pending, rows, strict=True):
            query.answer(rows_of_query)

    async def fetch_one(self, query: Query[ResultT]) -> ResultT:
        """Run one query and give its result."""
        await self.fetch([query])
        return query.result

    async def query(self, sql: str, parameters: Mapping[str, Any]) -> Rows:
        """Run one statement and give its rows."""
        return (await self.batch([(sql, parameters)]))[0]

    async def stream(
        self, sql: str, parameters: Mapping[str, Any], portion: int = _STREAMED_ROWS
    ) -> AsyncIterator[tuple[Any, ...]]:
        """Run one statement and give its rows one by one, however many there are, fetched in portions."""
        await self.batch([])
        async with self._connection.cursor(name="rows") as cursor:
            cursor.itersize = portion
            await cursor.execute(sql, connections.bind(sql, parameters))
            async for row in cursor:
                yield row


class Session:
    """A connection that runs one transaction after the other, and is made anew when it was lost.

    It counts as lost, too, when the database says nothing for ``silent_seconds``.
    """

    def __init__(self, database: engine.Database, silent_seconds: float | None = None) -> None:
        self._database = database
        self._silent_seconds = silent_seconds
        self._connection: BoundedConnection | None = None

    @property
    def database(self) -> engine.Database:
        """The database of its connection."""
        return self._database

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[Transaction]:
        """A transaction that commits at the end of the block if not before, and rolls back when it raises.

        Raises ``DatabaseUnavailable`` when the connection is lost, in which case it is unknown whether the
        transaction committed; ``SchemaUnknown``, ``OutcomeRaced`` and ``MarkedMeanwhile``.
        """
        try:
            with self._database.errors():
                connection = await self._connected()
                try:
                    tx = Transaction(connection, is_open=False)
                    yield tx
                    await tx.commit()
                except BaseException:
                    await self._roll_back(connection)
                    raise
        except errors.DatabaseUnavailable:
            # The next transaction connects anew: after a failover the address may lead elsewhere.
            await self.close()
            raise
        except psycopg.Error as exc:
            match exc.diag.constraint_name:
                case str() as constraint if _OUTCOME_UNIQUE.fullmatch(constraint):
                    raise OutcomeRaced from exc
                case constraint if constraint == _NO_LATE_MARKER:
                    raise MarkedMeanwhile from exc
                case _:
                    await self._database.refuse_unknown_schema(exc)
                    raise

    async def run_alone(self, query: Query[ResultT]) -> ResultT:
        """Run a query that is a transaction of its own, in one round trip; raises as ``begin`` does."""
        try:
            with self._database.errors():
                connection = await self._connected()
                [answered] = await connection.run_together([(query.sql, query.parameters)])
                return query.decode(answered.rows)
        except errors.DatabaseUnavailable:
            await self.close()
            raise
        except psycopg.Error as exc:
            await self._database.refuse_unknown_schema(exc)
            raise

    async def close(self) -> None:
        """Close the connection, if there is one."""
        if self._connection is not None:
            await self._connection.close()
            self._connection = None

    async def _roll_back(self, connection: BoundedConnection) -> None:
        try:
            await connection.rollback()
        except psycopg.Error:
            # What led here is what counts, and is raised again; the transaction ends with its connection.
            await self.close()

    async def _connected(self) -> BoundedConnection:
        if self._connection is not None and self._connection.broken:
            await self.close()
        if self._connection is None:
            self._connection = await self._database.connect(self._silent_seconds, looks_up=True)
            # Transactions begin and end with statements of their own, which travel with the others.
            await self._connection.set_autocommit(True)
        return self._connection
