"""/v1/tables/{table}/snapshot and /changes"""

from __future__ import annotations

from typing import Annotated

from litestar import get
from litestar.di import NamedDependency
from litestar.params import QueryParameter

from chronolake_metastore import errors
from chronolake_metastore.api import parameters, problems
from chronolake_metastore.api.parameters import Cursor, FilesLimit, TableInPath, time_parameter
from chronolake_metastore.queries import files as queries
from chronolake_metastore.store.engine import Database
from chronolake_model.files import Changes, Snapshot
from chronolake_model.problems import ProblemCode

TAGS = ["Files"]


@get(
    "/tables/{table:str}/snapshot",
    summary="The live file slices",
    tags=TAGS,
    responses=problems.of_query(ProblemCode.TABLE_NOT_FOUND, ProblemCode.INVALID_CURSOR),
)
async def get_snapshot(
    table: TableInPath,
    database: NamedDependency[Database],
    as_of: Annotated[
        str | None,
        time_parameter("as_of", "A completion time: exactly what completed at it or before is seen."),
    ] = None,
    partition_path: Annotated[str | None, QueryParameter(description="Only this partition.")] = None,
    limit: FilesLimit = parameters.FILES_PAGE_DEFAULT,
    cursor: Cursor = None,
) -> Snapshot:
    """The file slices that are live as of a completion time, now unless one is given, page by page."""
    time = parameters.optional_time("as_of", as_of)
    if partition_path is not None and "\0" in partition_path:
        raise errors.InvalidParameter("a partition path holds no character U+0000", parameter="partition_path")
    return await queries.snapshot(database, parameters.table(table), time, partition_path, limit, cursor)


@get(
    "/tables/{table:str}/changes",
    summary="What changed between two completion times",
    tags=TAGS,
    responses=problems.of_query(ProblemCode.TABLE_NOT_FOUND, ProblemCode.INVALID_CURSOR),
)
async def get_changes(
    table: TableInPath,
    database: NamedDependency[Database],
    after: Annotated[
        str | None,
        time_parameter("from", "Completed later than this; the table's beginning unless given."),
    ] = None,
    until: Annotated[
        str | None, time_parameter("to", "Completed at this time or before; now unless given.")
    ] = None,
    limit: FilesLimit = parameters.FILES_PAGE_DEFAULT,
    cursor: Cursor = None,
) -> Changes:
    """The file groups touched by completions in (from, to], each before and after, page by page."""
    start, end = parameters.optional_time("from", after), parameters.optional_time("to", until)
    if start is not None and end is not None and start > end:
        raise errors.InvalidParameter("the range (from, to] ends before it begins", parameter="to")
    return await queries.changes(database, parameters.table(table), start, end, limit, cursor)
