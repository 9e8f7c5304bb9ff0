"""Where the checks of each publication have come to."""

from __future__ import annotations

from chronolake_migrations.scripts import execute

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column."""
    execute("versions/0029_check_position.sql")
