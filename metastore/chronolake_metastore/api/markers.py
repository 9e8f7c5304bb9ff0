"""/v1/tables/{table}/instants/{instant}/markers"""

from __future__ import annotations

from typing import Annotated

import msgspec
from litestar import Response
from litestar.di import NamedDependency
from litestar.params import JSONBody, QueryParameter

from chronolake_metastore import errors
from chronolake_metastore.api import parameters
from chronolake_metastore.api.callers import Caller
from chronolake_metastore.api.parameters import Cursor, FilesLimit, RequestedTimeInPath, TableInPath
from chronolake_metastore.api.routes import route
from chronolake_metastore.batching.markers import outcome
from chronolake_metastore.notes import markers as notes
from chronolake_metastore.queries import markers as queries
from chronolake_model import markers as wire, operations
from chronolake_model.markers import (
    CreatedMarkers,
    DeletedMarkers,
    Marker,
    MarkerExists,
    MarkerPage,
    parse_marker,
)


@route(operations.files.CREATE_MARKERS)
async def create_markers(
    table: TableInPath,
    requested_time: RequestedTimeInPath,
    data: JSONBody[wire.CreateMarkers],
    caller: NamedDependency[Caller],
) -> Response[CreatedMarkers]:
    """Announce data files before they are written. The answer comes when the markers are durable.

    All of them are created, or none. The request may be repeated: the answer distinguishes new and existing
    markers. 410 means that the instant was rolled back, and the writer must stop. If the table has the property
    `markers.early-conflict-detection`, the answer is 409 if another pending instant has marked one of the file
    groups, or another instant has written it since this one began.
    """
    time = parameters.instant_time("requested_time", requested_time)
    _refuse_nul(data)
    are_new = await caller.service.create_markers(
        caller.ctx, parameters.table(table), time, data.markers, data.writer
    )
    body = msgspec.json.encode(CreatedMarkers([outcome(is_new) for is_new in are_new]))
    return Response(body, media_type="application/json")  # type: ignore[arg-type]  # encoded here, and not again


@route(operations.files.LIST_MARKERS)
async def list_markers(
    *,
    table: TableInPath,
    requested_time: RequestedTimeInPath,
    caller: NamedDependency[Caller],
    unpublished: Annotated[
        bool,
        QueryParameter(
            description=(
                "Only markers whose data files the instant has not published. Failed or repeated attempts of "
                "tasks may have left these files."
            )
        ),
    ] = False,
    limit: FilesLimit = parameters.FILES_PAGE_DEFAULT,
    cursor: Cursor = None,
) -> MarkerPage:
    """The markers of an instant, by partition path and file name, page by page.

    A pending instant may get more markers, also on pages that were already read. An ended one gets no more; its
    completion deletes them, if they are at most 1,000.
    """
    time = parameters.instant_time("requested_time", requested_time)
    return await caller.read(
        queries.page, parameters.table(table), time, limit, cursor, unpublished=unpublished
    )


@route(operations.files.FIND_MARKER)
async def find_marker(
    table: TableInPath,
    requested_time: RequestedTimeInPath,
    name: Annotated[
        str,
        QueryParameter(description="`<partition path>/<data file name>.marker.<CREATE|MERGE|APPEND>`"),
    ],
    caller: NamedDependency[Caller],
) -> MarkerExists:
    """Whether the instant has a marker of this name."""
    time = parameters.instant_time("requested_time", requested_time)
    return await caller.read(queries.find, parameters.table(table), time, _marker(name))


@route(operations.files.DELETE_MARKERS)
async def delete_markers(
    table: TableInPath,
    requested_time: RequestedTimeInPath,
    caller: NamedDependency[Caller],
) -> DeletedMarkers:
    """Delete all markers of an instant that has ended, after its files were published or deleted.

    The completion of an instant has deleted its markers, if they were at most 1,000. The request may be
    repeated. Markers that were deleted before are not counted.
    """
    time = parameters.instant_time("requested_time", requested_time)
    return await caller.note(notes.delete, parameters.table(table), time)


def _refuse_nul(data: wire.CreateMarkers) -> None:
    # Not by another look at the body, as commands do: that costs a single marker more.
    texts = (text for marker in data.markers for text in (marker.partition_path, marker.file_name))
    if "\0" in (data.writer or "") or any("\0" in text for text in texts):
        raise errors.InvalidRequest("a text contains the character U+0000, which cannot be stored")


def _marker(name: str) -> Marker:
    try:
        return parse_marker(parameters.plain_text("name", name))
    except ValueError as exc:
        raise errors.InvalidParameter(f"name: {exc}", parameter="name") from exc
