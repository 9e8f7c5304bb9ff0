"""The keys of the log do not have the era."""

from __future__ import annotations

from chronolake_migrations.scripts import execute

revision = "0055"
down_revision = "0054"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Move the keys from the tables of the log to their partitions."""
    execute("versions/0055_keys_without_era.sql")
