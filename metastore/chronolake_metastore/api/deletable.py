"""/v1/tables/{table}/deletable and /v1/tables/{table}/instants/{instant}/deletable"""

from __future__ import annotations

from collections.abc import Sequence

from litestar.di import NamedDependency
from litestar.params import JSONBody

from chronolake_metastore import errors
from chronolake_metastore.api import parameters
from chronolake_metastore.api.callers import Caller
from chronolake_metastore.api.parameters import RequestedTimeInPath, TableInPath
from chronolake_metastore.api.routes import route
from chronolake_metastore.queries import deletable as queries
from chronolake_model import operations
from chronolake_model.deletable import Deletable, FindDeletable, FindDeletableOrphans
from chronolake_model.markers import DeletedFile


@route(operations.files.FIND_DELETABLE)
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


@route(operations.files.FIND_DELETABLE_ORPHANS)
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
