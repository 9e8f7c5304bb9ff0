"""Indexes of instants: completion times without the heap, and of completed instants only."""

from __future__ import annotations

from chronolake_migrations.sql import execute

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Build them anew."""
    execute("0004_instant_indexes.sql")
