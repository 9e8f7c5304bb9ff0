"""Calls of sweeps."""

from __future__ import annotations

from chronolake.calls import base
from chronolake.calls.base import Call, instant_path, post, query, table_path
from chronolake_model.sweeps import RecordedSweep, RecordSweep, UnsweptPage


def list_unswept(name: str, grace_seconds: int | None) -> Call[UnsweptPage]:
    """The instants whose deleted files are due to be looked for once more."""
    pairs = query(grace_seconds=grace_seconds, limit=base.LIMIT_MAX)
    return Call("GET", f"{table_path(name)}/unswept", UnsweptPage, pairs)


def record(name: str, requested_time: str, body: RecordSweep) -> Call[RecordedSweep]:
    """Say that deleted files were looked for once more, and which were there."""
    return post(f"{instant_path(name, requested_time)}/sweep", RecordedSweep, body)
