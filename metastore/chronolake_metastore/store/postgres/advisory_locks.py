"""The numbers of all advisory locks that Chronolake takes in its database.

Other programs may use the same database, so the numbers are large and unusual. PostgreSQL separates locks with
one key from locks with two keys, but the numbers differ anyway.
"""

from __future__ import annotations

import enum
import zlib
from typing import Final

import chronolake_migrations

_FIRST: Final = 1667788914
_NAMES: Final = 1_024


@enum.unique
class AdvisoryLock(enum.IntEnum):
    """Locks, each with the work that it protects; (n) is a lock with a second key."""

    MIGRATION = chronolake_migrations.ADVISORY_LOCK
    """One migration at a time."""
    TABLE_NAME = _FIRST
    """(``key_of_name``) Commands on the tables of these names."""
    MARKERS_OF_TABLE = _FIRST + 1
    """(``key_of_name``) Transactions that read the markers of a table before they create some."""
    READERS_OF_TABLE = _FIRST + 2
    """(hash of the table's id) Shared: a reader's lease is taken or renewed. Exclusive: a clean is planned."""
    WORKER = _FIRST + 3
    """(hash of a worker's name) The leader among the workers of this name."""


def key_of_name(name: str) -> int:
    """The second key of the lock on a name, whether there is such a table or not.

    Names share 1,024 keys, so that PostgreSQL has room for the locks of any group of commands.
    """
    return zlib.crc32(name.encode()) % _NAMES
