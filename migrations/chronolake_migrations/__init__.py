"""The schema of the database: alembic revisions, which run SQL scripts.

``baseline/`` is the schema of the first revision, one object per file. ``versions/`` has the revisions, and the
SQL of all but the first. ``roles.sql``, ``grants.sql``, ``comments.sql`` and ``namespace_audit.sql`` run at
each migration. A released revision is never edited.
"""

from __future__ import annotations

from typing import Final

ADVISORY_LOCK: Final = 0x6368726F6E6F
"""The advisory lock of a migration, which holds it until its connection closes."""
