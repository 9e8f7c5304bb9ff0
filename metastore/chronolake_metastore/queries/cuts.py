"""Cuts: the states of tables at the present end of the log."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import msgspec

from chronolake_metastore import errors
from chronolake_metastore.domain.context import Context
from chronolake_metastore.domain.readable import readable_by
from chronolake_metastore.queries import archived, cursors, tables
from chronolake_metastore.queries.events import LogPlace
from chronolake_metastore.store import catalog, cuts as stored, feed
from chronolake_metastore.store.cuts import StateAt
from chronolake_metastore.store.event_log import Cursor
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.postgres.pooled import Connection
from chronolake_model.cuts import Cut, TableAtCut
from chronolake_model.times import format_time

_BEFORE_ALL = UUID(int=0)


class _CutPlace(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="c"):
    """The place after a table of a cut, which is at a place in the log."""

    log: LogPlace
    caught_up: bool
    table_id: UUID


async def page(
    ctx: Context,
    database: Database,
    namespace: str | None,
    names: Sequence[str] | None,
    limit: int,
    cursor: str | None,
) -> Cut:
    """The states of tables at the end of the log as followers see it, page by page.

    The first page sees one moment of the database. Its end of the log is before all open transactions: what
    they append is not in the cut, nor what was committed after a transaction that is still open. Later pages
    are at the place of the first one. Raises ``NamespaceNotFound``, ``TableNotFound``, ``InvalidCursor``.
    """
    async with database.reading() as connection:
        if namespace is not None and await catalog.get_namespace(connection, namespace) is None:
            raise errors.NamespaceNotFound(namespace)
        ids = None if names is None else [await _readable(ctx, connection, name) for name in names]
        place = await _place(database, connection, cursor)
        readable = readable_by(ctx.rights)
        if ids is None and readable is not None:
            ids = await catalog.readable_by_id(connection, readable, namespace, place.table_id, limit + 1)
        states = await stored.page(
            connection,
            Cursor(place.log.transaction_id, place.log.position),
            namespace=namespace,
            table_ids=ids,
            after=place.table_id,
            limit=limit,
        )
    cursors.refuse_unless(states.is_known)
    after = states.next_after
    next_cursor = None if after is None else cursors.encode(msgspec.structs.replace(place, table_id=after))
    documents = [_document(state) for state in states.states]
    return Cut(cursors.encode(place.log), place.caught_up, documents, next_cursor)


async def _readable(ctx: Context, connection: Connection, name: str) -> UUID:
    """The id of a table that the caller may read: its rights may be older than the name."""
    table_id = (await tables.find(ctx, connection, name)).table_id
    if not ctx.rights.may_read(name, table_id):
        raise errors.TableNotFound(name)
    return table_id


async def _place(database: Database, connection: Connection, cursor: str | None) -> _CutPlace:
    end = await archived.end_of(database, connection)
    if cursor is None:
        caught_up = not await feed.is_held_back(connection)
        return _CutPlace(LogPlace(end.transaction_id, end.position), caught_up, _BEFORE_ALL)
    place = cursors.decode(cursor, _CutPlace)
    is_past = (int(place.log.transaction_id), place.log.position) <= (int(end.transaction_id), end.position)
    cursors.refuse_unless(is_past)
    return place


def _document(state: StateAt) -> TableAtCut:
    return TableAtCut(
        table=state.table,
        table_id=str(state.table_id),
        version=state.version,
        as_of=format_time(state.as_of, state.tick),
        schema_version=state.schema_version,
        tick=state.tick,
    )
