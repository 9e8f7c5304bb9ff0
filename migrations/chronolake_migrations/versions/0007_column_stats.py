"""Column stats in write stats and files."""

from __future__ import annotations

from chronolake_migrations.sql import execute

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns."""
    execute("0007_column_stats.sql")
