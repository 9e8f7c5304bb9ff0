"""Access to PostgreSQL: connections for groups of commands, a pool for reading, the meaning of errors."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, nullcontext
from typing import Final

import psycopg
import sqlalchemy
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from chronolake_metastore import errors
from chronolake_metastore.settings import Settings
from chronolake_metastore.store.postgres import rested_connections, schema, sessions
from chronolake_metastore.store.postgres.connections import BoundedConnection
from chronolake_metastore.store.postgres.outages import Outages
from chronolake_metastore.store.postgres.pooled import Connection
from chronolake_metastore.store.postgres.sessions import SessionSettings, session_settings
from chronolake_metastore.store.postgres.stream_slots import StreamSlots
from chronolake_model import base_paths

READING_IDLE_TIMEOUT_MS = 60_000
"""How long a transaction that reads may be idle. It holds a snapshot and nothing that others wait for.

The server can be slow between two statements of a read: the text of the largest filter takes a second of a
processor that is not busy.
"""
WHOLE_LOG_IDLE_TIMEOUT_MS = 10 * 60_000
"""The same for programs that read the whole log. An archiver has low priority and waits for a processor."""
STREAM_TIMEOUT_MS = 15 * 60_000
"""A large answer takes as long as its reader does; one that stopped reading must not hold its rows for ever."""
SILENT_SECONDS_MAX = sessions.STATEMENT_TIMEOUT_MS / 1_000 + 10.0
"""By then PostgreSQL would have ended any statement itself."""
PROBE_SILENT_SECONDS = 2.0
PROBING_CONNECTIONS = 2
PUBLICATION_PAGES_MAX = 2
"""Pages of steps of publications that are made at a time: one with 100,000 files takes 250 MB."""
IDENTIFYING_CONNECTIONS = 3
"""Connections for the identification of callers, which must not wait for the reads of others."""
IDENTIFYING_SECONDS_MAX: Final = 5.0
"""The longest statement of an identification: it finds one row by its key."""
FOLLOWING_CONNECTIONS = 3
"""Connections for following the log: one for its tail, two for streams that catch up."""
ELECTING_CONNECTIONS = 3
"""Connections for elections: one for each worker that has a leader."""

# SQLSTATEs, and classes of them, that are not caused by the request: the connection is lost, the database
# stops, is full, is a standby after a failover, or another transaction held a lock for too long.
_AWAY_CLASSES = ("08", "40", "53", "57P")
_AWAY_STATES = frozenset({"25006", "25P03", "25P04", "55P03", "57014"})


_LOOKING_UP: Final = {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
}
"""Groups of commands find and change rows by their keys: one plan for each statement, made once.

