"""Locks: the role of the servers cannot lock the clocks against everybody."""

from __future__ import annotations

from chronolake_migrations.sql import execute

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Replace rights to tables by rights to columns."""
    execute("0020_locks.sql")
