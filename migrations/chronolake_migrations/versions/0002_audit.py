"""Refusals and their outcomes in the log, and the history for auditors."""

from __future__ import annotations

from chronolake_migrations.sql import execute

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add what is missing."""
    execute("0002_audit.sql")
