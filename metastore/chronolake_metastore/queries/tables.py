"""Reading tables."""

from __future__ import annotations

from chronolake_metastore import errors
from chronolake_metastore.domain import tables
from chronolake_metastore.queries import cleans, cursors
from chronolake_metastore.store import catalog, clocks, instants
from chronolake_metastore.store.engine import Database, Reader
from chronolake_model import tables as wire
from chronolake_model.names import split_table_name
from chronolake_model.times import Micros, ReadTime


async def find(connection: Reader, name: str) -> tables.Table:
    """One table, on a connection that goes on reading; raises ``TableNotFound``."""
    table = await catalog.get_table(connection, name)
    if table is None:
        raise errors.TableNotFound(name)
    return table


async def last_time(
    connection: Reader, table: tables.Table, as_of: ReadTime | None, of_first_page: int | None
) -> Micros | None:
    """The last time of a table's log, by ``as_of`` if that is given: nothing happens at it or before any more.

    On further pages it is that of the first. None when the table was not there yet. Raises ``HistoryCleaned``.
    """
    if of_first_page is not None:
        return await cleans.servable(connection, table, Micros(of_first_page))
    until = await cleans.as_of(connection, table, as_of)
    last = await clocks.last_time(connection, table.table_id)
    time = last if until is None else min(until, last)
    return None if time < table.created_at else Micros(time - time % table.definition.tick.micros)


async def last_completion(
    connection: Reader, table: tables.Table, as_of: ReadTime | None, of_first_page: int | None
) -> Micros | None:
    """The last completion of a table, by ``as_of`` if that is given; on further pages that of the first.

    None when nothing had completed. Raises ``HistoryCleaned``.
    """
    if of_first_page is not None:
        return await cleans.servable(connection, table, Micros(of_first_page))
    until = await cleans.as_of(connection, table, as_of)
    return await instants.latest_completion(connection, table.table_id, until)


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
