"""Servers write only in the schema that they know."""

from __future__ import annotations

from chronolake_migrations.sql import execute

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the function by which they ask."""
    execute("0017_known_schema.sql")
