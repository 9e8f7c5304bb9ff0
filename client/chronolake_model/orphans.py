"""Files in a table's storage that nothing published accounts for, and why."""

from __future__ import annotations

import enum

import msgspec


class OrphanReason(enum.StrEnum):
    """Why a file in storage was not published."""

    ROLLED_BACK = "rolled-back"
    """Its instant was rolled back."""
    NOT_NAMED = "not-named"
    """Its instant has completed and does not name it: of a failed or repeated attempt of a task."""
    UNKNOWN_INSTANT = "unknown-instant"
    """The table's timeline has no such instant: of another table, perhaps."""
    DROPPED_TABLE = "dropped-table"
    """It is of a dropped table whose base path overlaps with this table's: it is never deleted."""
    PENDING = "pending"
    """Its instant was pending, and may publish it yet: accounted for as long as the lease runs."""
    LEASE_ENDED = "lease-ended"
    """Its instant is pending, and its lease has ended: it waits to be rolled back."""
    NOT_A_DATA_FILE = "not-a-data-file"
    """It has no data file's name: not the table's."""


SAFE_TO_DELETE = frozenset({OrphanReason.ROLLED_BACK, OrphanReason.NOT_NAMED})
"""Reasons of files that are certainly this table's, and can never be published."""


class Orphan(msgspec.Struct, frozen=True):
    """A file that nothing published accounts for."""

    path: str
    size_bytes: int
    reason: OrphanReason
    requested_time: str | None
    """Its instant, by its name."""
    has_marker: bool | None = None
    """Whether a marker of the instant, with the server, announced it; None when it has no instant."""
    deleted: bool = False
    failure: str | None = None
    """Why it could not be deleted."""


class OrphanTotal(msgspec.Struct, frozen=True):
    """How many files of a reason there are, and their bytes."""

    reason: OrphanReason
    files: int
    size_bytes: int


class Orphans(msgspec.Struct, frozen=True):
    """The files below a table's base path that were not published by ``as_of``, its last completion."""

    table: str
    as_of: str | None
    files_listed: int
    totals: list[OrphanTotal]
    orphans: list[Orphan]
