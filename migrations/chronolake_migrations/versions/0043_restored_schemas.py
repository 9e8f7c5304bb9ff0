"""The identity of a database that was restored into itself."""

from __future__ import annotations

from chronolake_migrations.scripts import execute

revision = "0043"
down_revision = "0042"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Let the id of a database tell a restored schema from the one before."""
    execute("versions/0043_restored_schemas.sql")
