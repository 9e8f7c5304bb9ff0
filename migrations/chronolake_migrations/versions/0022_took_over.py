"""The index of base paths that were taken over."""

from __future__ import annotations

from chronolake_migrations.sql import execute

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the index."""
    execute("0022_took_over.sql")
