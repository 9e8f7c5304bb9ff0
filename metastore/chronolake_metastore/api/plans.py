"""/v1/tables/{table}/instants/{instant}/plan/..., and /replaced-file-groups of an instant"""

from __future__ import annotations

from litestar.di import NamedDependency

from chronolake_metastore.api import parameters
from chronolake_metastore.api.callers import Caller
from chronolake_metastore.api.parameters import Cursor, FilesLimit, RequestedTimeInPath, TableInPath
from chronolake_metastore.api.routes import route
from chronolake_metastore.queries import event_lists as queries
from chronolake_metastore.queries.event_lists import ListRequest
from chronolake_model import operations
from chronolake_model.instants import FileGroupsReplaced, PlannedFileGroups, PlannedFiles, PlannedInstants


@route(operations.timeline.LIST_PLANNED_FILE_GROUPS)
async def list_planned_file_groups(
    table: TableInPath,
    requested_time: RequestedTimeInPath,
    caller: NamedDependency[Caller],
    limit: FilesLimit = parameters.FILES_PAGE_DEFAULT,
    cursor: Cursor = None,
) -> PlannedFileGroups:
    """All file groups that the plan of an instant names, page by page; none when it has no plan."""
    return await caller.read(
        queries.planned_file_groups, parameters.table(table), _request_of(requested_time, limit, cursor)
    )


@route(operations.timeline.LIST_PLANNED_FILES)
async def list_planned_files(
    table: TableInPath,
    requested_time: RequestedTimeInPath,
    caller: NamedDependency[Caller],
    limit: FilesLimit = parameters.FILES_PAGE_DEFAULT,
    cursor: Cursor = None,
) -> PlannedFiles:
    """All files that the plan of a rollback or a clean deletes, page by page, in the order of the plan.

    The list includes files that were reported as deleted.
    """
    return await caller.read(
        queries.planned_files, parameters.table(table), _request_of(requested_time, limit, cursor)
    )


@route(operations.timeline.LIST_PLANNED_INSTANTS)
async def list_planned_instants(
    table: TableInPath,
    requested_time: RequestedTimeInPath,
    caller: NamedDependency[Caller],
    limit: FilesLimit = parameters.FILES_PAGE_DEFAULT,
    cursor: Cursor = None,
) -> PlannedInstants:
    """All instants that a restore rolled back, page by page, in that order."""
    return await caller.read(
        queries.planned_instants, parameters.table(table), _request_of(requested_time, limit, cursor)
    )


@route(operations.timeline.LIST_REPLACED_BY_INSTANT)
async def list_replaced_by_instant(
    table: TableInPath,
    requested_time: RequestedTimeInPath,
    caller: NamedDependency[Caller],
    limit: FilesLimit = parameters.FILES_PAGE_DEFAULT,
    cursor: Cursor = None,
) -> FileGroupsReplaced:
    """All file groups that an instant replaced when it completed, page by page."""
    return await caller.read(
        queries.replaced_file_groups, parameters.table(table), _request_of(requested_time, limit, cursor)
    )


def _request_of(requested_time: str, limit: int, cursor: str | None) -> ListRequest:
    return ListRequest(parameters.instant_time("requested_time", requested_time), limit, cursor)
