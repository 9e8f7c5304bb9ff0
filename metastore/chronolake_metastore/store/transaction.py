"""One transaction of one group of commands: take the locks, read, append and project, commit.

The transaction is READ COMMITTED, and it takes the locks before it reads: under REPEATABLE READ the snapshot
would be older than the locks (docs/architecture.md#commands). Statements of one step travel together (libpq's
pipeline), so that a group costs a few round trips, whatever its number of commands.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import psycopg

from chronolake_metastore import errors
from chronolake_metastore.store import arrays, engine, schema
from chronolake_metastore.store.connections import BoundedConnection

Statement = tuple[str, Mapping[str, Any]]
Rows = list[tuple[Any, ...]]

_OUTCOME_UNIQUE = "outcome_request_unique"
_NO_LATE_MARKER = "marker_seen"
_STREAMED_ROWS = 10_000
_REFUSE_UNKNOWN_SCHEMA: Statement = ("SELECT refuse_unknown_schema(%(known)s)", {"known": schema.REVISION})
_BEGIN: Statement = ("BEGIN ISOLATION LEVEL READ COMMITTED", {})
_COMMIT: Statement = ("COMMIT", {})


class OutcomeRaced(Exception):
    """Another transaction has recorded a request id of the group; run the group again and it is found."""


class MarkedMeanwhile(Exception):
    """An instant that was to end without markers has got some; run the group again and they are found."""


class Transaction:
    """An open transaction, or one that its first statements open: of the latter ``commit`` makes an end."""

    def __init__(self, connection: BoundedConnection, *, is_open: bool = True) -> None:
        self._connection = connection
        self._is_open = is_open

    async def batch(self, statements: Sequence[Statement | None]) -> list[Rows]:
        """Run ``statements`` in their order, in one round trip; none of them has rows where there is none."""
        wanted = [statement for statement in statements if statement is not None]
        opening = [] if self._is_open else [_BEGIN]
        self._is_open = True
        answered = iter((await self._connection.run_together([*opening, *wanted]))[len(opening) :])
        return [[] if statement is None else next(answered).rows for statement in statements]

    async def commit(self, statements: Sequence[Statement] = ()) -> None:
        """Run the last ``statements`` and commit, in one round trip. Nothing may be run after it.

        The last of all asks which schema the database has. A migration that came before has committed, one that
        comes after waits for what was written here: so no server writes rows of a schema that it does not know.
        """
        if not self._is_open:
            return
        *_, committed = await self._connection.run_together([*statements, _REFUSE_UNKNOWN_SCHEMA, _COMMIT])
        self._is_open = False
        if committed.tag != "COMMIT":
            raise psycopg.OperationalError(f"the commit was answered {committed.tag}")

    async def query(self, sql: str, parameters: Mapping[str, Any]) -> Rows:
        """Run one statement and give its rows."""
        return (await self.batch([(sql, parameters)]))[0]

    async def stream(self, sql: str, parameters: Mapping[str, Any]) -> AsyncIterator[tuple[Any, ...]]:
        """Run one statement and give its rows one by one, however many there are."""
        await self.batch([])
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
        self._connection: BoundedConnection | None = None

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
                case constraint if constraint == _OUTCOME_UNIQUE:
                    raise OutcomeRaced from exc
                case constraint if constraint == _NO_LATE_MARKER:
                    raise MarkedMeanwhile from exc
                case _:
                    await self._database.refuse_unknown_schema(exc)
                    raise

    async def run_alone(self, statement: Statement) -> Rows:
        """Run a statement that is a transaction of its own, in one round trip; raises as ``begin`` does."""
        sql, parameters = statement
        try:
            with self._database.errors():
                connection = await self._connected()
                [answered] = await connection.run_together([(sql, parameters)])
                return answered.rows
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
