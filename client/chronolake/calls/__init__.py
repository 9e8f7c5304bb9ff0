"""The REST API, written once, as values: each function says what to send and what comes back."""

from __future__ import annotations

from chronolake.calls import (
    base,
    cleans,
    clock,
    deletions,
    events,
    files,
    instants,
    markers,
    namespaces,
    outcomes,
    plans,
    readers,
    savepoints,
    schemas,
    sweeps,
    tables,
)

__all__ = [
    "base",
    "cleans",
    "clock",
    "deletions",
    "events",
    "files",
    "instants",
    "markers",
    "namespaces",
    "outcomes",
    "plans",
    "readers",
    "savepoints",
    "schemas",
    "sweeps",
    "tables",
]
