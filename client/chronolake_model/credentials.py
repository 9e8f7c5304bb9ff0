"""Credentials for a table's storage that a server gives: short-lived keys for the files below its base path."""

from __future__ import annotations

import enum
from datetime import datetime

import msgspec


class StorageAccess(enum.StrEnum):
    """The use of credentials. Each value includes those before it."""

    READ = "read"
    """To read and list the files."""
    WRITE = "write"
    """Also to write files, and to delete direct markers."""
    MAINTAIN = "maintain"
    """Also to delete files."""


class TableCredentials(msgspec.Struct, frozen=True):
    """Keys of S3 for the objects below ``location``, which ends with a slash, until ``expires_at``.

    ``seconds_left`` is from the answer to that time: a client needs no right clock. ``endpoint_override`` is
    the URL of S3, unless it is AWS.
    """

    table_id: str
    location: str
    access: StorageAccess
    access_key: str
    secret_key: str
    session_token: str
    expires_at: datetime
    seconds_left: int
    region: str
    endpoint_override: str | None = None

    def __repr__(self) -> str:  # type: ignore[explicit-override]  # typing.override is Python 3.12's
        # A text of it may get into a log.
        return f"<{type(self).__name__} {self.access} {self.location} until {self.expires_at.isoformat()}>"

    def __reduce__(self) -> tuple[object, ...]:  # type: ignore[explicit-override]  # as above
        # Whatever is pickled may be written to disk, or shown in a plan.
        raise TypeError("credentials are not pickled; ask for them in each process")
