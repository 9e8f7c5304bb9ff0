"""The identity of the metastore: in which database files may be deleted."""

from __future__ import annotations

from chronolake_migrations.sql import execute

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table, with the first identity."""
    execute("0016_metastore.sql")
