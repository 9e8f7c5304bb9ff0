"""Write stats that are staged before their instant completes."""

from __future__ import annotations

from chronolake_migrations.sql import execute

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Let the audit see them."""
    execute("0010_staging.sql")
