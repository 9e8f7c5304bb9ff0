"""The rows of cleaned files may leave."""

from __future__ import annotations

from chronolake_migrations.scripts import execute

revision = "0056"
down_revision = "0055"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the border of the files, and show none of a moment before it."""
    execute("versions/0056_files_leave.sql")
