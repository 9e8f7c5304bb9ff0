"""Leases of readers that follow the changes of a table."""

from __future__ import annotations

from chronolake_migrations.scripts import execute

revision = "0033"
down_revision = "0032"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Let a lease hold all times from its own on."""
    execute("versions/0033_following_readers.sql")
