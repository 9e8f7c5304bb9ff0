"""The index of live files in an order of its own, so that no plan goes through what is live no more."""

from __future__ import annotations

from chronolake_migrations.sql import execute

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Build it anew."""
    execute("0009_live_files.sql")
