"""/v1/tables/{table}/readers"""

from __future__ import annotations

import re
from typing import Final
from uuid import UUID

import msgspec
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody

from chronolake_metastore import errors
from chronolake_metastore.api import parameters
from chronolake_metastore.api.callers import Caller
from chronolake_metastore.api.parameters import Cursor, Limit, TableInPath
from chronolake_metastore.api.requests import read_time_in_body, time_in_body
from chronolake_metastore.api.routes import route
from chronolake_metastore.domain.commands import refuse_nul
from chronolake_metastore.notes import readers as notes
from chronolake_metastore.queries import readers as queries
from chronolake_model import operations
from chronolake_model.readers import BeginReading, EndedReading, ReaderLease, ReaderPage, RenewReading

_LEASE_ID: Final = re.compile(parameters.UUID_PATTERN)
LeaseInPath = FromPath[str]


@route(operations.files.BEGIN_READING)
async def begin_reading(
    table: TableInPath,
    data: JSONBody[BeginReading],
    caller: NamedDependency[Caller],
) -> ReaderLease:
    """Take a lease of a completion time.

    Until the lease ends, no clean deletes the files of the table as of that time; with `follows`, also of any
    later time, so that the changes since then can be read. A second request takes a second lease. A lease that
    is not renewed ends by itself.
    """
    refuse_nul(msgspec.json.encode(data))
    as_of = read_time_in_body("as_of", data.as_of)
    return await caller.note(notes.begin, parameters.table(table), data, as_of)


@route(operations.files.RENEW_READING)
async def renew_reading(
    table: TableInPath,
    lease_id: LeaseInPath,
    data: JSONBody[RenewReading],
    caller: NamedDependency[Caller],
) -> ReaderLease:
    """Renew a lease from now on, for the same duration unless the request has another.

    An ended lease is renewed too, unless a clean was planned since; then it is not found. With `as_of` a lease
    that follows the changes holds the times from there on; it never goes back.
    """
    refuse_nul(msgspec.json.encode(data))
    as_of = None if data.as_of is None else time_in_body("as_of", data.as_of)
    return await caller.note(notes.renew, parameters.table(table), _lease(lease_id), data, as_of)


@route(operations.files.END_READING)
async def end_reading(
    table: TableInPath, lease_id: LeaseInPath, caller: NamedDependency[Caller]
) -> EndedReading:
    """End a lease. The request may be repeated."""
    return await caller.note(notes.end, parameters.table(table), _lease(lease_id))


@route(operations.files.LIST_READERS)
async def list_readers(
    *,
    table: TableInPath,
    caller: NamedDependency[Caller],
    limit: Limit = parameters.PAGE_DEFAULT,
    cursor: Cursor = None,
) -> ReaderPage:
    """The leases that have not ended, page by page. The id of a lease is enough to end it."""
    return await caller.read(queries.page, parameters.table(table), limit, cursor)


def _lease(text: str) -> UUID:
    # UUID accepts other forms too, but only the form of the answer is valid.
    if not _LEASE_ID.fullmatch(text):
        raise errors.InvalidParameter(
            "lease_id: pass the lease_id of the answer that gave the lease", parameter="lease_id"
        )
    return UUID(text)
