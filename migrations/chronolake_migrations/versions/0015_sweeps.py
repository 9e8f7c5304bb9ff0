"""Sweeps: since when deletions want to be looked at once more."""

from __future__ import annotations

from chronolake_migrations.sql import execute

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column, for what was reported so far too, and the index of what is due."""
    execute("0015_sweeps.sql")
