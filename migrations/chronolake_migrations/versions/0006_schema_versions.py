"""Versions of tables' schemas, and which of them the files of an instant were written with."""

from __future__ import annotations

from chronolake_migrations.sql import execute

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Number the columns that are there, and make room for what becomes of them."""
    execute("0006_schema_versions.sql")
