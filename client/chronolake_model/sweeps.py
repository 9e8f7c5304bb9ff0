"""Sweeps: a second look for files that a task finished late (docs/architecture.md#background-workers)."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from chronolake_model.instants import InstantTime
from chronolake_model.markers import DELETIONS_MAX, DeletedFile
from chronolake_model.vocabulary import (
    GRACE_PROPERTY,
    GRACE_SECONDS_DEFAULT,
    GRACE_SECONDS_MAX,
    Action,
    State,
)

__all__ = ["GRACE_PROPERTY", "GRACE_SECONDS_DEFAULT", "GRACE_SECONDS_MAX"]
"""Words of the vocabulary that these bodies have."""


class UnsweptInstant(msgspec.Struct, frozen=True):
    """An ended instant, and the time of its last reported deletion.

    ``direct_markers_of`` is the instant whose markers in storage must be read too, or null: the server does not
    know markers that its writer has created there since.
    """

    requested_time: str
    action: Action
    state: State
    unswept_since: str
    direct_markers_of: str | None = None


class UnsweptPage(msgspec.Struct, frozen=True):
    """Instants that are due to be swept, the longest due first."""

    table: str
    instants: list[UnsweptInstant]
    next_cursor: str | None


class RecordSweep(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Record that a sweep has checked the deleted files of an instant again.

    ``late_files`` are the files that existed; they are deleted and recorded again, and the instant is due for
    another sweep after a grace period. Without late files the instant is swept, unless a file was deleted after
    ``unswept_since``.
    """

    unswept_since: Annotated[InstantTime, Meta(description="The value from the list of due instants.")]
    late_files: Annotated[list[DeletedFile], Meta(max_length=DELETIONS_MAX)] = []


class RecordedSweep(msgspec.Struct, frozen=True):
    """A recorded sweep; ``unswept_since`` is null if no name is left to check."""

    table: str
    requested_time: str
    late_files: int
    unswept_since: str | None


class LateFile(msgspec.Struct, frozen=True):
    """A file that came after it had been deleted, or marked in storage; ``failure`` says why it is there."""

    path: str
    requested_time: str
    failure: str | None = None


class Swept(msgspec.Struct, frozen=True):
    """The result of a sweep of a table: the numbers of instants and names, and the files that existed."""

    table: str
    instants: int
    names: int
    late_files: list[LateFile]
