"""Building the projections again from the log: the proof that the log is the truth."""

from __future__ import annotations

from chronolake_metastore.commands.group import project
from chronolake_metastore.commands.lake import new_lake
from chronolake_metastore.settings import Settings
from chronolake_metastore.store import event_log, projections
from chronolake_metastore.store.engine import Database
from chronolake_metastore.store.event_log import Cursor
from chronolake_metastore.store.transaction import Session


async def rebuild(settings: Settings) -> int:
    """Drop every projection and write it anew from the log, in one transaction; gives the number of events.

    Commands wait while it runs, and readers see the projections as they were until it commits.
    """
    database = Database(settings)
    session = Session(database)
    try:
        async with session.begin() as tx:
            await tx.batch(projections.clear())
            lake = new_lake()
            events = 0
            cursor = Cursor()
            while True:
                page, cursor = await event_log.read(tx, cursor)
                if not page:
                    break
                for event in page:
                    lake.apply(event)
                events += len(page)
                await tx.batch(project(lake))
                lake.forget_changes()
    finally:
        await session.close()
        await database.close()
    return events
