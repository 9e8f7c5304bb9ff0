"""Which times of a table are served: readers name them, and some of them were cleaned."""

from __future__ import annotations

from chronolake_metastore import errors
from chronolake_metastore.domain import cleans
from chronolake_metastore.domain.tables import Table
from chronolake_metastore.store import cleans as stored
from chronolake_metastore.store.postgres.engine import Reader
from chronolake_model.times import Bound, Micros, ReadTime

BEFORE_ALL = Micros(0)
"""Earlier than any instant."""


def first_servable(table: Table) -> Micros:
    """The first completion time that the table is served as of."""
    return BEFORE_ALL if table.cleaned_before is None else table.cleaned_before


async def as_of(connection: Reader, table: Table, requested: ReadTime | None) -> Micros | None:
    """The time that a reader looks back to; none for now. Raises ``HistoryCleaned``."""
    if requested is None or requested is Bound.LATEST:
        return None
    if requested is Bound.EARLIEST:
        return first_servable(table)
    return await servable(connection, table, requested)


async def servable(connection: Reader, table: Table, time: Micros) -> Micros:
    """``time``, for a client that continues to read as of it; raises ``HistoryCleaned``.

    The completion time of a pinned instant is served, also after later cleans, and so are the times of readers'
    leases.
    """
    try:
        cleans.refuse_before(table, time)
    except errors.HistoryCleaned:
        if not await stored.is_held(connection, table.table_id, time):
            raise
    return time


def in_range(table: Table, time: Micros) -> Micros:
    """``time``, as an end of a range; raises ``HistoryCleaned``.

    A range from the table's beginning needs no file that is gone: there was none before it.
    """
    if time != BEFORE_ALL:
        cleans.refuse_before(table, time)
    return time
