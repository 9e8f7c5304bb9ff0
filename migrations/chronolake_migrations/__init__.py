"""The database's history: alembic revisions, each the SQL file of its name.

A revision, once released, is never edited. Expand first (a change that old servers do not notice), contract
in a later release.
"""

from __future__ import annotations
