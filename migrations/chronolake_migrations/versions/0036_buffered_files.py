"""The files in the buffers of streams."""

from __future__ import annotations

from chronolake_migrations.scripts import execute

revision = "0036"
down_revision = "0035"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table of buffered files, and keep the bytes of each checkpoint in a column."""
    execute("versions/0036_buffered_files.sql")
