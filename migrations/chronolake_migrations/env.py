"""The program of alembic: the missing revisions, the roles and their rights, in one transaction.

The database is the one of ``chronolake-metastore migrate``, or CHRONOLAKE_DSN for alembic's own command line.
"""

from __future__ import annotations

import os

import psycopg
from alembic import context
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, create_engine, pool, text

from chronolake_migrations import ADVISORY_LOCK, scripts

SCHEMA = "chronolake"


def _migrate(connection: Connection) -> None:
    # Until the end of the transaction, not of the session: a pooler may not keep that.
    connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": ADVISORY_LOCK})
    context.config.attributes["login"] = connection.execute(text("SELECT current_user")).scalar_one()
    # alembic keeps its table in this schema, and reads it before the first revision runs. IF NOT EXISTS would
    # need the right to create a schema even where there is one.
    if connection.execute(text("SELECT to_regnamespace(:name) IS NULL"), {"name": SCHEMA}).scalar_one():
        connection.execute(text(f"CREATE SCHEMA {SCHEMA}"))
    before = MigrationContext.configure(connection, opts={"version_table_schema": SCHEMA})
    context.config.attributes["before"] = before.get_current_revision()
    context.configure(connection=connection, version_table_schema=SCHEMA)
    with context.begin_transaction():
        context.run_migrations()
        _grant(connection)
    connection.commit()


def _grant(connection: Connection) -> None:
    """Make the roles, grant their rights, comment, and make what auditors of namespaces read.

    Only the owner of the schema can do more than make the roles.
    """
    driver = connection.connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    driver.execute(scripts.read("roles.sql"))
    owner = text("SELECT pg_has_role(nspowner, 'USAGE') FROM pg_namespace WHERE nspname = :name")
    if connection.execute(owner, {"name": SCHEMA}).scalar_one():
        driver.execute(scripts.read("grants.sql"))
        driver.execute(scripts.read("comments.sql"))
        driver.execute(scripts.read("namespace_audit.sql"))


def _connect(dsn: str) -> psycopg.Connection:
    connection = psycopg.connect(dsn)
    connection.add_notice_handler(_note)
    return connection


def _note(message: psycopg.errors.Diagnostic) -> None:
    # A notice only says that something is there already.
    if message.severity_nonlocalized == "WARNING":
        context.config.attributes.setdefault("warnings", []).append(message.message_primary)


def _run() -> None:
    dsn = context.config.attributes.get("dsn") or os.environ["CHRONOLAKE_DSN"]
    engine = create_engine("postgresql+psycopg://", creator=lambda: _connect(dsn), poolclass=pool.NullPool)
    with engine.connect() as connection:
        _migrate(connection)
    engine.dispose()


_run()
