"""What alembic runs: each revision in a transaction of its own.

The database is the one that ``chronolake-metastore migrate`` was told, or CHRONOLAKE_DSN for alembic's own
command line.
"""

from __future__ import annotations

import os

import psycopg
from alembic import context
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, create_engine, pool, text

SCHEMA = "chronolake"
# Any number will do that nobody else takes in this database; it is held until the connection closes.
LOCK = 0x6368726F6E6F


def _migrate(connection: Connection) -> None:
    connection.execute(text("SELECT pg_advisory_lock(:lock)"), {"lock": LOCK})
    # alembic keeps its own table in our schema, and asks for it before the first revision has run.
    connection.execute(text(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}"))
    connection.commit()
    before = MigrationContext.configure(connection, opts={"version_table_schema": SCHEMA})
    context.config.attributes["before"] = before.get_current_revision()
    connection.commit()
    context.configure(connection=connection, version_table_schema=SCHEMA, transaction_per_migration=True)
    with context.begin_transaction():
        context.run_migrations()


def _run() -> None:
    dsn = context.config.attributes.get("dsn") or os.environ["CHRONOLAKE_DSN"]
    engine = create_engine(
        "postgresql+psycopg://", creator=lambda: psycopg.connect(dsn), poolclass=pool.NullPool
    )
    with engine.connect() as connection:
        _migrate(connection)
    engine.dispose()


_run()
