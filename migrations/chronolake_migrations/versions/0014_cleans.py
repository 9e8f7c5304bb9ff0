"""Cleans: which files they delete, and what readers hold against them."""

from __future__ import annotations

from chronolake_migrations.sql import execute

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the column of cleaned files, the index of those that may be, and the table of readers."""
    execute("0014_cleans.sql")
