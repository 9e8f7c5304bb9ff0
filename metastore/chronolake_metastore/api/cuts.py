"""/v1/cut"""

from __future__ import annotations

from typing import Annotated

from litestar.di import NamedDependency
from litestar.params import QueryParameter

from chronolake_metastore import errors
from chronolake_metastore.api import parameters
from chronolake_metastore.api.callers import Caller
from chronolake_metastore.api.parameters import Cursor, Limit
from chronolake_metastore.api.routes import route
from chronolake_metastore.queries import cuts as queries
from chronolake_model import operations
from chronolake_model.cuts import CUT_TABLES_MAX, Cut, names_of


@route(operations.catalog.TAKE_CUT)
async def take_cut(
    caller: NamedDependency[Caller],
    namespace: Annotated[str | None, QueryParameter(description="Only tables of this namespace.")] = None,
    tables: Annotated[
        str | None,
        QueryParameter(
            description=(
                f"Only these tables, at most {CUT_TABLES_MAX}: `namespace.table`, separated by commas. Not "
                "together with `namespace`."
            )
        ),
    ] = None,
    limit: Limit = parameters.PAGE_DEFAULT,
    cursor: Cursor = None,
) -> Cut:
    """The states of live tables at one position of the log: read each table as of its `as_of`.

    If an event is in the cut, so are all that precede it in the log of all tables. All pages are at one
    position. No request waits for a cut, nor a cut for a lock.
    """
    if namespace is not None and tables is not None:
        raise errors.InvalidParameter("give namespace or tables, not both", parameter="tables")
    within = None if namespace is None else parameters.namespace(namespace)
    return await caller.read(queries.page, within, _names(tables), limit, cursor)


def _names(tables: str | None) -> list[str] | None:
    try:
        return None if tables is None else names_of(tables)
    except ValueError as exc:
        raise errors.InvalidParameter(f"tables: {exc}", parameter="tables") from exc
