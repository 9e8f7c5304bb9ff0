"""Lists of events: a table for their entries, and the size of each payload."""

from __future__ import annotations

from chronolake_migrations.sql import execute

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table, add the column, and have the view of rollbacks read the entries."""
    execute("0019_event_lists.sql")
