"""/v1/tables/{table}/snapshot and /changes"""

from __future__ import annotations

from typing import Annotated, Any

from litestar import Request
from litestar.di import NamedDependency
from litestar.params import QueryParameter
from litestar.response import Stream

from chronolake_metastore import errors
from chronolake_metastore.api import arrow_answers, parameters
from chronolake_metastore.api.callers import Caller
from chronolake_metastore.api.parameters import (
    Cursor,
    FilesLimit,
    TableInPath,
    read_time_parameter,
    time_parameter,
)
from chronolake_metastore.api.routes import route
from chronolake_metastore.queries import file_streams, files as queries, slices
from chronolake_metastore.queries.slices import SliceSelection
from chronolake_model import operations
from chronolake_model.files import ARROW, Changes, Snapshot
from chronolake_model.vocabulary import View


@route(operations.files.GET_SNAPSHOT)
async def get_snapshot(  # noqa: PLR0913, PLR0917  # one argument per parameter
    request: Request[Any, Any, Any],
    table: TableInPath,
    caller: NamedDependency[Caller],
    as_of: Annotated[
        str | None,
        read_time_parameter(
            "as_of",
            "A completion time. The answer shows exactly the instants that completed at or before it.",
        ),
    ] = None,
    partition_path: Annotated[str | None, QueryParameter(description="Only this partition path.")] = None,
    view: Annotated[View, QueryParameter(description="Which slice of each file group.")] = View.MERGED,
    before_or_on: Annotated[
        str | None,
        time_parameter("before_or_on", "Only slices whose base instant time is this or earlier."),
    ] = None,
    limit: FilesLimit = parameters.FILES_PAGE_DEFAULT,
    cursor: Cursor = None,
) -> Snapshot | Stream:
    """The file slices that are live as of a completion time (default: now), page by page.

    A request that accepts `application/vnd.apache.arrow.stream` gets them all in one answer instead, a row for
    each data file; of the merged view only.
    """
    name, time = parameters.table(table), parameters.optional_read_time("as_of", as_of)
    until = parameters.optional_time("before_or_on", before_or_on)
    if partition_path is not None:
        parameters.plain_text("partition_path", partition_path)
    is_merged = view is View.MERGED and until is None
    if arrow_answers.wants_arrow(request, cursor):
        if not is_merged:
            raise errors.InvalidParameter(
                "an answer as Arrow has only the merged view of all slices", parameter="view"
            )
        return arrow_answers.Arrow(await caller.read(file_streams.snapshot, name, time, partition_path))
    if is_merged:
        return await caller.read(queries.snapshot, name, time, partition_path, limit, cursor)
    wanted = SliceSelection(view, time, until, partition_path)
    return await caller.read(slices.snapshot, name, wanted, limit, cursor)


@route(operations.files.GET_PUBLISHED, media_type=ARROW)
async def get_published(table: TableInPath, caller: NamedDependency[Caller]) -> Stream:
    """A row for each data file that was ever published and is not cleaned, in no order, always as Arrow.

    The list includes superseded slices, replaced file groups, and files of instants that a restore undid: all
    files in storage that belong to the table.
    """
    return arrow_answers.Arrow(await caller.read(file_streams.published, parameters.table(table)))


@route(operations.files.GET_CHANGES)
async def get_changes(
    request: Request[Any, Any, Any],
    table: TableInPath,
    caller: NamedDependency[Caller],
    after: Annotated[
        str | None,
        read_time_parameter("from", "Completed later than this. Default: the table's beginning."),
    ] = None,
    until: Annotated[
        str | None, read_time_parameter("to", "Completed at this time or before. Default: now.")
    ] = None,
    limit: FilesLimit = parameters.FILES_PAGE_DEFAULT,
    cursor: Cursor = None,
) -> Changes | Stream:
    """The file groups touched by completions in (from, to], each before and after, page by page.

    A request that accepts `application/vnd.apache.arrow.stream` gets them all in one answer instead, a row for
    each data file of each side.
    """
    start, end = parameters.optional_read_time("from", after), parameters.optional_read_time("to", until)
    name = parameters.table(table)
    if arrow_answers.wants_arrow(request, cursor):
        return arrow_answers.Arrow(await caller.read(file_streams.changes, name, start, end))
    return await caller.read(queries.changes, name, start, end, limit, cursor)
