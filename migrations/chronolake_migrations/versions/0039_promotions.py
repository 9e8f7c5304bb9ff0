"""The identity of a metastore follows its PostgreSQL through a failover."""

from __future__ import annotations

from chronolake_migrations.scripts import execute

revision = "0039"
down_revision = "0038"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table of promotions."""
    execute("versions/0039_promotions.sql")
