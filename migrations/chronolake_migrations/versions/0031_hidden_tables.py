"""When a table was hidden from Hudi's readers, because its publication is off."""

from __future__ import annotations

from chronolake_migrations.scripts import execute

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column."""
    execute("versions/0031_hidden_tables.sql")
