"""Pages of the log: the events after a cursor, of one table or of all tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final
from uuid import UUID

import msgspec
from msgspec import Meta

from chronolake_metastore.domain.context import Context
from chronolake_metastore.domain.readable import Readable, readable_by
from chronolake_metastore.errors import InvalidCursor
from chronolake_metastore.queries import archived, cursors, tables
from chronolake_metastore.store import archived as stored, feed
from chronolake_metastore.store.archived import ArchivedLog, LogBorder
from chronolake_metastore.store.event_log import Cursor
from chronolake_metastore.store.feed import FeedEntry
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.postgres.pooled import Connection
from chronolake_model.events import CursorTime, EventPage, LoggedEvent
from chronolake_model.times import Bound, Micros, Tick, format_time, to_datetime

_BIGINT_MAX = 2**63 - 1
PASSED_MAX: Final = 2_000
"""About the most events that a page passes over because its caller may not read them."""
_PASSED_AT_ONCE: Final = 500


class LogPlace(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The place after the event of this transaction and position."""

    # PostgreSQL reads digits after a leading zero as octal ones.
    transaction_id: Annotated[str, Meta(pattern=r"^(0|[1-9][0-9]{0,18})\Z")]
    position: Annotated[int, Meta(ge=0, le=_BIGINT_MAX)]


class TableInFeed(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="v"):
    """The place after this version of one table's log: of this table, not of a later one with the same name."""

    table_id: UUID
    version: Annotated[int, Meta(ge=0, le=_BIGINT_MAX)]


# Not defaults of the fields: a cursor without one of the fields must be refused.
_BEGINNING = LogPlace(transaction_id="0", position=0)


async def page(
    ctx: Context, database: Database, table_name: str | None, after: str | None, limit: int
) -> EventPage:
    """A page of the events after ``after``: by default from the beginning of the log; ``LATEST`` is its end.

    Of all tables it has only the events that the caller may read, maybe none although later ones follow. Raises
    ``TableNotFound`` or ``InvalidCursor``.
    """
    if table_name is None:
        return await _page_of_all(ctx, database, after, limit)
    return await _page_of_table(ctx, database, table_name, after, limit)


async def _page_of_all(ctx: Context, database: Database, after: str | None, limit: int) -> EventPage:
    if after == Bound.LATEST:
        async with database.reading() as connection:
            end = await archived.end_of(database, connection)
        place = LogPlace(end.transaction_id, end.position)
    else:
        place = place_in_log(after)
    if (readable := readable_by(ctx.rights)) is not None:
        return await _page_of_readable(database, readable, place, limit)
    entries, caught_up = await archived.page(database, _cursor(place), limit, database.page_bytes_max)
    places = [place_of(entry) for entry in entries]
    return _answer(entries, places, place, caught_up=caught_up)


async def _page_of_readable(database: Database, readable: Readable, place: LogPlace, limit: int) -> EventPage:
    """The next events of some tables. The cursor is after all that were passed over."""
    passed, number = 0, limit
    while True:
        entries, caught_up = await archived.page(database, _cursor(place), number, database.page_bytes_max)
        shown = [entry for entry in entries if readable.has_event(entry.table, entry.table_id, entry.type)]
        if len(shown) > limit:
            entries = shown = archived.whole(shown, limit)
            caught_up = False
        if entries:
            place = place_of(entries[-1])
        passed += len(entries)
        if shown or caught_up or passed >= PASSED_MAX:
            events = [document(entry, cursors.encode(place_of(entry))) for entry in shown]
            return EventPage(events, cursors.encode(place), caught_up)
        number = _PASSED_AT_ONCE


async def _page_of_table(
    ctx: Context, database: Database, table_name: str, after: str | None, limit: int
) -> EventPage:
    async with database.reading() as connection:
        table = await tables.find(ctx, connection, table_name)
        if after == Bound.LATEST:
            place = TableInFeed(table.table_id, await feed.end_of_table(connection, table.table_id))
        else:
            place = place_in_table(after, table.table_id)
    entries, caught_up = await archived.page_of_table(
        database, table.table_id, place.version, limit, database.page_bytes_max
    )
    places = [place_in_table_of(entry) for entry in entries]
    return _answer(entries, places, place, caught_up=caught_up)


