"""Diagnosis: why a server cannot use a database, and what its operator can do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import psycopg
import sqlalchemy
from psycopg import sql

from chronolake_metastore import errors
from chronolake_metastore.settings import Settings
from chronolake_metastore.store.postgres import schema, sessions

# For a failed connection, libpq gives only a text.
_ADVICE: Final = (
    (
        re.compile(r"password|authentication|pg_hba\.conf|no encryption"),
        "PostgreSQL refuses the login",
        "check user and password in the DSN, or PGPASSWORD or PGPASSFILE",
    ),
    (
        re.compile(r'database "[^"]*" does not exist'),
        "PostgreSQL has no such database",
        "CREATE DATABASE makes one, or name another in the DSN",
    ),
    (
        re.compile(r'role "[^"]*" does not exist'),
        "PostgreSQL has no such login",
        "CREATE ROLE ... LOGIN makes one, or name another in the DSN",
    ),
)
_NO_ANSWER: Final = "cannot connect to PostgreSQL", "is it running, and are host and port in the DSN right?"

_ROLE_OF_READING: Final = (
    "use another login, which may read the log and not change it: one with USAGE on the schema chronolake and "
    "SELECT on all its tables, named in --dsn and in --role (docs/operations.md#verify)"
)

_FIT: Final = """
SELECT current_user,
       EXISTS (SELECT FROM pg_roles WHERE rolname = %(role)s),
       EXISTS (
           SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
           WHERE n.nspname = 'chronolake' AND c.relname = 'alembic_version'
       )
"""


def refuse_malformed(dsn: str) -> None:
    """Raise ``ConfigurationError`` if ``dsn`` is not a connection string."""
    try:
        psycopg.conninfo.conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:
        # What libpq says of it may hold a part of the password.
        raise errors.ConfigurationError(
            "the DSN is neither a URL (postgresql://user:password@host:5432/database) nor a libpq connection "
            "string (host=... dbname=...); in a URL, percent-encode special characters of the password"
        ) from None


def name_of(dsn: str) -> str:
    """The database that a DSN names, without its login."""
    given = psycopg.conninfo.conninfo_to_dict(dsn)
    names = ("host", "hostaddr", "port", "dbname", "service")
    parts = [f"{name}={given[name]}" for name in names if given.get(name)]
    return f"the database {' '.join(parts)}" if parts else "the default database of libpq"


def of_connecting(exc: psycopg.Error) -> errors.ConfigurationError:
    """Advice for a connection that could not be made."""
    reason = _reason(exc)
    for pattern, what, advice in _ADVICE:
        if pattern.search(reason):
            return errors.ConfigurationError(f"{what} ({reason}); {advice}")
    what, advice = _NO_ANSWER
    return errors.ConfigurationError(f"{what} ({reason}); {advice}")


def _reason(exc: psycopg.Error) -> str:
    """The message of libpq about a connection on one line: each address that it tried, without its question."""
    lines = [line.strip().removeprefix("connection failed: ") for line in str(exc).splitlines()]
    reasons = [line for line in lines if line and not line.startswith("Is the server running")]
    return "; ".join(reasons) or repr(exc)


def of_postgres(exc: BaseException | None) -> BaseException | None:
    """The error of PostgreSQL in one of SQLAlchemy; any other is given as it is."""
    return exc.orig if isinstance(exc, sqlalchemy.exc.DBAPIError) else exc


@contextmanager
def missing_rights(role: str, *, writes: bool) -> Iterator[None]:
    """Turn PostgreSQL's refusal of a right into ``ConfigurationError``, with the role that is needed."""
    try:
        yield
    except (psycopg.errors.InsufficientPrivilege, sqlalchemy.exc.ProgrammingError) as exc:
        cause = of_postgres(exc)
        if not isinstance(cause, psycopg.errors.InsufficientPrivilege):
            raise
        advice = "name a role of servers with --role" if writes else _ROLE_OF_READING
        raise errors.ConfigurationError(
            f"the role {role!r} has too few rights ({cause.diag.message_primary}); {advice}"
        ) from exc


