"""/v1/tables/{table}/deletable and /v1/tables/{table}/instants/{instant}/deletable"""

from __future__ import annotations

from collections.abc import Sequence

from litestar import post
from litestar.di import NamedDependency
from litestar.params import JSONBody

from chronolake_metastore import errors
from chronolake_metastore.api import parameters, problems
from chronolake_metastore.api.callers import Caller
from chronolake_metastore.api.markers import TAGS
from chronolake_metastore.api.parameters import RequestedTimeInPath, TableInPath
from chronolake_metastore.queries import deletable as queries
from chronolake_model.deletable import Deletable, FindDeletable, FindDeletableOrphans
from chronolake_model.markers import DeletedFile
from chronolake_model.problems import ProblemCode

_REFUSALS = (
    ProblemCode.TABLE_NOT_FOUND,
    ProblemCode.BASE_PATH_SHARED,
    ProblemCode.METASTORE_MOVED,
    ProblemCode.ILLEGAL_TRANSITION,
    ProblemCode.INVALID_REQUEST,
    ProblemCode.BODY_TOO_LARGE,
)


@post(
    "/tables/{table:str}/instants/{requested_time:str}/deletable",
    summary="Ask which files may be deleted",
    status_code=200,
    tags=TAGS,
    responses=problems.of_query(*_REFUSALS, ProblemCode.INSTANT_NOT_FOUND),
)
async def find_deletable(
    table: TableInPath,
    requested_time: RequestedTimeInPath,
    data: JSONBody[FindDeletable],
    caller: NamedDependency[Caller],
) -> Deletable:
    """Which files of a list may not be deleted for an instant, and why. All others may.

    A rollback deletes files of its target, a clean those of its plan, and a write those of its own attempts
    that it does not publish. Ask before each deletion. Nothing changes.
    """
    time = parameters.instant_time("requested_time", requested_time)
    _refuse_nul(data.files, data.writer)
    return await caller.read(queries.find_deletable, parameters.table(table), time, data)


@post(
    "/tables/{table:str}/deletable",
    summary="Ask which orphans may be deleted",
    status_code=200,
    tags=TAGS,
    responses=problems.of_query(*_REFUSALS),
)
async def find_deletable_orphans(
    table: TableInPath,
    data: JSONBody[FindDeletableOrphans],
    caller: NamedDependency[Caller],
) -> Deletable:
    """Which files of a list may not be deleted as orphans, each by the instant in its name. All others may.

    Ask before each deletion. Nothing changes.
    """
    _refuse_nul(data.files)
    return await caller.read(queries.find_deletable_orphans, parameters.table(table), data)


def _refuse_nul(files: Sequence[DeletedFile], writer: str | None = None) -> None:
    texts = (text for file in files for text in (file.partition_path, file.file_name))
    if "\0" in (writer or "") or any("\0" in text for text in texts):
        raise errors.InvalidRequest(
            "a text contains the character U+0000, which is not allowed in names of files and writers"
        )
