"""One transaction of one group of commands: take the locks, read, append and project, commit.

READ COMMITTED, and the lock before everything that is read: under REPEATABLE READ the snapshot would be older
than the lock (design.md section 4). Statements of one step travel together (libpq's pipeline), so that a
group costs a few round trips however many commands it has.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import psycopg
from psycopg import errors as postgres_errors

from chronolake_metastore import errors
from chronolake_metastore.store import arrays, engine
from chronolake_metastore.store.connections import Connection

Statement = tuple[str, Mapping[str, Any]]
Rows = list[tuple[Any, ...]]

_OUTCOME_UNIQUE = "outcome_request_unique"
_STREAMED_ROWS = 10_000


class OutcomeRaced(Exception):
    """Another transaction has recorded a request id of the group; run the group again and it is found."""


class Transaction:
    """An open transaction. ``batch`` sends statements together and gives the rows of each."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def batch(self, statements: Sequence[Statement]) -> list[Rows]:
        """Run ``statements`` in their order, in one round trip."""
        async with self._connection.pipeline():
            cursors = [
                await self._connection.execute(sql, arrays.bind(sql, parameters))
                for sql, parameters in statements
            ]
        return [await cursor.fetchall() if cursor.description else [] for cursor in cursors]

    async def query(self, sql: str, parameters: Mapping[str, Any]) -> Rows:
        """Run one statement and give its rows."""
        return (await self.batch([(sql, parameters)]))[0]

    async def stream(self, sql: str, parameters: Mapping[str, Any]) -> AsyncIterator[tuple[Any, ...]]:
        """Run one statement and give its rows one by one, however many there are."""
        async with self._connection.cursor(name="rows") as cursor:
            cursor.itersize = _STREAMED_ROWS
            await cursor.execute(sql, arrays.bind(sql, parameters))
            async for row in cursor:
                yield row


class Session:
    """A connection that runs one transaction after the other, and is made anew when it was lost.

    It counts as lost, too, when the database says nothing for ``silent_seconds``.
    """

    def __init__(self, database: engine.Database, silent_seconds: float | None = None) -> None:
        self._database = database
        self._silent_seconds = silent_seconds
        self._connection: Connection | None = None

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[Transaction]:
        """A transaction that commits at the end of the block, and rolls back when the block raises.

        Raises ``DatabaseUnavailable`` when the connection is lost, in which case it is unknown whether the
        transaction committed; and ``OutcomeRaced``.
        """
        try:
            with engine.database_errors():
                connection = await self._connected()
                async with connection.transaction() as transaction:
                    yield Transaction(connection)
                if transaction.status is not transaction.Status.COMMITTED:
                    raise psycopg.OperationalError("the connection was lost before the commit")
        except errors.DatabaseUnavailable:
            # The next transaction connects anew: after a failover the address may lead elsewhere.
            await self.close()
            raise
        except postgres_errors.UniqueViolation as exc:
            if exc.diag.constraint_name != _OUTCOME_UNIQUE:
                raise
            raise OutcomeRaced from exc

    async def close(self) -> None:
        """Close the connection, if there is one."""
        if self._connection is not None:
            await self._connection.close()
            self._connection = None

    async def _connected(self) -> Connection:
        if self._connection is not None and self._connection.broken:
            await self.close()
        if self._connection is None:
            self._connection = await self._database.connect(self._silent_seconds)
        return self._connection
