"""Calls of sweeps."""

from __future__ import annotations

from chronolake.calls import base
from chronolake.calls.base import Call, instant_path, post, query, table_path
from chronolake_model.sweeps import RecordedSweep, RecordSweep, UnsweptPage


def list_unswept(name: str, grace_seconds: int | None) -> Call[UnsweptPage]:
    """The instants that are due for a sweep."""
    pairs = query(grace_seconds=grace_seconds, limit=base.LIMIT_MAX)
    return Call("GET", f"{table_path(name)}/unswept", UnsweptPage, pairs)


def record(name: str, requested_time: str, body: RecordSweep) -> Call[RecordedSweep]:
    """Report a sweep of an instant, and the late files that it deleted."""
    return post(f"{instant_path(name, requested_time)}/sweep", RecordedSweep, body)
