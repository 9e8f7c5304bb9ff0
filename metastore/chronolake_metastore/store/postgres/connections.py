"""Connections to PostgreSQL with a bound on every wait.

PostgreSQL ends statements that take too long, and TCP notices a machine that is gone. Neither helps against a
database that is frozen while its machine answers: a paused virtual machine, a storage that hangs, a proxy that
lost its other side.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Iterable, Mapping
from typing import Any

import psycopg
from psycopg.rows import TupleRow

from chronolake_metastore.store.postgres.pipelines import Pipeline, StatementResult


class BoundedConnection(psycopg.AsyncConnection[TupleRow]):
    """A connection that is closed if the database is silent for longer than ``silent_seconds``.

    Its last statements may have been executed.
    """

    silent_seconds: float | None = None
    _pipelined: Pipeline | None = None

    async def run_together(self, statements: Iterable[tuple[str, Mapping[str, Any]]]) -> list[StatementResult]:
        """Run ``statements`` in their order, in one round trip, and give the answer to each.

        Raises the error of the first that fails; those after it are not run.
        """
        if self._pipelined is None:
            self._pipelined = Pipeline(self)
        return await self._pipelined.run(statements)

    async def wait(self, *args: Any, **kwargs: Any) -> Any:  # type: ignore[explicit-override]
        """Every wait of psycopg for a connection passes through here."""
        if self.silent_seconds is None:
            return await super().wait(*args, **kwargs)
        hanging_up = asyncio.get_running_loop().call_later(self.silent_seconds, self._hang_up)
        try:
            return await super().wait(*args, **kwargs)
        finally:
            hanging_up.cancel()

    def _hang_up(self) -> None:
        # A task that waits reads the end of the stream, as if the database had died; the rest is the same. To
        # cancel the task instead would have psycopg ask the silent database to cancel, and wait for that.
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(self.pgconn.socket)) as line:
            line.shutdown(socket.SHUT_RDWR)
