"""Runs the SQL scripts of this package."""

from __future__ import annotations

from importlib import resources

import psycopg
from alembic import op

# Every command locks rows of this table first. Commands in progress end before the revision reads what they
# wrote. Commands that come later wait, hold no lock that the revision needs, and find the new schema.
_WAIT_FOR_COMMANDS = b"""
DO $$
BEGIN
    IF to_regclass('chronolake.clock') IS NOT NULL THEN
        LOCK TABLE chronolake.clock IN EXCLUSIVE MODE;
    END IF;
END
$$
"""


def execute(*names: str) -> None:
    """Run scripts, each of them whole, in the transaction of the revision; a name is a path in this package."""
    # Not through SQLAlchemy, which passes (empty) parameters: psycopg takes a whole script only without them.
    connection = op.get_bind().connection.driver_connection
    assert isinstance(connection, psycopg.Connection)
    connection.execute(_WAIT_FOR_COMMANDS)
    for name in names:
        connection.execute(read(name))


def read(name: str) -> bytes:
    """A script of this package."""
    return resources.files("chronolake_migrations").joinpath(name).read_bytes()
