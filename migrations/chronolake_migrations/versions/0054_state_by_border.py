"""The time of a table's state compares with the border of its instants."""

from __future__ import annotations

from chronolake_migrations.scripts import execute

revision = "0054"
down_revision = "0053"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Replace the function."""
    execute("versions/0054_state_by_border.sql")
