"""/v1/tables/{table}/scan"""

from __future__ import annotations

from typing import Any

import msgspec
from litestar import Request
from litestar.di import NamedDependency
from litestar.params import JSONBody
from litestar.response import Stream

from chronolake_metastore.api import arrow_answers, parameters
from chronolake_metastore.api.callers import Caller
from chronolake_metastore.api.parameters import TableInPath
from chronolake_metastore.api.requests import read_time_in_body
from chronolake_metastore.api.routes import route
from chronolake_metastore.domain.commands import refuse_nul
from chronolake_metastore.queries import file_streams, files as queries
from chronolake_model import operations
from chronolake_model.files import Snapshot
from chronolake_model.scans import Scan


@route(operations.files.SCAN_FILES)
async def scan(
    request: Request[Any, Any, Any],
    table: TableInPath,
    data: JSONBody[Scan],
    caller: NamedDependency[Caller],
) -> Snapshot | Stream:
    """The snapshot of a table, page by page, without the slices that could not match the filter.

    It is pruned by partition paths and by column stats. A slice without enough information stays.

    A request that accepts `application/vnd.apache.arrow.stream` gets them all in one answer instead, a row for
    each data file; `limit` is ignored.
    """
    # The check of the filter names the place of such a text.
    refuse_nul(msgspec.json.encode(msgspec.structs.replace(data, filter=None)))
    as_of = read_time_in_body("as_of", data.as_of)
    name = parameters.table(table)
    if arrow_answers.wants_arrow(request, data.cursor):
        return arrow_answers.Arrow(await caller.read(file_streams.scan, name, data, as_of))
    return await caller.read(queries.scan, name, data, as_of)
