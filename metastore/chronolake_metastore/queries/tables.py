"""Reading tables."""

from __future__ import annotations

from chronolake_metastore import errors
from chronolake_metastore.domain import tables
from chronolake_metastore.queries import cursors
from chronolake_metastore.store import catalog, clocks
from chronolake_metastore.store.engine import Database, Reader
from chronolake_model import tables as wire
from chronolake_model.names import split_table_name
from chronolake_model.times import Micros


async def find(connection: Reader, name: str) -> tables.Table:
    """One table, on a connection that goes on reading; raises ``TableNotFound``."""
    table = await catalog.get_table(connection, name)
    if table is None:
        raise errors.TableNotFound(name)
    return table


async def last_time(connection: Reader, table: tables.Table, until: Micros | None) -> Micros | None:
    """The last time of a table's log, by ``until`` if that is given: nothing happens at it or before any more.

    None when the table was not there yet.
    """
    last = await clocks.last_time(connection, table.table_id)
    time = last if until is None else min(until, last)
    return None if time < table.created_at else Micros(time - time % table.definition.tick.micros)


async def get(database: Database, name: str) -> wire.Table:
    """One table; raises ``TableNotFound``."""
    async with database.reading() as connection:
        return tables.document(await find(connection, name))


async def page(database: Database, namespace: str | None, limit: int, cursor: str | None) -> wire.TablePage:
    """Tables in the order of their names; raises ``NamespaceNotFound`` or ``InvalidCursor``."""
    after = ("", "") if cursor is None else cursors.decode(cursor, tuple[str, str])
    async with database.reading() as connection:
        if namespace is not None and await catalog.get_namespace(connection, namespace) is None:
            raise errors.NamespaceNotFound(namespace)
        found = await catalog.page_of_tables(connection, namespace, after, limit)
    more = cursors.encode(split_table_name(found[-1].name)) if len(found) == limit else None
    return wire.TablePage([tables.document(table) for table in found], more)