async def time_of_cursor(ctx: Context, database: Database, table_name: str, cursor: str) -> CursorTime:
    """The time of a table's last event before a cursor, which is over this table or over all tables.

    In the log of all tables the events of a table are in the order of their versions, and so are their times:
    the time divides the completions of the table exactly as the cursor divides its events. Raises
    ``TableNotFound``, or ``InvalidCursor``, also for a cursor of another metastore.
    """
    place = _place_of_either(cursor)
    async with database.reading() as connection:
        table = await tables.find(ctx, connection, table_name)
        border = await stored.border(connection)
        is_archived = border is not None and _is_before(place, border)
        version = 0 if is_archived else await _version_at(connection, table.table_id, place)
        time = None if is_archived else await feed.time_of_version(connection, table.table_id, version)
    if border is not None and (is_archived or (time is None and version)):
        time = await archived.ask(database, border, _time_at(table.table_id, version, place))
    return CursorTime(None if time is None else format_time(time, table.definition.tick))


def _cursor(place: LogPlace) -> Cursor:
    return Cursor(place.transaction_id, place.position)


def _answer(
    entries: list[FeedEntry], places: list[LogPlace] | list[TableInFeed], start: object, *, caught_up: bool
) -> EventPage:
    events = [document(entry, cursors.encode(place)) for entry, place in zip(entries, places, strict=True)]
    cursor = events[-1].cursor if events else cursors.encode(start)
    return EventPage(events, cursor, caught_up)


def place_in_log(after: str | None) -> LogPlace:
    """The place that a cursor over all tables stands for; raises ``InvalidCursor``."""
    return _BEGINNING if after is None else cursors.decode(after, LogPlace)


def place_in_table(after: str | None, table_id: UUID) -> TableInFeed:
    """The place that a cursor over this table stands for; raises ``InvalidCursor``."""
    return cursors.in_table(after, TableInFeed, table_id) or TableInFeed(table_id, version=0)


async def _version_at(connection: Connection, table_id: UUID, place: LogPlace | TableInFeed) -> int:
    """The version of a table's last event before a place; raises ``InvalidCursor``."""
    if isinstance(place, TableInFeed):
        cursors.refuse_unless(place.table_id == table_id)
        cursors.refuse_unless(place.version <= await feed.end_of_table(connection, table_id))
        return place.version
    cursor = Cursor(place.transaction_id, place.position)
    cursors.refuse_unless(place == _BEGINNING or await feed.is_behind_event(connection, cursor))
    return await feed.version_at(connection, table_id, cursor)


def _is_before(place: LogPlace | TableInFeed, border: LogBorder) -> bool:
    """Whether a place in the order across tables, but not the beginning, is only in the archive."""
    if isinstance(place, TableInFeed) or place == _BEGINNING:
        return False
    return archived.is_before(Cursor(place.transaction_id, place.position), border)


def _time_at(
    table_id: UUID, version: int, place: LogPlace | TableInFeed
) -> Callable[[ArchivedLog], Micros | None]:
    """The time of an archived version, or of the last one up to a place if ``version`` is 0."""

    def read(log: ArchivedLog) -> Micros | None:
        if version:
            return log.time_of_version(table_id, version)
        assert isinstance(place, LogPlace)
        cursor = int(place.transaction_id), place.position
        cursors.refuse_unless(log.has_event(cursor))
        return log.time_of_version(table_id, log.version_at(table_id, cursor))

    return read


def _place_of_either(cursor: str) -> LogPlace | TableInFeed:
    try:
        return cursors.decode(cursor, LogPlace)
    except InvalidCursor:
        return cursors.decode(cursor, TableInFeed)


def place_of(entry: FeedEntry) -> LogPlace:
    """The place after ``entry`` in the log of all tables."""
    return LogPlace(entry.transaction_id, entry.position)


def place_in_table_of(entry: FeedEntry) -> TableInFeed:
    """The place after ``entry`` in the log of its table."""
    return TableInFeed(entry.table_id, entry.version)


def document(entry: FeedEntry, cursor: str) -> LoggedEvent:
    """The event as clients get it, with the ``cursor`` of the place after it."""
    tick = entry.tick or Tick.MILLISECOND
    return LoggedEvent(
        cursor=cursor,
        transaction=entry.transaction_id,
        table=entry.table,
        table_id=str(entry.table_id),
        version=entry.version,
        type=entry.type,
        instant=None if entry.instant is None else format_time(entry.instant, tick),
        time=format_time(entry.time, tick),
        issued_at=to_datetime(entry.time),
        actor=entry.actor,
        request_id=entry.request_id,
        payload=_payload(entry.payload),
        hash=entry.hash,
    )


def _payload(payload: dict[str, Any] | str) -> Any:
    # A payload that is text already is not parsed: it may be large, and it was valid when it was stored.
    return msgspec.Raw(payload.encode()) if isinstance(payload, str) else payload