A plan that followed statistics would read whole tables while they grow faster than statistics are taken.
"""

_SECRETS: Final = frozenset({"password", "sslpassword", "oauth_client_secret"})


def _idle_for(timeout_ms: int) -> dict[str, str | int]:
    return {"idle_in_transaction_session_timeout": timeout_ms}


def shown_conninfo(settings: Settings) -> str:
    """The DSN with its role and without passwords, for other programs, which find these as libpq does."""
    given = {name: value for name, value in conninfo_to_dict(settings.dsn).items() if name not in _SECRETS}
    given["options"] = f"{given.get('options') or ''} -c role={settings.role}".strip()
    return make_conninfo("", **given)


@contextmanager
def database_errors() -> Iterator[None]:
    """Turn PostgreSQL's errors for an outage or overload into ``DatabaseUnavailable``.

    Anything else is a bug, and passes through.
    """
    try:
        yield
    except sqlalchemy.exc.DBAPIError as exc:
        if exc.connection_invalidated or _is_away(exc.orig):
            raise unavailable(exc) from exc
        raise
    except (psycopg.Error, OSError, sqlalchemy.exc.TimeoutError) as exc:
        if isinstance(exc, psycopg.Error) and not _is_away(exc):
            raise
        raise unavailable(exc) from exc


def _is_away(exc: BaseException | None) -> bool:
    if not isinstance(exc, psycopg.Error):
        return False
    if exc.sqlstate is None:
        # libpq's own: the connection is gone or was never made.
        return isinstance(exc, psycopg.OperationalError | psycopg.InterfaceError)
    return is_away_state(exc.sqlstate)


def _is_lost(exc: BaseException) -> bool:
    """Whether a failure is that of the connection, and not of a statement."""
    cause = exc.orig if isinstance(exc, sqlalchemy.exc.DBAPIError) else exc
    if not isinstance(cause, psycopg.Error):
        return isinstance(cause, OSError)
    return cause.sqlstate is None or cause.sqlstate.startswith(("08", "57P"))


def is_away_state(sqlstate: str) -> bool:
    """Whether a SQLSTATE is not caused by the request: the database is unavailable, full, or too busy."""
    return sqlstate in _AWAY_STATES or sqlstate.startswith(_AWAY_CLASSES)


def unavailable(exc: BaseException) -> errors.DatabaseUnavailable:
    """The message to a caller when the database is unavailable."""
    failure = errors.ConnectionLost if _is_lost(exc) else errors.DatabaseUnavailable
    return failure(
        "the server cannot reach its database; send the request again, with the same idempotency key",
        reason=_reason(exc),
    )


def _reason(exc: BaseException) -> str:
    lines = str(exc).strip().splitlines()
    return lines[0] if lines else type(exc).__name__


_BEGIN_READING: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_BEGIN_PROBING: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ"
_BEGIN_NOTE: Final = "BEGIN ISOLATION LEVEL READ COMMITTED"


class Database:
    """One PostgreSQL database, as the server uses it."""

    def __init__(self, settings: Settings, open_archive: Callable[[], object | None] = lambda: None) -> None:
        """``open_archive`` opens the archive from which ``store.archived`` reads history."""
        self._open_archive = open_archive
        self.page_bytes_max = settings.page_bytes_max
        """Where pages of lists end, unless their limit of entries comes first."""
        self.default_locations = [base_paths.parse(location).address for location in settings.locations]
        """The locations of namespaces that have no list of their own."""
        self._outages = Outages()
        self._writing = session_settings(settings)
        self._looking_up = session_settings(settings, parameters=_LOOKING_UP)
        reading = session_settings(settings, parameters=_idle_for(READING_IDLE_TIMEOUT_MS))
        self._reading_whole_log = session_settings(settings, parameters=_idle_for(WHOLE_LOG_IDLE_TIMEOUT_MS))
        self.streaming = session_settings(settings, parameters={"statement_timeout": STREAM_TIMEOUT_MS})
        """For large answers, which are read through another driver than psycopg."""
        self.stream_slots = StreamSlots(settings)
        """One is held by each of them."""
        self.publication_slots = asyncio.Semaphore(PUBLICATION_PAGES_MAX)
        """One is held while a page of steps of a publication is made."""
        self.history_thread = ThreadPoolExecutor(1, "archived-history")
        """Reads history in the archive, one question after the other."""
        self.outcomes_thread = ThreadPoolExecutor(1, "archived-outcomes")
        """The same for outcomes, which commands wait for."""
        self.asking: Callable[[], AbstractAsyncContextManager[None]] = nullcontext
        """It is entered while a query waits for the archive."""
        self._engine = self._pool(reading, settings.pool_size, SILENT_SECONDS_MAX)
        self._probing = self._pool(reading, PROBING_CONNECTIONS, PROBE_SILENT_SECONDS)
        identifying = session_settings(
            settings, parameters={"statement_timeout": int(IDENTIFYING_SECONDS_MAX * 1_000)}
        )
        self._identifying = self._pool(identifying, IDENTIFYING_CONNECTIONS, IDENTIFYING_SECONDS_MAX + 1.0)
        self._following = self._pool(reading, FOLLOWING_CONNECTIONS, SILENT_SECONDS_MAX)
        self._electing = self._pool(reading, ELECTING_CONNECTIONS, SILENT_SECONDS_MAX)

    @functools.cached_property
    def archive(self) -> object | None:
        """The archive that has what has left the database; it is opened when it is needed."""
        return self._open_archive()

    def _pool(self, settings: SessionSettings, size: int, silent_seconds: float) -> AsyncEngine:
        engine = create_async_engine(
            "postgresql+psycopg://",
            async_creator=lambda: self._connect_pooled(settings, silent_seconds),
            pool_size=size,
            max_overflow=0,
            pool_timeout=10,
            # The connection that was used last has its statements prepared.
            pool_use_lifo=True,
            # Transactions begin by a statement of their own.
            isolation_level="AUTOCOMMIT",
        )
        rested_connections.check(engine)
        return engine

    async def connect(
        self, silent_seconds: float | None = None, *, looks_up: bool = False
    ) -> BoundedConnection:
        """A connection outside of the pool, closed when it is silent for ``silent_seconds``.

        Raises ``DatabaseUnavailable``. One that ``looks_up`` finds all rows by their keys.
        """
        return await self._connect(self._looking_up if looks_up else self._writing, silent_seconds)

    async def connect_for_whole_log(self) -> BoundedConnection:
        """A connection that may rest between two statements; raises ``DatabaseUnavailable``."""
        return await self._connect(self._reading_whole_log, None)

    async def _connect_pooled(self, settings: SessionSettings, silent_seconds: float) -> BoundedConnection:
        made = await self._connect(settings, silent_seconds)
        # psycopg would discard all prepared statements when the pool rolls back.
        made.prepare_threshold = None
        return made

    async def _connect(self, settings: SessionSettings, silent_seconds: float | None) -> BoundedConnection:
        try:
            made = await sessions.connect(settings, silent_seconds)
        except psycopg.Error as exc:
            self._outages.unreachable(_reason(exc))
            if isinstance(exc, psycopg.OperationalError):
                raise
            # The role was dropped, or is not granted any more.
            raise psycopg.OperationalError(_reason(exc)) from exc
        self._outages.connected()
        return made

    @contextmanager
    def errors(self) -> Iterator[None]:
        """As ``database_errors``; a connection that is lost is logged, once for each outage."""
        try:
            with database_errors():
                yield
        except errors.ConnectionLost as exc:
            self._outages.lost(exc.context["reason"])
            raise

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[Connection]:
        """A transaction that PostgreSQL lets only read. All its statements see one moment of the database."""
        async with self._reading_from(self._engine, _BEGIN_READING) as connection:
            yield connection

    @asynccontextmanager
    async def identifying(self) -> AsyncIterator[Connection]:
        """As ``watching``, for identifying callers: on connections of its own, for short statements."""
        async with self._reading_from(self._identifying) as connection:
            yield connection

    @asynccontextmanager
    async def _reading_from(self, pool: AsyncEngine, begin: str | None = None) -> AsyncIterator[Connection]:
        try:
            async with self._pooled(pool, begin) as connection:
                yield connection
        except psycopg.Error as exc:
            await self.refuse_unknown_schema(exc)
            raise

    @asynccontextmanager
    async def _pooled(self, pool: AsyncEngine, begin: str | None = None) -> AsyncIterator[Connection]:
        """A connection of a pool, which rolls back what is not committed. ``begin`` begins a transaction."""
        with self.errors():
            async with pool.connect() as pooled:
                made = (await pooled.get_raw_connection()).driver_connection
                assert isinstance(made, BoundedConnection)
                try:
                    yield Connection(made, begin)
                finally:
                    if made.closed:
                        await pooled.invalidate()

    async def refuse_unknown_schema(self, failure: Exception) -> None:
        """Raise ``SchemaUnknown`` when a statement failed because the database was migrated meanwhile."""
        async with self.probing() as connection:
            found_revision = await revision(connection)
        if found_revision != schema.REVISION:
            raise errors.SchemaUnknown(
                "the database was migrated, and this server does not know its schema; send the request again, "
                "with the same idempotency key, to a server of the release that migrated it",
                found=found_revision,
                known=schema.REVISION,
            ) from failure

    @asynccontextmanager
    async def following(self) -> AsyncIterator[Connection]:
        """As ``watching``, for followers of the log: on connections of their own."""
        async with self._pooled(self._following) as connection:
            yield connection

    @asynccontextmanager
    async def probing(self) -> AsyncIterator[Connection]:
        """As ``reading``, for asking how the database is: on connections that are soon given up."""
        async with self._pooled(self._probing, _BEGIN_PROBING) as connection:
            yield connection

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[Connection]:
        """As ``probing``; each statement is a transaction of its own."""
        async with self._pooled(self._probing) as connection:
            yield connection

    @asynccontextmanager
    async def electing(self) -> AsyncIterator[Connection]:
        """A transaction, READ COMMITTED, that only takes an advisory lock and may then be idle for long.

        Raises ``ConnectionLost`` at its end if it has ended before. It must read no table: it would block
        migrations, and others would wait for its snapshot.
        """
        async with self._pooled(self._electing, _BEGIN_NOTE) as connection:
            yield connection
            await connection.commit()

    @asynccontextmanager
    async def committing(self) -> AsyncIterator[Connection]:
        """A transaction, READ COMMITTED, that commits at the end of the block if that does not raise."""
        async with self._pooled(self._engine, _BEGIN_NOTE) as connection:
            yield connection
            await connection.commit()

    @asynccontextmanager
    async def autocommit(self) -> AsyncIterator[Connection]:
        """A connection on which each statement is a transaction of its own, READ COMMITTED."""
        async with self._pooled(self._engine) as connection:
            yield connection

    async def close(self) -> None:
        """Give the pool's connections back."""
        await self._engine.dispose()
        await self._probing.dispose()
        await self._identifying.dispose()
        await self._following.dispose()
        await self._electing.dispose()

    async def refuse_lost_sessions(self) -> None:
        """Raise ``ConfigurationError`` if a connection pooler does not keep sessions."""
        with self.errors():
            await sessions.refuse_lost(self.connect)


