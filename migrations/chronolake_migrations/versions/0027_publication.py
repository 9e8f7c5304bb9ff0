"""How far each table is published for Hudi's readers, and who publishes it."""

from __future__ import annotations

from chronolake_migrations.scripts import execute

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table."""
    execute("versions/0027_publication.sql")
