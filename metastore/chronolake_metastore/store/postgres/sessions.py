"""Sessions of PostgreSQL: the settings of each new connection, and connection poolers that lose them.

A session's role, schema and limits are set by one statement after connecting. In the startup packet's
``options`` pgbouncer refuses or drops them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from types import MappingProxyType
from typing import Final

import msgspec
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from chronolake_metastore import errors
from chronolake_metastore.settings import Settings
from chronolake_metastore.store.postgres import connections
from chronolake_metastore.store.postgres.connections import BoundedConnection

LOCK_TIMEOUT_MS: Final = 10_000
STATEMENT_TIMEOUT_MS: Final = 60_000
IDLE_IN_TRANSACTION_TIMEOUT_MS: Final = 15_000
TCP_USER_TIMEOUT_MS: Final = 15_000
CONNECT_TIMEOUT_SECONDS: Final = 5
NOT_KEPT: Final = (
    "a connection pooler in front of PostgreSQL does not keep sessions; use session mode (pgbouncer: "
    "pool_mode = session), or name PostgreSQL itself in the DSN"
)
MARK: Final = "SELECT current_setting('chronolake.session', true)"
"""The mark of the session in which the statement runs: a value that only one session has."""

_SET: Final = sql.SQL("set_config({}, {}, false)")
_SET_MARK: Final = sql.SQL("set_config('chronolake.session', gen_random_uuid()::text, false)")
_PROBES: Final = 4
"""How often each of two connections is asked for its mark, twice each time."""


class SessionSettings(msgspec.Struct, frozen=True):
    """A connection string, and the statement that a new connection runs first; its last column is the mark."""

    conninfo: str
    setting_up: str


def session_settings(
    settings: Settings, *, as_role: bool = True, parameters: Mapping[str, str | int] = MappingProxyType({})
) -> SessionSettings:
    """The DSN, and the role, schema and limits of every session of the server, and ``parameters``."""
    values: dict[str, str | int] = {
        **({"role": settings.role} if as_role else {}),
        "search_path": "chronolake",
        "timezone": "UTC",
        # No statement runs long enough to be worth compiling.
        "jit": "off",
        "lock_timeout": LOCK_TIMEOUT_MS,
        "statement_timeout": STATEMENT_TIMEOUT_MS,
        # A server that froze, or was cut off, in the middle of a transaction must not hold its tables.
        "idle_in_transaction_session_timeout": IDLE_IN_TRANSACTION_TIMEOUT_MS,
        "tcp_keepalives_idle": 5,
        "tcp_keepalives_interval": 2,
        "tcp_keepalives_count": 3,
        "tcp_user_timeout": TCP_USER_TIMEOUT_MS,
        **parameters,
    }
    calls = [_SET.format(sql.Literal(name), sql.Literal(str(value))) for name, value in values.items()]
    setting_up = sql.SQL("SELECT {}").format(sql.SQL(", ").join([*calls, _SET_MARK]))
    return SessionSettings(_conninfo(settings.dsn), setting_up.as_string())


def _conninfo(dsn: str) -> str:
    given = conninfo_to_dict(dsn)
    given.setdefault("connect_timeout", CONNECT_TIMEOUT_SECONDS)
    # And a wait for a database that was cut off must end.
    given.setdefault("keepalives_idle", 5)
    given.setdefault("keepalives_interval", 2)
    given.setdefault("keepalives_count", 3)
    given.setdefault("tcp_user_timeout", TCP_USER_TIMEOUT_MS)
    given.setdefault("application_name", "chronolake-metastore")
    given["client_encoding"] = "UTF8"
    return make_conninfo("", **given)


async def connect(settings: SessionSettings, silent_seconds: float | None = None) -> BoundedConnection:
    """A new connection whose session is set up; it is closed when it is silent for ``silent_seconds``.

    Raises ``psycopg.Error``.
    """
    made = await BoundedConnection.connect(
        settings.conninfo, autocommit=True, prepare_threshold=1, context=connections.context()
    )
    # A pooler accepts a connection before it has one to PostgreSQL.
    made.silent_seconds = min(CONNECT_TIMEOUT_SECONDS, silent_seconds or CONNECT_TIMEOUT_SECONDS)
    try:
        rows = await made.execute(settings.setting_up.encode(), prepare=False)
        row = await rows.fetchone()
        assert row is not None
        made.mark = row[-1]
        await made.set_autocommit(False)
    except BaseException:
        await made.close()
        raise
    made.silent_seconds = silent_seconds
    return made


async def refuse_lost(connect: Callable[[], Awaitable[BoundedConnection]]) -> None:
    """Raise ``ConfigurationError`` if a pooler gives the statements of one connection to several sessions."""
    async with AsyncExitStack() as opened:
        pair = [await opened.enter_async_context(await connect()) for _ in range(2)]
        for connection in pair:
            await connection.set_autocommit(True)
        # A pooler that has one session gives it to both. One that uses its sessions in turn may, by chance,
        # give each connection its own, but not to two statements in a row.
        for connection in pair * _PROBES:
            for _ in range(2):
                rows = await connection.execute(MARK, prepare=False)
                if await rows.fetchone() != (connection.mark,):
                    raise errors.ConfigurationError(NOT_KEPT)
