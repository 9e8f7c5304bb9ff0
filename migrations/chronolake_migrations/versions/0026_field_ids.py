"""Field ids in data files: which files carry them."""

from __future__ import annotations

from chronolake_migrations.scripts import execute

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns."""
    execute("versions/0026_field_ids.sql")
