"""${message}"""

from __future__ import annotations

from chronolake_migrations.scripts import execute

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = None
depends_on = None


def upgrade() -> None:
    execute("versions/${up_revision}_${message.replace(' ', '_')}.sql")
