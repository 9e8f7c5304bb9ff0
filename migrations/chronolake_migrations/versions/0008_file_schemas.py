"""Files say which version of the schema they were written with."""

from __future__ import annotations

from chronolake_migrations.sql import execute

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Say it of the files that are there."""
    execute("0008_file_schemas.sql")
