"""The instants of the history of a published timeline, as their rows have them: a function of the log."""

from __future__ import annotations

import asyncio

from chronolake_metastore.domain import events
from chronolake_metastore.domain.context import Context
from chronolake_metastore.domain.events import InstantCompleted
from chronolake_metastore.domain.publication_steps import Builder, LogEvent, Material
from chronolake_metastore.queries import publication_steps, tables
from chronolake_metastore.store import publication as stored, published_history
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
    async with database.publication_slots, database.reading() as connection:
        table = await tables.find(ctx, connection, table_name)
        last = await published_history.last_completion(connection, table.table_id, begin, end)
        first = await published_history.version_before(connection, table.table_id, begin)
        # The last event may also be a change of the schema, which has a commit of its own.
        time = Micros(max(end, 0 if last is None else last + 1))
        until = await published_history.version_before(connection, table.table_id, time)
        log = await stored.page_of_events(
            connection,
            table.table_id,
            max(after, first),
            publication_steps.EVENTS_MAX,
            publication_steps.BYTES_MAX,
        )
        read = [event for event in log if event.version <= until and _is_of(event, begin, end)]
        times = [event.instant for event in read if event.instant is not None]
        completed = await published_history.completed(connection, table.table_id, times)
        kept = [event for event in read if event.instant is None or event.instant in completed]
        material = await publication_steps.load_completed(connection, table, kept)
    instants = await asyncio.to_thread(_instants, material)
    version = log[-1].version if log else until
    return HistoryPage(instants, version, is_last=version >= until)


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
