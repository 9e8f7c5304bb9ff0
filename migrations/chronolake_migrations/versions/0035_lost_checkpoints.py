"""The checkpoints that streams have lost."""

from __future__ import annotations

from chronolake_migrations.scripts import execute

revision = "0035"
down_revision = "0034"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column."""
    execute("versions/0035_lost_checkpoints.sql")
