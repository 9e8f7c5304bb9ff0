"""The database's history: alembic revisions, each the SQL file of its name.

A revision, once released, is never edited. Expand first (a change that old servers do not notice), contract
in a later release.
"""

from __future__ import annotations

from typing import Final

ADVISORY_LOCK: Final = 0x6368726F6E6F
"""The advisory lock of a migration, which holds it until its connection closes."""
