"""/v1/tables/{table}/partitions"""

from __future__ import annotations

from litestar.di import NamedDependency

from chronolake_metastore.api import parameters
from chronolake_metastore.api.callers import Caller
from chronolake_metastore.api.parameters import AsOf, Cursor, FilesLimit, TableInPath
from chronolake_metastore.api.routes import route
from chronolake_metastore.queries import partitions as queries
from chronolake_model import operations
from chronolake_model.slices import Partitions


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
    return await caller.read(queries.page, parameters.table(table), time, limit, cursor)
