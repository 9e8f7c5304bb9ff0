"""An index on the events about foreign files in ``.hoodie``."""

from __future__ import annotations

from chronolake_migrations.scripts import execute

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the index."""
    execute("versions/0030_hudi_files_found.sql")
