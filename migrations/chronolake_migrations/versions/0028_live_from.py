"""An index on files by time that no query for a file group can take."""

from __future__ import annotations

from chronolake_migrations.scripts import execute

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the index anew."""
    execute("versions/0028_live_from.sql")
