"""Calls of the markers that the server keeps."""

from __future__ import annotations

from chronolake.calls import base
from chronolake.calls.base import Call, instant_path, post, query
from chronolake_model.markers import (
    CreatedMarkers,
    CreateMarkers,
    DeletedMarkers,
    Marker,
    MarkerExists,
    MarkerPage,
    check_marker,
)


def create(name: str, requested_time: str, body: CreateMarkers) -> Call[CreatedMarkers]:
    """Create markers of data files that will be written."""
    return post(f"{instant_path(name, requested_time)}/markers", CreatedMarkers, body, is_query=True)


def list_all(name: str, requested_time: str, unpublished: bool) -> Call[MarkerPage]:
    """The markers of an instant."""
    pairs = query(unpublished="true" if unpublished else None, limit=base.FILES_LIMIT_MAX)
    return Call("GET", f"{instant_path(name, requested_time)}/markers", MarkerPage, pairs)


def find(name: str, requested_time: str, marker: Marker) -> Call[MarkerExists]:
    """Whether an instant has a marker."""
    check_marker(marker)
    path = f"{instant_path(name, requested_time)}/marker"
    return Call("GET", path, MarkerExists, query(name=marker.name))


def delete(name: str, requested_time: str) -> Call[DeletedMarkers]:
    """Delete the markers of an instant that has ended."""
    path = f"{instant_path(name, requested_time)}/markers"
    return Call("DELETE", path, DeletedMarkers, is_query=True)
