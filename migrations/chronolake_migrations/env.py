"""What alembic runs: each revision in a transaction of its own, then the roles and their grants.

The database is the one that ``chronolake-metastore migrate`` was told, or CHRONOLAKE_DSN for alembic's own
command line.
"""

from __future__ import annotations

import os

import psycopg
from alembic import context
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, create_engine, pool, text

from chronolake_migrations import ADVISORY_LOCK, sql

SCHEMA = "chronolake"


def _migrate(connection: Connection) -> None:
    connection.execute(text("SELECT pg_advisory_lock(:lock)"), {"lock": ADVISORY_LOCK})
    context.config.attributes["login"] = connection.execute(text("SELECT current_user")).scalar_one()
    # alembic keeps its own table in our schema, and asks for it before the first revision has run. Looked for
    # first: IF NOT EXISTS asks for the right to make it even where it is there.
    if connection.execute(text("SELECT to_regnamespace(:name) IS NULL"), {"name": SCHEMA}).scalar_one():
        connection.execute(text(f"CREATE SCHEMA {SCHEMA}"))
    connection.commit()
    before = MigrationContext.configure(connection, opts={"version_table_schema": SCHEMA})
    context.config.attributes["before"] = before.get_current_revision()
    connection.commit()
    context.configure(connection=connection, version_table_schema=SCHEMA, transaction_per_migration=True)
    with context.begin_transaction():
        context.run_migrations()
    _grant(connection)
    connection.commit()


def _grant(connection: Connection) -> None:
    """Make the roles, and grant them what they need, where that is missing; only the schema's owner can."""
    driver = connection.connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    driver.execute(sql.read("roles.sql"))
    owner = text("SELECT pg_has_role(nspowner, 'USAGE') FROM pg_namespace WHERE nspname = :name")
    if connection.execute(owner, {"name": SCHEMA}).scalar_one():
        for statement in sql.grants():
            driver.execute(statement)


def _connect(dsn: str) -> psycopg.Connection:
    connection = psycopg.connect(dsn)
    connection.add_notice_handler(_note)
    return connection


def _note(said: psycopg.errors.Diagnostic) -> None:
    # What is only a notice tells that something is there already, which is as it should be.
    if said.severity_nonlocalized == "WARNING":
        context.config.attributes.setdefault("warnings", []).append(said.message_primary)


def _run() -> None:
    dsn = context.config.attributes.get("dsn") or os.environ["CHRONOLAKE_DSN"]
    engine = create_engine("postgresql+psycopg://", creator=lambda: _connect(dsn), poolclass=pool.NullPool)
    with engine.connect() as connection:
        _migrate(connection)
    engine.dispose()


_run()
