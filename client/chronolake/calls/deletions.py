"""Calls of files that may be deleted, and of deletions."""

from __future__ import annotations

from chronolake.calls import base
from chronolake.calls.base import Call, instant_path, post, query, table_path
from chronolake_model.deletable import Deletable, FindDeletable, FindDeletableOrphans
from chronolake_model.markers import DeletedFilePage, ReportDeletions, ReportedDeletions


def deletable(name: str, requested_time: str, body: FindDeletable) -> Call[Deletable]:
    """Ask which files may be deleted for an instant."""
    return post(f"{instant_path(name, requested_time)}/deletable", Deletable, body, is_query=True)


def deletable_orphans(name: str, body: FindDeletableOrphans) -> Call[Deletable]:
    """Ask which orphans may be deleted."""
    return post(f"{table_path(name)}/deletable", Deletable, body, is_query=True)


def report(name: str, requested_time: str, body: ReportDeletions) -> Call[ReportedDeletions]:
    """Report files that were deleted from storage."""
    return post(f"{instant_path(name, requested_time)}/deletions", ReportedDeletions, body)


def list_all(name: str, requested_time: str, *, unpublished: bool = False) -> Call[DeletedFilePage]:
    """The files of an instant that were reported deleted."""
    path = f"{instant_path(name, requested_time)}/deletions"
    pairs = query(unpublished="true" if unpublished else None, limit=base.FILES_LIMIT_MAX)
    return Call("GET", path, DeletedFilePage, pairs)
