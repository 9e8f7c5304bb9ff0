"""The instants of the history of a published timeline, as their rows have them: a function of the log."""

from __future__ import annotations

import asyncio

from chronolake_metastore.domain import events
from chronolake_metastore.domain.context import Context
from chronolake_metastore.domain.events import InstantCompleted
from chronolake_metastore.domain.publication_steps import Builder, LogEvent, Material
from chronolake_metastore.queries import publication_log, publication_steps, tables
from chronolake_metastore.queries.publication_log import ArchivedRows, Logs
from chronolake_metastore.store import published_history
from chronolake_metastore.store.postgres.engine import Database
from chronolake_model.publication import HistoryInstant, HistoryPage
from chronolake_model.times import Micros


async def page(
    ctx: Context, database: Database, table_name: str, begin: Micros, end: Micros, after: int
) -> HistoryPage:
    """The instants of a range of requested times whose events follow a version; raises ``TableNotFound``.

    Each of them has completed, because the range is before the active timeline. A page reads a bounded part of
    the log, and may have no instants.
    """

    async def read(archived_rows: ArchivedRows) -> HistoryPage:
        async with database.publication_slots:
            async with publication_log.reading(database, archived_rows) as logs:
                material, version, until = await _load(ctx, logs, table_name, begin, end, after)
            instants = await asyncio.to_thread(_instants, material)
        return HistoryPage(instants, version, is_last=version >= until)

    return await publication_log.read(database, read)


async def _load(
    ctx: Context, logs: Logs, table_name: str, begin: Micros, end: Micros, after: int
) -> tuple[Material, int, int]:
    """Facts for a page, the version that it leads to, and that of the last event which may have an instant."""
    connection = logs.connection
    table = await tables.find(ctx, connection, table_name)
    log = await logs.of_table(table.table_id)
    log.refuse_archived(table, [begin])
    last = await published_history.last_completion(connection, table.table_id, begin, end)
    first = await log.version_before(begin)
    # The last event may also be a change of the schema, which has a commit of its own.
    until = await log.version_before(Micros(max(end, 0 if last is None else last + 1)))
    page = await log.page(max(after, first))
    read = [event for event in page if event.version <= until and _is_of(event, begin, end)]
    times = [event.instant for event in read if event.instant is not None]
    completed = await published_history.completed(connection, table.table_id, times)
    kept = [event for event in read if event.instant is None or event.instant in completed]
    material = await publication_steps.load_completed(logs, log, table, kept)
    return material, page[-1].version if page else until, until


def _is_of(event: LogEvent, begin: Micros, end: Micros) -> bool:
    """Whether an event completes an instant of the range, or has a commit of its own in it."""
    match event.payload:
        case InstantCompleted():
            assert event.instant is not None
            return begin <= event.instant < end
        case events.TableCreated() | events.TableSchemaChanged():
            return begin <= event.time < end
        case _:
            return False


def _instants(material: Material) -> list[HistoryInstant]:
    return list(Builder(material).history())
