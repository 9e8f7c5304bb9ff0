"""The REST API as values: each function gives a request and the type of its answer."""

from __future__ import annotations

from chronolake.calls import (
    adoption,
    base,
    cleans,
    clock,
    deletions,
    events,
    files,
    health,
    instants,
    markers,
    namespaces,
    outcomes,
    plans,
    publication,
    readers,
    savepoints,
    schemas,
    streams,
    sweeps,
    tables,
)

__all__ = [
    "adoption",
    "base",
    "cleans",
    "clock",
    "deletions",
    "events",
    "files",
    "health",
    "instants",
    "markers",
    "namespaces",
    "outcomes",
    "plans",
    "publication",
    "readers",
    "savepoints",
    "schemas",
    "streams",
    "sweeps",
    "tables",
]