async def keeps_session(connection: Connection) -> bool:
    """Whether the connection still has the session that was set up for it."""
    rows = await connection.execute(sessions.MARK)
    return bool(rows.scalar_one() == connection.mark)


async def revision(connection: Connection) -> str | None:
    """The revision that the database's schema has; none when it was never migrated."""
    exists = await connection.execute("SELECT to_regclass('chronolake.alembic_version') IS NOT NULL")
    if not exists.scalar_one():
        return None
    rows = await connection.execute("SELECT version_num FROM chronolake.alembic_version")
    found: str | None = rows.scalar_one_or_none()
    return found


async def is_read_only(database: Database) -> bool:
    """Whether PostgreSQL refuses writes: a standby, or ``default_transaction_read_only``.

    A connection keeps the setting with which it began. So a read-only one is closed and another is asked, until
    it is one that began now.
    """
    for _ in range(PROBING_CONNECTIONS + 1):
        async with database.probing() as connection:
            rows = await connection.execute(
                "SELECT pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean"
                " OR current_setting('default_transaction_read_only')::boolean",
            )
            if not rows.scalar_one():
                return False
            await connection.close()
    return True


async def xmin_age(connection: Connection) -> int:
    """Transactions since the oldest one that is still open; a reader of the log must not pass it."""
    age = await connection.execute(
        "SELECT pg_snapshot_xmax(snapshot)::text::bigint - pg_snapshot_xmin(snapshot)::text::bigint"
        " FROM pg_current_snapshot() AS snapshot",
    )
    return int(age.scalar_one())
