"""Calls of savepoints, and of restores to them."""

from __future__ import annotations

from chronolake.calls.base import Call, post, table_path
from chronolake_model.instants import CreateSavepoint, Instant, ReleaseSavepoint, RestoreTable
from chronolake_model.times import parse_time


def create(name: str, body: CreateSavepoint) -> Call[Instant]:
    """Pin a completed instant."""
    if body.instant is not None:
        parse_time(body.instant)
    return post(f"{table_path(name)}/savepoints", Instant, body)


def release(name: str, requested_time: str, body: ReleaseSavepoint) -> Call[Instant]:
    """Release a savepoint."""
    parse_time(requested_time)
    return post(f"{table_path(name)}/savepoints/{requested_time}/release", Instant, body)


def restore(name: str, body: RestoreTable) -> Call[Instant]:
    """Restore the table to a savepoint."""
    parse_time(body.savepoint)
    return post(f"{table_path(name)}/restore", Instant, body)
