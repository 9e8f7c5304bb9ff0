"""Plans, rollbacks, savepoints and restores; the file groups that are planned for and that were replaced."""

from __future__ import annotations

from chronolake_migrations.sql import execute

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add what is missing."""
    execute("0003_actions.sql")
