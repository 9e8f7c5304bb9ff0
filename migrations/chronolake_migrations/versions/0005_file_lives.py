"""Files that are live more than once: a restore brings back what was there before."""

from __future__ import annotations

from chronolake_migrations.sql import execute

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make room for it."""
    execute("0005_file_lives.sql")
