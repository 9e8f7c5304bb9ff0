"""Following the log: pages of events, for those who are told what changed."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

import msgspec
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from chronolake_metastore.store import statements
from chronolake_metastore.store.event_log import Cursor
from chronolake_model.times import Micros, Tick

_FEED: Final = text(statements.load("feed"))
_FEED_OF_TABLE: Final = text(statements.load("feed_of_table"))
_END: Final = text(statements.load("end_of_feed"))
_END_OF_TABLE: Final = text("SELECT version FROM clock WHERE table_id = :table_id")


class Entry(msgspec.Struct, frozen=True):
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
    payload: dict[str, Any]
    hash: str


async def page(connection: AsyncConnection, after: Cursor, limit: int) -> list[Entry]:
    """Events of all tables behind ``after``, none of which an open transaction can still precede."""
    rows = await connection.execute(
        _FEED, {"transaction_id": after.transaction_id, "position": after.position, "limit": limit}
    )
    return [_entry(*row) for row in rows]


async def page_of_table(connection: AsyncConnection, table_id: UUID, version: int, limit: int) -> list[Entry]:
    """Events of one table behind ``version``."""
    rows = await connection.execute(_FEED_OF_TABLE, {"table_id": table_id, "version": version, "limit": limit})
    return [_entry(*row) for row in rows]


async def end(connection: AsyncConnection) -> Cursor:
    """Behind the last event of all that no open transaction can still precede."""
    last = (await connection.execute(_END)).one_or_none()
    return Cursor() if last is None else Cursor(*last)


async def end_of_table(connection: AsyncConnection, table_id: UUID) -> int:
    """The version of a table's last event."""
    return int((await connection.execute(_END_OF_TABLE, {"table_id": table_id})).scalar_one())


def _entry(transaction_id: str, position: int, table: str | None, tick: str | None, *rest: Any) -> Entry:
    return Entry(transaction_id, position, table, None if tick is None else Tick(tick), *rest)
