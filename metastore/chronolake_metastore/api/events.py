"""/v1/events and /v1/time"""

from __future__ import annotations

from typing import Annotated, Any

from litestar import Request
from litestar.di import NamedDependency
from litestar.params import HeaderParameter, QueryParameter
from litestar.response import Stream

from chronolake_metastore import errors
from chronolake_metastore.api import arrow_answers, following, parameters
from chronolake_metastore.api.callers import Caller
from chronolake_metastore.api.following import FollowerStream, Following
from chronolake_metastore.api.parameters import Limit, TableInPath
from chronolake_metastore.api.routes import route
from chronolake_metastore.followers import Followers
from chronolake_metastore.notes import metastore
from chronolake_metastore.queries import events as queries, following as following_queries
from chronolake_metastore.queries.following import CatchingUp
from chronolake_model import operations
from chronolake_model.events import CursorTime, EventPage
from chronolake_model.instants import TimeInterval
from chronolake_model.times import Bound

After = Annotated[
    str | None,
    QueryParameter(name="after", description="The `cursor` of an event or page. Default: the beginning."),
]
OfTable = Annotated[str | None, QueryParameter(name="table", description="Only events of this live table.")]


@route(operations.catalog.LIST_EVENTS)
async def list_events(
    caller: NamedDependency[Caller],
    after: Annotated[
        str | None,
        QueryParameter(
            name="after",
            description=(
                "The `cursor` of an event or page, or `latest`, which is the present end of the log. Default: "
                "the beginning."
            ),
        ),
    ] = None,
    table: OfTable = None,
    limit: Limit = parameters.PAGE_DEFAULT,
) -> EventPage:
    """Every change, in order, page by page. A cursor never skips an event that is committed later."""
    return await caller.read(queries.page, _table(table), after, limit)


@route(operations.catalog.FOLLOW_EVENTS, media_type=following.MEDIA_TYPE)
async def follow_events(
    request: Request[Any, Any, Any],
    caller: NamedDependency[Caller],
    followers: NamedDependency[Followers],
    catching_up: NamedDependency[CatchingUp],
    after: After = None,
    table: OfTable = None,
    last_event_id: Annotated[
        str | None,
        HeaderParameter(
            name="Last-Event-ID",
            description="The cursor from which a broken stream continues. It wins over `after`.",
        ),
    ] = None,
) -> Stream:
    """Server-sent events: one for each new event of the log, with its cursor as the id.

    The server ends a stream that the client reads too slowly: connect again with the id of the last event. The
    stream of a table ends after the event that drops the table.
    """
    name = _table(table)
    place = after if last_event_id is None else last_event_id
    if place == Bound.LATEST:
        # A client that reconnects before its first event would miss the events in between.
        raise errors.InvalidCursor("a stream starts after a cursor; GET /v1/events?after=latest gives one")
    follower = followers.admit(arrow_answers.client_of(request))
    try:
        # Before the stream begins, so that errors of the request are answered as a problem.
        position = await caller.read(following_queries.begin, name, place, catching_up)
    except BaseException:
        followers.leave(follower)
        raise
    rights = caller.service.watched_rights(caller.ctx)
    following_ = Following(followers, catching_up, follower, position, rights)
    return FollowerStream(following_, lambda: followers.leave(follower))


@route(operations.catalog.LOOK_UP_CURSOR_TIME)
async def look_up_cursor_time(
    table: TableInPath,
    caller: NamedDependency[Caller],
    after: Annotated[
        str, QueryParameter(description="The `cursor` of an event or page: of this table's events or of all.")
    ],
) -> CursorTime:
    """The time that divides the completions of a table as a cursor of the log divides its events.

    An instant completed later than this time if and only if the event of its completion is after the cursor.
    So a reader of the log can continue as a reader of changes from this time. It misses and repeats nothing.
    """
    return await caller.read(queries.time_of_cursor, parameters.table(table), after)


def _table(name: str | None) -> str | None:
    return None if name is None else parameters.table(name)


@route(operations.catalog.GET_TIME)
async def get_time(caller: NamedDependency[Caller]) -> TimeInterval:
    """An interval that contains the present time, for every table and every server."""
    return await caller.note(metastore.return_time)
