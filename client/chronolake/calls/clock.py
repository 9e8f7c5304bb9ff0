"""Calls of the server's clock."""

from __future__ import annotations

from chronolake.calls.base import Call
from chronolake_model.instants import TimeInterval


def time() -> Call[TimeInterval]:
    """The TrueTime interval."""
    return Call("GET", "/v1/time", TimeInterval)
