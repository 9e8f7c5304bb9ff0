"""Base paths: the folder of each table, so that no two overlap."""

from __future__ import annotations

from alembic import op
from sqlalchemy import text

from chronolake_migrations.sql import execute
from chronolake_model import base_paths

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


_CREATED = """
    SELECT t.table_id, e.payload -> 'definition' ->> 'base_path', e.payload ->> 'base_path_key'
    FROM chronolake.lake_table t
    JOIN chronolake.event e ON e.table_id = t.table_id AND e.version = 1
"""
_INSERT = """
    INSERT INTO chronolake.base_path (table_id, key, is_checked) VALUES (:table_id, :key, :is_checked)
"""


def upgrade() -> None:
    """Make the table, with the base paths of the tables that are there: nobody checked whether they overlap."""
    execute("0021_base_paths.sql")
    connection = op.get_bind()
    known = [
        {
            "table_id": table_id,
            "key": base_paths.canonical_if_comparable(base_path) if key is None else key,
            "is_checked": key is not None,
        }
        for table_id, base_path, key in connection.execute(text(_CREATED))
    ]
    if known:
        connection.execute(text(_INSERT), known)
