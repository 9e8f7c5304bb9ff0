"""The projections as SQLAlchemy sees them, for selects that are built from parts.

The database is made by ``chronolake_migrations``; a test compares the two.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import JSON, BigInteger, Column, DateTime, Integer, MetaData, Table, Text, Uuid
from sqlalchemy.dialects.postgresql import JSONB

SCHEMA: Final = "chronolake"
BASELINE: Final = "0065"
"""The first revision of the database. Databases of earlier ones were made by development versions."""
REVISION: Final = "0065"
"""The revision of the database that this server knows."""

metadata: Final = MetaData(schema=SCHEMA)

namespace: Final = Table(
    "namespace",
    metadata,
    Column("name", Text, primary_key=True),
    Column("properties", JSONB, nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False),
)

lake_table: Final = Table(
    "lake_table",
    metadata,
    Column("table_id", Uuid, primary_key=True),
    Column("namespace", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("definition", JSONB, nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False),
    Column("dropped_at", DateTime(timezone=True)),
    Column("cleaned_before", DateTime(timezone=True)),
    Column("earliest_commit_to_retain", DateTime(timezone=True)),
)

instant: Final = Table(
    "instant",
    metadata,
    Column("table_id", Uuid, primary_key=True),
    Column("requested_time", DateTime(timezone=True), primary_key=True),
    Column("completion_time", DateTime(timezone=True)),
    Column("action", Text, nullable=False),
    Column("operation", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("writer", Text, nullable=False),
    Column("lease_seconds", Integer, nullable=False),
    Column("lease_expires_at", DateTime(timezone=True)),
    Column("rollback_reason", Text),
    Column("rollback_cause", Text),
    Column("summary", JSON),
    Column("extra_metadata", JSONB, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("target", DateTime(timezone=True)),
    Column("rolled_back_by", DateTime(timezone=True)),
    Column("undone_completion_time", DateTime(timezone=True)),
    Column("rolled_back_at", DateTime(timezone=True)),
    Column("plan", JSONB),
    Column("schema_version", Integer),
    Column("unswept_since", DateTime(timezone=True)),
    Column("grace_began_at", DateTime(timezone=True)),
    Column("stream", JSONB),
    Column("executions", JSONB),
)

schema_version: Final = Table(
    "schema_version",
    metadata,
    Column("table_id", Uuid, primary_key=True),
    Column("schema_version", Integer, primary_key=True),
    Column("fields", JSONB, nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False),
    Column("version", BigInteger, nullable=False),
)
