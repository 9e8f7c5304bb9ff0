"""Tables say from which completion time on they are served."""

from __future__ import annotations

from chronolake_migrations.sql import execute

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """No table was cleaned so far."""
    execute("0012_cleaned_before.sql")
