"""Bodies of the REST API for cleans: which files of the past may go, by which policy."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from chronolake_model.instants import LEASE_SECONDS_DEFAULT, Instant, LeaseSeconds, Writer
from chronolake_model.vocabulary import (
    FILES_TO_CLEAN_MAX,
    RETAIN_COMMITS_DEFAULT,
)

__all__ = ["FILES_TO_CLEAN_MAX", "RETAIN_COMMITS_DEFAULT"]
"""Words of the vocabulary that these bodies have."""


class CleanPolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The retention of a clean: one of three policies. Default: the last 10 commits.

    ``retain_commits`` keeps files that were live at the N-th newest completed write or later, ``retain_hours``
    files that were live in the last H hours, ``retain_versions`` the newest V file slices of each file group,
    and nothing of replaced groups.
    """

    retain_commits: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    retain_hours: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    retain_versions: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None

    def __post_init__(self) -> None:
        given = (self.retain_commits, self.retain_hours, self.retain_versions)
        if sum(limit is not None for limit in given) > 1:
            raise ValueError("retain_commits, retain_hours and retain_versions: give one of them")


class PlanClean(CleanPolicy, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """Plan a clean, or continue the pending one."""

    writer: Writer
    lease_seconds: LeaseSeconds = LEASE_SECONDS_DEFAULT
    execute: Annotated[
        bool,
        Meta(
            description="Whether the caller deletes the files. If not, the plan waits in requested, without a "
            "lease."
        ),
    ] = True


class PlannedClean(msgspec.Struct, frozen=True):
    """The clean that was planned or pending; its plan names the files. Null if there is nothing to clean."""

    table: str
    clean: Instant | None


class CleanPreview(msgspec.Struct, frozen=True):
    """The files that a clean would delete now. The next clean may differ.

    ``cleaned_before`` is the first completion time that the table would be served as of. ``has_more`` says that
    files would be left for the next clean: one clean deletes at most 10,000.
    """

    table: str
    cleaned_before: str | None
    files_to_delete: list[str]
    size_bytes: int
    has_more: bool
