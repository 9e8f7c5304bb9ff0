"""Moments after the year 2255, exact to the microsecond."""

from __future__ import annotations

from chronolake_migrations.scripts import execute

revision = "0042"
down_revision = "0041"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Compute moments in integers."""
    execute("versions/0042_exact_moments.sql")
