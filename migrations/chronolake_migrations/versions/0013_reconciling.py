"""Reconciling: which files were deleted, and no instant that ends past its markers."""

from __future__ import annotations

from chronolake_migrations.sql import execute

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table of deleted files, the view of it, and what refuses late markers."""
    execute("0013_reconciling.sql")
