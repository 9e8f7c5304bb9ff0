"""Bodies of the REST API for readers: who says as of when it reads, so that no clean takes the files away."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from chronolake_model import patterns
from chronolake_model.instants import LEASE_SECONDS_DEFAULT
from chronolake_model.times import READ_TIME_PATTERN

ReaderLeaseSeconds = Annotated[
    int, Meta(ge=1, le=86_400, description="How long the reader may stay silent, in seconds.")
]


class BeginReading(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Take a lease: while it runs, no clean deletes the files of the table as of a completion time."""

    reader: Annotated[
        str, Meta(min_length=1, max_length=255, description="The reader: a job, a host, a process.")
    ]
    as_of: Annotated[
        Annotated[str, Meta(pattern=patterns.of_decoder(READ_TIME_PATTERN))] | None,
        Meta(description="A completion time, 17 or 20 digits, earliest or latest. Default: latest."),
    ] = None
    lease_seconds: ReaderLeaseSeconds = LEASE_SECONDS_DEFAULT


class RenewReading(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Renew a reader's lease, from now on; without ``lease_seconds`` for as long as before."""

    lease_seconds: ReaderLeaseSeconds | None = None


class ReaderLease(msgspec.Struct, frozen=True):
    """The lease of a reader. ``as_of`` is the completion time to read as of; null if nothing had completed."""

    table: str
    lease_id: str
    reader: str
    as_of: str | None
    lease_seconds: int
    expires_at: datetime


class EndedReading(msgspec.Struct, frozen=True):
    """Whether there was a lease, which has ended now."""

    released: bool


class ReaderPage(msgspec.Struct, frozen=True):
    """Leases of a table's readers that have not ended, by their ids."""

    table: str
    readers: list[ReaderLease]
    next_cursor: str | None
