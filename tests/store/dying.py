"""A session whose connection is severed at a step of the test's choice, as if PostgreSQL had died there."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import cast

import psycopg
from typing_extensions import override

from chronolake_metastore.store.postgres.connections import BoundedConnection, StatementResult
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.postgres.transaction import Session, Statement, Transaction


class DyingSession(Session):
    """Runs transactions. A test chooses the statement of the next one at which the connection is severed.

    ``sever`` ends the server process of that id.
    """

    def __init__(self, database: Database, sever: Callable[[int], None]) -> None:
        super().__init__(database)
        self._sever = sever
        self._steps: int | None = None

    def die_at(self, step: int) -> None:
        """Sever the connection of the next transaction before one of its statements, or right after it.

        Of its 2 n steps the even ones are before statement step / 2, counted from BEGIN, the odd ones after it;
        of a transaction that has fewer steps, the answer to its COMMIT is lost.
        """
        self._steps = step

    def live_on(self) -> None:
        """Sever nothing any more."""
        self._steps = None

    @override
    @asynccontextmanager
    async def begin(self) -> AsyncIterator[Transaction]:
        try:
            async with super().begin() as tx:
                yield tx
        finally:
            self._steps = None

    @override
    async def _connected(self) -> BoundedConnection:
        connection = await super()._connected()
        if self._steps is None:
            return connection
        return cast(BoundedConnection, _Dying(connection, self._steps, self._sever))


class _Dying:
    """As much of a connection as a transaction uses."""

    def __init__(self, connection: BoundedConnection, steps: int, sever: Callable[[int], None]) -> None:
        self._connection = connection
        self._steps = steps
        self._sever = sever
        self._process = connection.info.backend_pid

    async def run_together(self, statements: Iterable[Statement]) -> list[StatementResult]:
        results = []
        for statement in statements:
            self._step()
            results += await self._connection.run_together([statement])
            self._step()
        if results and results[-1].tag == "COMMIT":
            self._sever(self._process)
            raise psycopg.OperationalError("the answer is lost")
        return results

    async def rollback(self) -> None:
        await self._connection.rollback()

    def _step(self) -> None:
        if self._steps == 0:
            self._sever(self._process)
        self._steps -= 1
