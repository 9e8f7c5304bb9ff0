"""Results are stored packed."""

from __future__ import annotations

from chronolake_migrations.scripts import execute

revision = "0053"
down_revision = "0052"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Comment on the columns."""
    execute("versions/0053_packed_results.sql")
