"""The streams of pending instants in the auditor's view."""

from __future__ import annotations

from chronolake_migrations.scripts import execute

revision = "0037"
down_revision = "0036"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Show the lease of the stream, and name the stream and its checkpoint."""
    execute("versions/0037_pending_of_streams.sql")
