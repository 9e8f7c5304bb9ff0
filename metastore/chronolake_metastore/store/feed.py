"""Following the log: pages of events, for followers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

import msgspec

from chronolake_metastore.store.event_log import Cursor
from chronolake_metastore.store.postgres import statements
from chronolake_metastore.store.postgres.pooled import Connection
from chronolake_model.times import Micros, Tick

_FEED: Final = statements.load("feed/page")
_FEED_OF_TABLE: Final = statements.load("feed/page_of_table")
_ENCODED: Final = statements.load("feed/encoded_page")
_ENCODED_OF_TABLE: Final = statements.load("feed/encoded_page_of_table")
_VERSION_AT: Final = statements.load("feed/version_at")
_END: Final = statements.load("feed/end")
_IS_HELD_BACK: Final = (
    "SELECT EXISTS (SELECT FROM event WHERE transaction_id >= pg_snapshot_xmin(pg_current_snapshot()))"
)
_IS_BEHIND_EVENT: Final = (
    "SELECT EXISTS (SELECT FROM event WHERE event.transaction_id = %(transaction_id)s::text::xid8 "
    "AND event.position = %(position)s)"
)
_TIME_OF_VERSION: Final = (
    "SELECT micros(time) FROM event WHERE table_id = %(table_id)s AND version = %(version)s"
)
_END_OF_TABLE: Final = "SELECT version FROM clock WHERE table_id = %(table_id)s"


class FeedEntry(msgspec.Struct, frozen=True):
    """An event as the feed has it; ``table`` is None for the catalog's."""

    transaction_id: str
    position: int
    table: str | None
    tick: Tick | None
    table_id: UUID
    version: int
    type: str
    instant: Micros | None
    time: Micros
    actor: str
    request_id: str
    payload: dict[str, Any] | str
    """As text from ``texts`` and ``texts_of_table``."""
    hash: str


async def page(
    connection: Connection, after: Cursor, limit: int, bytes_max: int
) -> tuple[list[FeedEntry], bool]:
    """Events of all tables after ``after``, none of which an open transaction can still precede.

    They have about ``bytes_max`` bytes, and are at least one event. The flag says whether they are the last.
    """
    named = {"transaction_id": after.transaction_id, "position": after.position}
    rows = await connection.execute(_FEED, named | {"limit": limit, "bytes_max": bytes_max})
    return _page(rows)


async def page_of_table(
    connection: Connection, table_id: UUID, version: int, limit: int, bytes_max: int
) -> tuple[list[FeedEntry], bool]:
    """Events of one table after ``version``; bounded as ``page``."""
    named = {"table_id": table_id, "version": version, "limit": limit, "bytes_max": bytes_max}
    return _page(await connection.execute(_FEED_OF_TABLE, named))


async def texts(connection: Connection, after: Cursor, limit: int, bytes_max: int) -> list[FeedEntry]:
    """As ``page``, with the payloads as text; about ``bytes_max`` bytes of them, but at least one event."""
    parameters = {"transaction_id": after.transaction_id, "position": after.position}
    rows = await connection.execute(_ENCODED, parameters | {"limit": limit, "bytes": bytes_max})
    return [_entry(*row) for row in rows]


async def texts_of_table(
    connection: Connection, table_id: UUID, version: int, limit: int, bytes_max: int
) -> list[FeedEntry]:
    """As ``page_of_table``, with the payloads as text; bounded as ``texts``."""
    parameters = {"table_id": table_id, "version": version, "limit": limit, "bytes": bytes_max}
    return [_entry(*row) for row in await connection.execute(_ENCODED_OF_TABLE, parameters)]


async def is_held_back(connection: Connection) -> bool:
    """Whether there are events that an open transaction keeps from being given out."""
    return bool((await connection.execute(_IS_HELD_BACK)).scalar_one())


async def end(connection: Connection) -> Cursor:
    """The place after the last event that no open transaction can still precede."""
    last = (await connection.execute(_END)).one_or_none()
    return Cursor() if last is None else Cursor(*last)


async def end_of_table(connection: Connection, table_id: UUID) -> int:
    """The version of a table's last event."""
    return int((await connection.execute(_END_OF_TABLE, {"table_id": table_id})).scalar_one())


async def is_behind_event(connection: Connection, place: Cursor) -> bool:
    """Whether a place in the order across tables is the one directly after an event of this log."""
    named = {"transaction_id": place.transaction_id, "position": place.position}
    return bool((await connection.execute(_IS_BEHIND_EVENT, named)).scalar_one())


async def version_at(connection: Connection, table_id: UUID, place: Cursor) -> int:
    """The version of a table's last event up to a place in the order across tables; 0 if there is none."""
    named = {"table_id": table_id, "transaction_id": place.transaction_id, "position": place.position}
    return int((await connection.execute(_VERSION_AT, named)).scalar_one())


async def time_of_version(connection: Connection, table_id: UUID, version: int) -> Micros | None:
    """The time of a table's event; None if it has none of this version."""
    named = {"table_id": table_id, "version": version}
    time: int | None = (await connection.execute(_TIME_OF_VERSION, named)).scalar_one_or_none()
    return None if time is None else Micros(time)


def _page(rows: Sequence[Any]) -> tuple[list[FeedEntry], bool]:
    return [_entry(*row[:-1]) for row in rows], all(row[-1] for row in rows)


def _entry(transaction_id: str, position: int, table: str | None, tick: str | None, *columns: Any) -> FeedEntry:
    return FeedEntry(transaction_id, position, table, None if tick is None else Tick(tick), *columns)
