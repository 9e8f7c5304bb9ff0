"""/v1/tables/{table}/instants/{instant}/deletions"""

from __future__ import annotations

from typing import Annotated

from litestar import Response
from litestar.di import NamedDependency
from litestar.params import JSONBody, QueryParameter
from msgspec.structs import asdict

from chronolake_metastore.api import parameters
from chronolake_metastore.api.callers import Caller
from chronolake_metastore.api.parameters import Cursor, FilesLimit, RequestedTimeInPath, TableInPath
from chronolake_metastore.api.routes import route
from chronolake_metastore.domain.deletions import ReportDeletions
from chronolake_metastore.queries import deletions as queries
from chronolake_model import markers as wire, operations
from chronolake_model.markers import DeletedFilePage, ReportedDeletions


@route(operations.files.REPORT_DELETIONS)
async def report_deletions(
    table: TableInPath,
    requested_time: RequestedTimeInPath,
    data: JSONBody[wire.ReportDeletions],
    keyed_caller: NamedDependency[Caller],
) -> Response[ReportedDeletions]:
    """Record that marked or planned files were deleted from storage, and remove their markers.

    A write reports files of its failed attempts, before it completes. A rollback reports the files that its
    target has marked, or the data files of its target that its plan names. A clean reports the files of its
    plan. Late files may be reported after the completion too. A file may be reported again, and is recorded
    again.
    """
    time = parameters.instant_time("requested_time", requested_time)
    return await keyed_caller.execute(ReportDeletions(parameters.table(table), time, **asdict(data)))


@route(operations.files.LIST_DELETIONS)
async def list_deletions(
    *,
    table: TableInPath,
    requested_time: RequestedTimeInPath,
    caller: NamedDependency[Caller],
    unpublished: Annotated[
        bool,
        QueryParameter(
            description="Without those that the instant has published after all: the second execution of a "
            "plan writes under the names of the first."
        ),
    ] = False,
    limit: FilesLimit = parameters.FILES_PAGE_DEFAULT,
    cursor: Cursor = None,
) -> DeletedFilePage:
    """The files of an instant that were reported as deleted, each once, by partition path and file name.

    For a rollback, the files of its target. A late task may finish a file of such a name again.
    """
    time = parameters.instant_time("requested_time", requested_time)
    return await caller.read(
        queries.page, parameters.table(table), time, limit, cursor, unpublished=unpublished
    )
