"""The length of an event's payload, which the server gives."""

from __future__ import annotations

from chronolake_migrations.scripts import execute

revision = "0041"
down_revision = "0040"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make a generated column a plain one."""
    execute("versions/0041_payload_bytes.sql")
