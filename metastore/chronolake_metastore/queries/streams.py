"""The streams of a table."""

from __future__ import annotations

from typing import Final
from uuid import UUID

import msgspec

from chronolake_metastore import errors
from chronolake_metastore.domain import stream_documents
from chronolake_metastore.domain.context import Context
from chronolake_metastore.queries import cursors, tables
from chronolake_metastore.store import clocks, streams as stored
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.postgres.transaction import read
from chronolake_model import streams as wire

_FIRST: Final = ""
"""Before all names."""


class _Place(msgspec.Struct, tag="streams", frozen=True, array_like=True, forbid_unknown_fields=True):
    table_id: UUID
    name: str


async def get(ctx: Context, database: Database, table_name: str, name: str) -> wire.Stream:
    """One stream; raises ``TableNotFound`` or ``StreamNotFound``."""
    async with database.reading() as connection:
        table = await tables.find(ctx, connection, table_name)
        streams_by_key = await read(connection, stored.find([(table.name, name)]))
        now = await clocks.now(connection)
    stream = streams_by_key.get((table.table_id, name))
    if stream is None:
        raise errors.StreamNotFound(table.name, name)
    return stream_documents.document(table, stream, now.wall_offset, with_metadata=True)


async def page(
    ctx: Context, database: Database, table_name: str, limit: int, cursor: str | None
) -> wire.StreamPage:
    """A page of the streams by their names; raises ``TableNotFound`` or ``InvalidCursor``."""
    async with database.reading() as connection:
        table = await tables.find(ctx, connection, table_name)
        place = cursors.in_table(cursor, _Place, table.table_id)
        after = _FIRST if place is None else place.name
        of_page = await stored.page(connection, table.table_id, after, limit)
        now = await clocks.now(connection)
    next_cursor = cursors.encode(_Place(table.table_id, of_page[-1].name)) if len(of_page) == limit else None
    documents = [
        stream_documents.document(table, stream, now.wall_offset, with_tasks=False) for stream in of_page
    ]
    return wire.StreamPage(table.name, documents, next_cursor)
