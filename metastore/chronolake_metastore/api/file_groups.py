"""/v1/tables/{table}/file-groups, /replaced-file-groups, /pending-file-groups, /partitions, and conflicts"""

from __future__ import annotations

from typing import Annotated

import msgspec
from litestar.di import NamedDependency
from litestar.params import JSONBody, QueryParameter

from chronolake_metastore.api import parameters
from chronolake_metastore.api.callers import Caller
from chronolake_metastore.api.parameters import AsOf, Cursor, FilesLimit, RequestedTimeInPath, TableInPath
from chronolake_metastore.api.requests import read_time_in_body
from chronolake_metastore.api.routes import route
from chronolake_metastore.domain.commands import refuse_nul
from chronolake_metastore.queries import (
    conflicts as queried_conflicts,
    file_groups as queries,
    partitions as queried_partitions,
)
from chronolake_model import operations
from chronolake_model.instants import Conflicts, FindConflicts
from chronolake_model.slices import (
    FileGroupHistory,
    FindFileGroups,
    FoundFileGroups,
    Partitions,
    PendingFileGroups,
    ReplacedFileGroups,
)


@route(operations.files.FIND_FILE_GROUPS)
async def find_file_groups(
    table: TableInPath,
    data: JSONBody[FindFileGroups],
    caller: NamedDependency[Caller],
) -> FoundFileGroups:
    """The live slices of file groups as of a completion time (default: now), page by page.

    For writers: a request that names what one task writes costs the same in a table of any size. File groups
    are named by their file ids or, with a bucket index, by their buckets. Of a bucket the answer also has the
    file group that was replaced last: the file id of its next file group counts on from there.
    """
    refuse_nul(msgspec.json.encode(data))
    as_of = read_time_in_body("as_of", data.as_of)
    return await caller.read(queries.find, parameters.table(table), data, as_of)


@route(operations.files.GET_FILE_GROUP)
async def get_history(
    table: TableInPath,
    caller: NamedDependency[Caller],
    file_id: Annotated[str, QueryParameter(min_length=1, max_length=255, description="The file group.")],
    partition_path: Annotated[str, QueryParameter(description="Its partition path.")] = "",
    as_of: AsOf = None,
    limit: FilesLimit = parameters.FILES_PAGE_DEFAULT,
    cursor: Cursor = None,
) -> FileGroupHistory:
    """All slices that a file group has or had, the oldest first, and its replacement, page by page."""
    group = parameters.plain_text("partition_path", partition_path), parameters.plain_text("file_id", file_id)
    time = parameters.optional_read_time("as_of", as_of)
    return await caller.read(queries.history, parameters.table(table), group, time, limit, cursor)


@route(operations.files.LIST_REPLACED_FILE_GROUPS)
async def list_replaced(
    table: TableInPath,
    caller: NamedDependency[Caller],
    as_of: AsOf = None,
    limit: FilesLimit = parameters.FILES_PAGE_DEFAULT,
    cursor: Cursor = None,
) -> ReplacedFileGroups:
    """The file groups that were replaced as of a completion time, each with its replacement, page by page."""
    time = parameters.optional_read_time("as_of", as_of)
    return await caller.read(queries.replaced, parameters.table(table), time, limit, cursor)


@route(operations.files.LIST_PENDING_FILE_GROUPS)
async def list_pending(
    table: TableInPath,
    caller: NamedDependency[Caller],
    as_of: AsOf = None,
    limit: FilesLimit = parameters.FILES_PAGE_DEFAULT,
    cursor: Cursor = None,
) -> PendingFileGroups:
    """The file groups in plans that had been requested, and neither completed nor rolled back, page by page."""
    time = parameters.optional_read_time("as_of", as_of)
    return await caller.read(queries.pending, parameters.table(table), time, limit, cursor)


@route(operations.timeline.FIND_CONFLICTS)
async def find_conflicts(
    table: TableInPath,
    requested_time: RequestedTimeInPath,
    data: JSONBody[FindConflicts],
    caller: NamedDependency[Caller],
) -> Conflicts:
    """Whether completing the instant with these file groups would conflict now. Nothing changes."""
    refuse_nul(msgspec.json.encode(data))
    time = parameters.instant_time("requested_time", requested_time)
    return await caller.read(queried_conflicts.find, parameters.table(table), time, data)


@route(operations.files.LIST_PARTITIONS)
async def list_partitions(
    table: TableInPath,
    caller: NamedDependency[Caller],
    as_of: AsOf = None,
    limit: FilesLimit = parameters.FILES_PAGE_DEFAULT,
    cursor: Cursor = None,
) -> Partitions:
    """The partition paths that have live file slices as of a completion time, by name, page by page."""
    time = parameters.optional_read_time("as_of", as_of)
    return await caller.read(queried_partitions.page, parameters.table(table), time, limit, cursor)
