"""/v1/events"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

import msgspec
from litestar import get
from litestar.di import NamedDependency
from litestar.params import HeaderParameter, QueryParameter
from litestar.response import ServerSentEvent, ServerSentEventMessage

from chronolake_metastore import errors
from chronolake_metastore.api import parameters, problems
from chronolake_metastore.api.parameters import Limit
from chronolake_metastore.bell import Bell
from chronolake_metastore.queries import events as queries
from chronolake_metastore.store.engine import Database
from chronolake_model.events import EventPage
from chronolake_model.problems import ProblemCode
from chronolake_model.times import Bound

TAGS = ["Events"]
POLL_SECONDS = 0.5
"""How long a stream sleeps at most before it looks again; a command of this server wakes it at once."""
QUIET_SECONDS = 15.0
"""After so long without an event a stream says that it lives, for proxies that cut silent connections."""
ALIVE = ServerSentEventMessage(comment="nothing new", data=None)
"""Without data, or else followers would take it for an event."""

After = Annotated[
    str | None,
    QueryParameter(name="after", description="The `cursor` of an event or page; the beginning unless given."),
]
OfTable = Annotated[str | None, QueryParameter(name="table", description="Only events of this live table.")]


@get(
    "/events",
    summary="Read the log",
    tags=TAGS,
    responses=problems.of_query(ProblemCode.TABLE_NOT_FOUND, ProblemCode.INVALID_CURSOR),
)
async def list_events(
    database: NamedDependency[Database],
    after: Annotated[
        str | None,
        QueryParameter(
            name="after",
            description=(
                "The `cursor` of an event or page, or `latest`, the end of the log now; the beginning unless "
                "given."
            ),
        ),
    ] = None,
    table: OfTable = None,
    limit: Limit = parameters.PAGE_DEFAULT,
) -> EventPage:
    """Every change, in order, page by page. A cursor never skips an event that is committed later."""
    return await queries.page(database, _table(table), after, limit)


@get(
    "/events/stream",
    summary="Follow the log",
    tags=TAGS,
    responses=problems.of_query(ProblemCode.TABLE_NOT_FOUND, ProblemCode.INVALID_CURSOR),
)
async def follow_events(
    database: NamedDependency[Database],
    bell: NamedDependency[Bell],
    after: After = None,
    table: OfTable = None,
    last_event_id: Annotated[
        str | None,
        HeaderParameter(name="Last-Event-ID", description="Where a broken stream goes on; before `after`."),
    ] = None,
) -> ServerSentEvent:
    """Server-sent events: one for each event of the log, with its cursor as the id, as they come."""
    name = _table(table)
    place = last_event_id or after
    if place == Bound.LATEST:
        # Who connects anew before the first event came would pass over what happened in between.
        raise errors.InvalidCursor("a stream goes on behind a cursor; GET /v1/events?after=latest gives one")
    # The first page is read before the stream begins: what is wrong with the request is answered as a problem.
    first = await queries.page(database, name, place, parameters.PAGE_MAX)
    return ServerSentEvent(_stream(database, bell, name, first))


async def _stream(
    database: Database, bell: Bell, table: str | None, page: EventPage
) -> AsyncIterator[ServerSentEventMessage]:
    quiet = 0.0
    while True:
        for event in page.events:
            yield ServerSentEventMessage(
                id=event.cursor, event=event.type, data=msgspec.json.encode(event).decode()
            )
        quiet = 0.0 if page.events else quiet
        if page.caught_up:
            if bell.is_closed:
                return
            quiet += await bell.wait(POLL_SECONDS)
            if quiet >= QUIET_SECONDS:
                yield ALIVE
                quiet = 0.0
        page = await queries.page(database, table, page.cursor, parameters.PAGE_MAX)


def _table(name: str | None) -> str | None:
    return None if name is None else parameters.table(name)
