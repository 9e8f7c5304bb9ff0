"""Calls of the server itself: its clock, and whether it serves."""

from __future__ import annotations

from chronolake.calls.base import Call
from chronolake_model.instants import TimeInterval


def time() -> Call[TimeInterval]:
    """The TrueTime interval."""
    return Call("GET", "/v1/time", TimeInterval)


def ready() -> Call[None]:
    """Whether the server serves; it refuses with ``MetastoreMoved`` if it only reads."""
    return Call("GET", "/ready", type(None))
