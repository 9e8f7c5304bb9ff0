"""Bodies of the REST API for readers: the time as of which each reads, so that no clean deletes the files."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from chronolake_model.instants import LEASE_SECONDS_DEFAULT, InstantTime
from chronolake_model.names import decoder_pattern
from chronolake_model.times import READ_TIME_PATTERN

ReaderLeaseSeconds = Annotated[
    int, Meta(ge=1, le=604_800, description="How long the reader may stay silent, in seconds.")
]


class BeginReading(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Take a lease: while it runs, no clean deletes the files of the table as of a completion time.

    With ``follows``, no clean deletes files that the table has as of that time or any later one.
    """

    reader: Annotated[
        str, Meta(min_length=1, max_length=255, description="The reader: a job, a host, a process.")
    ]
    as_of: Annotated[
        Annotated[str, Meta(pattern=decoder_pattern(READ_TIME_PATTERN))] | None,
        Meta(description="A completion time, 17 or 20 digits, earliest or latest. Default: latest."),
    ] = None
    lease_seconds: ReaderLeaseSeconds = LEASE_SECONDS_DEFAULT
    follows: Annotated[
        bool, Meta(description="Hold all later times too, for a reader that follows the changes.")
    ] = False


class RenewReading(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Renew a reader's lease, from now on; without ``lease_seconds`` for as long as before."""

    lease_seconds: ReaderLeaseSeconds | None = None
    as_of: Annotated[
        InstantTime | None,
        Meta(description="Move a lease that follows the changes forward to this completion time."),
    ] = None


class ReaderLease(msgspec.Struct, frozen=True):
    """The lease of a reader. ``as_of`` is the completion time to read as of; null if nothing had completed.

    A lease that ``follows`` the changes holds that time and all later ones.
    """

    table: str
    lease_id: str
    reader: str
    as_of: str | None
    lease_seconds: int
    expires_at: datetime
    follows: bool = False


class EndedReading(msgspec.Struct, frozen=True):
    """Whether there was a lease, which has ended now."""

    released: bool


class ReaderPage(msgspec.Struct, frozen=True):
    """Leases of a table's readers that have not ended, by their ids."""

    table: str
    readers: list[ReaderLease]
    next_cursor: str | None
