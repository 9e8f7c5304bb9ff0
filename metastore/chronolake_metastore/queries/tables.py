"""Tables by name, and lists of them."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from chronolake_metastore import errors
from chronolake_metastore.domain import adoption, tables
from chronolake_metastore.domain.base_paths import NEIGHBOURS_MAX
from chronolake_metastore.domain.context import Context
from chronolake_metastore.domain.readable import readable_by
from chronolake_metastore.queries import cleans, cursors, paging
from chronolake_metastore.queries.timeline import Answers, Timeline
from chronolake_metastore.store import base_paths, catalog, clocks, identity, locations
from chronolake_metastore.store.postgres import transaction
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.postgres.pooled import Connection
from chronolake_model import tables as wire
from chronolake_model.adoption import AdoptionCheck
from chronolake_model.names import split_table_name
from chronolake_model.times import Micros, ReadTime, format_time, to_datetime


async def find(ctx: Context, connection: Connection, name: str) -> tables.Table:
    """One table, read in the caller's transaction.

    Raises ``TableNotFound``, also if the caller expects another table of this name.
    """
    return await expected(ctx, connection, name, await catalog.get_table(connection, name))


async def expected(ctx: Context, connection: Connection, name: str, table: tables.Table | None) -> tables.Table:
    """The table that has a name now, if one has; raises as ``find``."""
    expected_id = ctx.table_id
    if expected_id is not None and (table is None or table.table_id != expected_id):
        present = await transaction.read(connection, catalog.find_present_names([expected_id]))
        raise errors.TableNotFound(name, present.get(expected_id), table_id=expected_id)
    if table is None:
        raise errors.TableNotFound(name, await _renamed_to(connection, name))
    return table


async def instant_not_found(
    connection: Connection, table: tables.Table, requested_time: Micros
) -> errors.InstantNotFound:
    """The error for an instant that neither the database nor the archive has.

    It has the present name of the table that gave this name up last, if one did: that table may have it.
    """
    time = format_time(requested_time, table.definition.tick)
    return errors.InstantNotFound(table.name, time, await _renamed_to(connection, table.name))


async def _renamed_to(connection: Connection, name: str) -> str | None:
    return (await transaction.read(connection, catalog.find_renamed([name]))).get(name)


async def last_time(
    connection: Connection, table: tables.Table, as_of: ReadTime | None, of_first_page: int | None
) -> Micros | None:
    """The last time of a table's log, up to ``as_of`` if that is given. Every event to come has a later time.

    Further pages have the time of the first page. None when the table did not exist yet. Raises
    ``HistoryCleaned``.
    """
    if of_first_page is not None:
        return await cleans.servable(connection, table, Micros(of_first_page))
    until = await cleans.as_of(connection, table, as_of)
    last = await clocks.last_time(connection, table.table_id)
    time = last if until is None else min(until, last)
    return None if time < table.created_at else Micros(time - time % table.definition.tick.micros)


async def last_completion(
    answers: Answers,
    connection: Connection,
    table: tables.Table,
    as_of: ReadTime | None,
    of_first_page: int | None,
) -> Micros | None:
    """The last completion time of a table, up to ``as_of`` if that is given.

    Further pages have the time of the first page. None before the first completion. Raises ``HistoryCleaned``
    or ``ArchiveNeeded``.
    """
    if of_first_page is not None:
        return await cleans.servable(connection, table, Micros(of_first_page))
    until = await cleans.as_of(connection, table, as_of)
    return await Timeline(answers, connection, table.table_id).latest_completion(until)


async def get(ctx: Context, database: Database, name: str) -> wire.Table:
    """One table; raises ``TableNotFound``."""
    async with database.reading() as connection:
        table = await find(ctx, connection, name)
        took_over = await base_paths.took_over(connection, table.table_id)
        return document(table, (await identity.get(connection)).metastore_id, took_over)


async def check_new(ctx: Context, database: Database, command: tables.CreateTable) -> None:
    """Raise the error that creating the table would raise now. Nothing is created or reserved."""
    key = tables.base_path_key(command)
    name = command.definition.name
    of_namespace, _ = split_table_name(name)
    async with database.reading() as connection:
        namespace = await catalog.get_namespace(connection, of_namespace)
        allowed = await locations.allowed(database, connection, of_namespace)
        existing = await catalog.get_table(connection, name)
        neighbours = await transaction.read(connection, base_paths.find_neighbours(key, NEIGHBOURS_MAX + 1))
    tables.create(namespace, existing, command, allowed, neighbours, ctx.rights)


async def page(
    ctx: Context, database: Database, namespace: str | None, limit: int, cursor: str | None
) -> wire.TablePage:
    """Tables in the order of their names; raises ``NamespaceNotFound`` or ``InvalidCursor``."""
    after = ("", "") if cursor is None else cursors.decode(cursor, tuple[str, str])
    readable = readable_by(ctx.rights)
    async with database.reading() as connection:
        if namespace is not None and await catalog.get_namespace(connection, namespace) is None:
            raise errors.NamespaceNotFound(namespace)
        metastore_id = (await identity.get(connection)).metastore_id

        async def fetch(last: tables.Table | None, number: int) -> list[tables.Table]:
            previous = after if last is None else split_table_name(last.name)
            return await catalog.page_of_tables(connection, namespace, previous, number, readable)

        def size_of(table: tables.Table) -> int:
            return paging.json_bytes(document(table, metastore_id))

        page_of_tables, is_cut = await paging.collect(
            fetch, size_of, limit, database.page_bytes_max, paging.LARGE_ROWS_AT_ONCE
        )
    next_cursor = cursors.encode(split_table_name(page_of_tables[-1].name)) if is_cut else None
    return wire.TablePage([document(table, metastore_id) for table in page_of_tables], next_cursor)


async def page_of_dropped(
    ctx: Context, database: Database, limit: int, cursor: str | None
) -> wire.DroppedTablePage:
    """Dropped tables that published files, in the order of their ids; raises ``InvalidCursor``."""
    after = UUID(int=0) if cursor is None else cursors.decode(cursor, UUID)
    async with database.reading() as connection:
        dropped = await base_paths.dropped(connection, after, limit + 1, readable_by(ctx.rights))
    page = dropped[:limit]
    return wire.DroppedTablePage(page, cursors.encode(page[-1].table_id) if len(dropped) > limit else None)


def document(table: tables.Table, metastore_id: UUID, took_over: Iterable[UUID] = ()) -> wire.Table:
    """The table as the REST API shows it."""
    definition = table.definition
    return wire.Table(
        name=definition.name,
        table_id=str(table.table_id),
        metastore_id=str(metastore_id),
        base_path=definition.base_path,
        type=definition.type,
        schema=definition.schema,
        record_key_fields=definition.record_key_fields,
        partition_fields=definition.partition_fields,
        ordering_field=definition.ordering_field,
        index=definition.index,
        tick=definition.tick,
        properties=definition.properties,
        created_at=to_datetime(table.created_at),
        schema_version=definition.schema_version,
        cleaned_before=(
            None if table.cleaned_before is None else format_time(table.cleaned_before, definition.tick)
        ),
        took_over=[str(table_id) for table_id in took_over],
        former_buckets=[
            wire.FormerBuckets(
                former.buckets,
                format_time(former.until, definition.tick),
                format_time(former.changed_by, definition.tick),
            )
            for former in definition.former
        ],
    )


async def check_adoption(ctx: Context, database: Database, command: adoption.AdoptTable) -> AdoptionCheck:
    """Raise the error that adopting the table would raise now. Nothing is created or reserved."""
    key = tables.base_path_key(command.creation)
    name = command.definition.name
    of_namespace, _ = split_table_name(name)
    async with database.reading() as connection:
        namespace = await catalog.get_namespace(connection, of_namespace)
        allowed = await locations.allowed(database, connection, of_namespace)
        existing = await catalog.get_table(connection, name)
        former = await transaction.read(connection, catalog.find_former_holders(name))
        neighbours = await transaction.read(connection, base_paths.find_neighbours(key, NEIGHBOURS_MAX + 1))
        dropped = [neighbour.table_id for neighbour in neighbours if neighbour.is_dropped]
        pending = adoption.pending_times(command)
        published_time = await transaction.read(connection, base_paths.find_published_time(dropped, pending))
        now = await clocks.now(connection)
        metastore = await identity.get(connection)
    created = tables.create(namespace, existing, command.creation, allowed, neighbours, ctx.rights)
    adoption.history(command, created, former, now)
    adoption.refuse_published_time(command, published_time)
    return AdoptionCheck(str(metastore.metastore_id), [str(table_id) for table_id in created.took_over])
