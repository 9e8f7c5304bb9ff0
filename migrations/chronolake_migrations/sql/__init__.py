"""Runs the SQL file of a revision."""

from __future__ import annotations

from importlib import resources

import psycopg
from alembic import op


def execute(name: str) -> None:
    """Run the file ``name`` of this package, whole, in the revision's transaction."""
    script = resources.files(__name__).joinpath(name).read_text(encoding="utf-8")
    # Past SQLAlchemy, which hands over (empty) parameters: without them psycopg takes a whole script as it is.
    connection = op.get_bind().connection.driver_connection
    assert isinstance(connection, psycopg.Connection)
    connection.execute(script)
