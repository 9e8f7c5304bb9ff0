"""Changes of tables: a view for auditors, and the names that renames gave up."""

from __future__ import annotations

from chronolake_migrations.scripts import execute

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the view and its indexes."""
    execute("versions/0025_changes_of_tables.sql")
