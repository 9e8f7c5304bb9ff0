"""Connections that have rested in a pool: those that may have been lost are tested before they are used.

SQLAlchemy's own ``pool_pre_ping`` tests before each use, which is a third of the round trips of a small read.
"""

from __future__ import annotations

import select
import time
from typing import Any, Final, cast

import psycopg
import sqlalchemy
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.pool import ConnectionPoolEntry

RESTED_SECONDS_MAX: Final = 5.0
"""The network may have dropped a connection that has rested for longer."""
_SINCE: Final = "rests_since"


def check(engine: AsyncEngine) -> None:
    """Replace connections of the engine's pool that were lost while they rested, before they are used."""
    dialect = engine.sync_engine.dialect

    @sqlalchemy.event.listens_for(engine.sync_engine, "checkin")
    def rest(_connection: DBAPIConnection | None, entry: ConnectionPoolEntry) -> None:
        entry.info[_SINCE] = time.monotonic()

    @sqlalchemy.event.listens_for(engine.sync_engine, "checkout")
    def use(connection: DBAPIConnection, entry: ConnectionPoolEntry, _used: Any) -> None:
        since = entry.info.pop(_SINCE, None)
        if since is None:  # It is new.
            return
        try:
            if time.monotonic() - since > RESTED_SECONDS_MAX or _has_news(connection):
                dialect.do_ping(connection)
        except dialect.loaded_dbapi.Error as exc:
            raise sqlalchemy.exc.InvalidatePoolError from exc


def _has_news(connection: DBAPIConnection) -> bool:
    """Whether PostgreSQL, or the network, has sent something unasked: most often the end of the connection."""
    psycopg_connection = cast("psycopg.AsyncConnection[Any]", cast("Any", connection).driver_connection)
    poll = select.poll()
    poll.register(psycopg_connection.pgconn.socket, select.POLLIN)
    return bool(poll.poll(0))
