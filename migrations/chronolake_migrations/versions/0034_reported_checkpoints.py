"""Which checkpoints in the buffers of streams are reported whole."""

from __future__ import annotations

from chronolake_migrations.scripts import execute

revision = "0034"
down_revision = "0033"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Let the reaper find the streams of which something is to be rolled back, without those that wait."""
    execute("versions/0034_reported_checkpoints.sql")
