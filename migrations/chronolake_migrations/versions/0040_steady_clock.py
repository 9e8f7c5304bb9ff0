"""The steady clock, by which leases and other durations end."""

from __future__ import annotations

from chronolake_migrations.scripts import execute

revision = "0040"
down_revision = "0039"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the clock, and let the views of leases go by it."""
    execute("versions/0040_steady_clock.sql")
