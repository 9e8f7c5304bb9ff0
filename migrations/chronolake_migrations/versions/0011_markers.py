"""Markers: which data files pending instants may have in storage."""

from __future__ import annotations

from chronolake_migrations.sql import execute

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table of markers and the view of it."""
    execute("0011_markers.sql")
