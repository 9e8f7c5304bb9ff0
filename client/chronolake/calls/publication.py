"""Calls of publications."""

from __future__ import annotations

from chronolake.calls.base import Call, post, query, table_path
from chronolake_model.publication import (
    Publication,
    PublicationFiles,
    PublicationLease,
    PublicationPartitions,
    PublicationSteps,
    ReportPublication,
    TakePublicationLease,
)


def get(name: str) -> Call[Publication]:
    """How far a table is published."""
    return Call("GET", f"{table_path(name)}/publication", Publication)


def take_lease(name: str, body: TakePublicationLease) -> Call[PublicationLease]:
    """Become the publisher of a table; the request may be repeated."""
    return post(f"{table_path(name)}/publication/lease", PublicationLease, body, is_query=True)


def steps(name: str, after: int) -> Call[PublicationSteps]:
    """The steps after a version."""
    return Call("GET", f"{table_path(name)}/publication/steps", PublicationSteps, query(after=after))


def files(name: str, after: int) -> Call[PublicationFiles]:
    """The files of ``.hoodie`` that the published events after a version have left."""
    return Call("GET", f"{table_path(name)}/publication/files", PublicationFiles, query(after=after))


def partitions(name: str, after: str) -> Call[PublicationPartitions]:
    """The metadata of the partitions after a path."""
    path = f"{table_path(name)}/publication/partitions"
    return Call("GET", path, PublicationPartitions, query(after=after))


def report(name: str, body: ReportPublication) -> Call[Publication]:
    """Report that steps are executed; the request may be repeated."""
    return post(f"{table_path(name)}/publication", Publication, body, is_query=True)
