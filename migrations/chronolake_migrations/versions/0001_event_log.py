"""The event log, the clock of each table, and the first projections."""

from __future__ import annotations

from chronolake_migrations.sql import execute

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the schema."""
    execute("0001_event_log.sql")
