"""Calls of the leases of readers."""

from __future__ import annotations

from chronolake.calls import base
from chronolake.calls.base import Call, post, query, table_path
from chronolake_model.readers import BeginReading, EndedReading, ReaderLease, ReaderPage, RenewReading


def begin(name: str, body: BeginReading) -> Call[ReaderLease]:
    """Take a reader's lease; a repeated request takes another lease, and the first one ends by itself."""
    return post(f"{table_path(name)}/readers", ReaderLease, body, is_query=True)


def renew(name: str, lease_id: str, body: RenewReading) -> Call[ReaderLease]:
    """Renew the lease of a reader."""
    return post(f"{table_path(name)}/readers/{lease_id}/heartbeat", ReaderLease, body, is_query=True)


def end(name: str, lease_id: str) -> Call[EndedReading]:
    """Release a reader's lease."""
    return Call("DELETE", f"{table_path(name)}/readers/{lease_id}", EndedReading, is_query=True)


def list_all(name: str) -> Call[ReaderPage]:
    """The leases of readers that have not ended."""
    return Call("GET", f"{table_path(name)}/readers", ReaderPage, query(limit=base.LIMIT_MAX))