async def refuse_unfit(settings: Settings, *, writes: bool = True) -> None:
    """Raise ``ConfigurationError`` when the login, the role or its rights are not what serving takes.

    Of a command that only reads (``writes``), the advice gives no right to write. The schema's revision is
    another's to judge; here only whether there is any.
    """
    refuse_malformed(settings.dsn)
    try:
        connection = await sessions.connect(sessions.session_settings(settings, as_role=False))
    except psycopg.OperationalError as exc:
        raise of_connecting(exc) from exc
    async with connection:
        row = await (await connection.execute(_FIT, {"role": settings.role})).fetchone()
        assert row is not None
        login, role_exists, is_migrated = row
        if not is_migrated:
            raise errors.ConfigurationError(
                "the database has no schema of Chronolake yet; run chronolake-metastore migrate"
            )
        if not role_exists:
            raise errors.ConfigurationError(
                f"PostgreSQL has no role {settings.role!r}; run chronolake-metastore migrate as the owner of "
                "the schema, which creates missing roles, or name another role with --role"
            )
        await _refuse_ungranted(connection, login, settings.role, writes=writes)


async def refuse_unless_owner(settings: Settings, action: str = "drop partitions of the log") -> None:
    """Raise ``ConfigurationError`` unless the login may do what ``action`` says; or ``DatabaseUnavailable``."""
    query = """
        SELECT current_user, pg_has_role(nspowner, 'USAGE') FROM pg_namespace WHERE nspname = 'chronolake'
    """
    try:
        connection = await sessions.connect(sessions.session_settings(settings, as_role=False))
    except psycopg.OperationalError as exc:
        raise of_connecting(exc) from exc
    async with connection:
        row = await (await connection.execute(query)).fetchone()
    if row is not None and not row[1]:
        raise errors.ConfigurationError(
            f"the login {row[0]!r} may not {action}; use the login that migrates, which is the owner of the "
            "schema chronolake"
        )


async def _refuse_ungranted(
    connection: psycopg.AsyncConnection[psycopg.rows.TupleRow], login: str, role: str, *, writes: bool
) -> None:
    # From version 16 on one may be a member of a role without the right to take it on.
    taking_on = "SET" if connection.info.server_version >= 160_000 else "MEMBER"
    query = "SELECT pg_has_role(current_user, %s, %s), has_schema_privilege(%s, 'chronolake', 'USAGE')"
    row = await (await connection.execute(query, (role, taking_on, role))).fetchone()
    assert row is not None
    may_take_on, may_use = row
    if not may_take_on:
        grant = sql.SQL("GRANT {} TO {}").format(sql.Identifier(role), sql.Identifier(login))
        by_grant = f"have an administrator run: {grant.as_string(connection)}"
        raise errors.ConfigurationError(
            f"the login {login!r} may not take on the role {role!r}; {by_grant if writes else _ROLE_OF_READING}"
        )
    if not may_use:
        raise errors.ConfigurationError(
            f"the role {role!r} has no rights in the schema chronolake; run chronolake-metastore migrate as "
            "the owner of the schema, which grants those of chronolake_server again, or name another role with "
            "--role"
        )


def of_revision(revision: str | None) -> str:
    """Advice for a database whose schema is not the one that this server knows."""
    if revision is None:
        return "the database has no schema of Chronolake yet; run chronolake-metastore migrate"
    if revision < schema.BASELINE:
        return (
            f"the database has schema {revision} of a development version, which cannot be migrated to "
            f"{schema.REVISION}; make a new database (CREATE DATABASE), or name another --data-dir for the "
            "embedded one, then run chronolake-metastore migrate, create the tables and write their data again"
        )
    if revision < schema.REVISION:
        return (
            f"the database has schema {revision}, this server needs {schema.REVISION}; "
            "run chronolake-metastore migrate"
        )
    return (
        f"the database has schema {revision}, which this server does not know: it knows {schema.REVISION}; "
        "run serve and migrate of the release that made it"
    )
