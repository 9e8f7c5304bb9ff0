"""Runs the SQL files: that of a revision once, the roles and their grants at each migration."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import resources

import psycopg
from alembic import op

_GRANT = re.compile(r"^(?:GRANT|REVOKE) .*?;$", re.MULTILINE | re.DOTALL)

# Every command locks rows of this table first. Those under way end before the revision reads what they wrote;
# those that come later wait, hold no lock that the revision needs, and find the new schema.
_WAIT_FOR_COMMANDS = b"""
DO $$
BEGIN
    IF to_regclass('chronolake.clock') IS NOT NULL THEN
        LOCK TABLE chronolake.clock IN EXCLUSIVE MODE;
    END IF;
END
$$
"""


def execute(name: str) -> None:
    """Run the file ``name`` of this package, whole, in the revision's transaction."""
    # Past SQLAlchemy, which hands over (empty) parameters: without them psycopg takes a whole script as it is.
    connection = op.get_bind().connection.driver_connection
    assert isinstance(connection, psycopg.Connection)
    connection.execute(_WAIT_FOR_COMMANDS)
    connection.execute(read(name))


def read(name: str) -> bytes:
    """The file ``name`` of this package."""
    return resources.files(__name__).joinpath(name).read_bytes()


def grants() -> Iterator[bytes]:
    """What the revisions grant and revoke, in their order: to be repeated where a dump was restored without."""
    revisions = sorted(one.name for one in resources.files(__name__).iterdir() if one.name[:4].isdigit())
    for name in revisions:
        yield from (found[0].encode() for found in _GRANT.finditer(read(name).decode()))
