"""The way to PostgreSQL: connections for groups of commands, a pool for reading, and what its errors mean."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import psycopg
import sqlalchemy
from psycopg import errors as postgres_errors
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from chronolake_metastore import errors
from chronolake_metastore.settings import Settings

LOCK_TIMEOUT_MS = 10_000
STATEMENT_TIMEOUT_MS = 60_000
CONNECT_TIMEOUT_SECONDS = 5

_LOST = (
    psycopg.InterfaceError,
    postgres_errors.AdminShutdown,
    postgres_errors.CannotConnectNow,
    postgres_errors.ConnectionException,
    postgres_errors.CrashShutdown,
    postgres_errors.DeadlockDetected,
    postgres_errors.LockNotAvailable,
    postgres_errors.QueryCanceled,
    # A failover left us with a standby.
    postgres_errors.ReadOnlySqlTransaction,
    postgres_errors.SerializationFailure,
    postgres_errors.TooManyConnections,
)


def conninfo(settings: Settings) -> str:
    """The DSN with what every connection of the server has: its role, its schema, its limits."""
    given = conninfo_to_dict(settings.dsn)
    options = " ".join(
        f"-c {name}={value}"
        for name, value in {
            "role": settings.role,
            "search_path": "chronolake",
            "timezone": "UTC",
            "lock_timeout": LOCK_TIMEOUT_MS,
            "statement_timeout": STATEMENT_TIMEOUT_MS,
        }.items()
    )
    given["options"] = f"{given.get('options') or ''} {options}".strip()
    given.setdefault("connect_timeout", CONNECT_TIMEOUT_SECONDS)
    given.setdefault("application_name", "chronolake-metastore")
    return make_conninfo("", **given)


@contextmanager
def database_errors() -> Iterator[None]:
    """Turn what PostgreSQL says when it is away or too busy into ``DatabaseUnavailable``.

    Anything else is a bug, and passes through.
    """
    try:
        yield
    except sqlalchemy.exc.DBAPIError as exc:
        if exc.connection_invalidated or _is_away(exc.orig):
            raise _unavailable(exc) from exc
        raise
    except (psycopg.Error, OSError, sqlalchemy.exc.TimeoutError) as exc:
        if isinstance(exc, psycopg.Error) and not _is_away(exc):
            raise
        raise _unavailable(exc) from exc


def _is_away(exc: BaseException | None) -> bool:
    # An OperationalError without a SQLSTATE is libpq's own: the connection is gone or was never made.
    return isinstance(exc, _LOST) or (isinstance(exc, psycopg.OperationalError) and exc.sqlstate is None)


def _unavailable(exc: BaseException) -> errors.DatabaseUnavailable:
    reason = str(exc).strip().splitlines()[0] if str(exc).strip() else type(exc).__name__
    return errors.DatabaseUnavailable(
        "the server cannot reach its database; send the request again, with the same idempotency key",
        reason=reason,
    )


Reader = AsyncConnection
"""What queries read through; only the store looks inside."""


class Database:
    """One PostgreSQL database, as the server uses it."""

    def __init__(self, settings: Settings) -> None:
        self._conninfo = conninfo(settings)
        self._engine: AsyncEngine = create_async_engine(
            "postgresql+psycopg://",
            async_creator=self.connect,
            pool_size=settings.pool_size,
            max_overflow=0,
            pool_timeout=10,
            pool_pre_ping=True,
            isolation_level="REPEATABLE READ",
        )

    async def connect(self) -> psycopg.AsyncConnection[psycopg.rows.TupleRow]:
        """A connection of one's own; raises ``DatabaseUnavailable``."""
        return await psycopg.AsyncConnection.connect(self._conninfo, prepare_threshold=1)

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        """A transaction for reading, which sees one moment of the database through all its statements."""
        with database_errors():
            async with self._engine.connect() as connection:
                yield connection

    @asynccontextmanager
    async def autocommit(self) -> AsyncIterator[AsyncConnection]:
        """A connection on which each statement is a transaction of its own, READ COMMITTED."""
        with database_errors():
            async with self._engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
                yield connection

    async def close(self) -> None:
        """Give the pool's connections back."""
        await self._engine.dispose()


async def revision(connection: AsyncConnection) -> str | None:
    """The revision that the database's schema has; none when it was never migrated."""
    exists = await connection.execute(text("SELECT to_regclass('chronolake.alembic_version') IS NOT NULL"))
    if not exists.scalar_one():
        return None
    found = await connection.execute(text("SELECT version_num FROM chronolake.alembic_version"))
    return found.scalar_one_or_none()


async def xmin_age(connection: AsyncConnection) -> int:
    """Transactions since the oldest one that is still open; a reader of the log must not pass it."""
    age = await connection.execute(
        text(
            "SELECT pg_snapshot_xmax(snapshot)::text::bigint - pg_snapshot_xmin(snapshot)::text::bigint"
            " FROM pg_current_snapshot() AS snapshot"
        )
    )
    return int(age.scalar_one())
