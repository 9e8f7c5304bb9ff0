"""Calls of the files, file groups and instants of a plan."""

from __future__ import annotations

from chronolake.calls import base
from chronolake.calls.base import Call, instant_path, query
from chronolake_model.instants import PlannedFileGroups, PlannedFiles, PlannedInstants


def files(name: str, requested_time: str) -> Call[PlannedFiles]:
    """The files that the plan of a rollback or a clean deletes."""
    path = f"{instant_path(name, requested_time)}/plan/files"
    return Call("GET", path, PlannedFiles, query(limit=base.FILES_LIMIT_MAX))


def file_groups(name: str, requested_time: str) -> Call[PlannedFileGroups]:
    """The file groups that the plan of an instant names."""
    path = f"{instant_path(name, requested_time)}/plan/file-groups"
    return Call("GET", path, PlannedFileGroups, query(limit=base.FILES_LIMIT_MAX))


def instants(name: str, requested_time: str) -> Call[PlannedInstants]:
    """The instants that a restore rolled back."""
    path = f"{instant_path(name, requested_time)}/plan/instants"
    return Call("GET", path, PlannedInstants, query(limit=base.FILES_LIMIT_MAX))
