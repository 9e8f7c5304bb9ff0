"""The place of an embedded PostgreSQL."""

from __future__ import annotations

from chronolake_migrations.sql import execute

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column."""
    execute("0023_place.sql")
