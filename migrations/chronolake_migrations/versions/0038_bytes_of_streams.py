"""The bytes of files in buffers of streams, which may add up to more than 64 bits."""

from __future__ import annotations

from chronolake_migrations.scripts import execute

revision = "0038"
down_revision = "0037"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add them up as numeric values, in the buffers and in the auditor's view."""
    execute("versions/0038_bytes_of_streams.sql")
