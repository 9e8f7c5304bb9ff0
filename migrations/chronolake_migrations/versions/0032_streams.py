"""Streams, and the checkpoints in their buffers."""

from __future__ import annotations

from chronolake_migrations.scripts import execute

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables and the view, and let instants belong to a stream."""
    execute("versions/0032_streams.sql")
