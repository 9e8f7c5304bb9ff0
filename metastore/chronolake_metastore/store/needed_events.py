"""Reads of what each table needs of its events, of all tables at once (``domain.needed_events``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from uuid import UUID

from chronolake_metastore.domain import event_holders
from chronolake_metastore.domain.event_holders import HeldEvents
from chronolake_metastore.domain.needed_events import Causes, Need, need
from chronolake_metastore.store.postgres import statements
from chronolake_metastore.store.postgres.transaction import Transaction
from chronolake_model.publication import (
    ACTIVE_HOURS_PROPERTY,
    KEEP_MIN_DEFAULT,
    KEEP_MIN_PROPERTY,
)
from chronolake_model.times import Micros
from chronolake_model.vocabulary import GRACE_PROPERTY, GRACE_SECONDS_DEFAULT

_CAUSES: Final = statements.load("needed_events/find_causes")
_TABLES: Final = statements.load("needed_events/find_tables")
_VERSIONS: Final = statements.load("needed_events/find_versions")
_PROPERTIES: Final[Mapping[str, object]] = {
    "keep_min": KEEP_MIN_PROPERTY,
    "keep_min_default": KEEP_MIN_DEFAULT,
    "active_hours": ACTIVE_HOURS_PROPERTY,
    "grace": GRACE_PROPERTY,
    "grace_default": GRACE_SECONDS_DEFAULT,
}


async def causes(tx: Transaction) -> list[Causes]:
    """The causes for which each table needs events; dropped tables need some too."""
    return await _causes(tx, {"with_window": True, "is_of_all": True, "table_ids": []})


async def blockers(tx: Transaction, table_ids: Iterable[UUID]) -> list[Causes]:
    """The causes of some tables, without what follows from their windows."""
    return await _causes(tx, {"with_window": False, "is_of_all": False, "table_ids": list(table_ids)})


async def _causes(tx: Transaction, parameters: Mapping[str, object]) -> list[Causes]:
    rows = await tx.query(_CAUSES, {**_PROPERTIES, **parameters})
    return [Causes(*row) for row in rows]


async def held(tx: Transaction) -> list[HeldEvents]:
    """The events that each table keeps, and why, by name."""
    of_tables = {of_table.table_id: of_table for of_table in await causes(tx)}
    first = await first_versions(tx, {table_id: need(of_table) for table_id, of_table in of_tables.items()})
    return [
        event_holders.held_events(of_tables[table_id], name, first_version, first[table_id], Micros(now))
        for table_id, name, first_version, now in await tx.query(_TABLES, {})
    ]


async def first_versions(tx: Transaction, needs: Mapping[UUID, Need]) -> dict[UUID, int]:
    """By table, the version of its first needed event."""
    since = [(table_id, need.since) for table_id, need in needs.items() if need.since]
    versions = await _versions(tx, since)
    return {
        # A search that finds nothing must keep all.
        table_id: need.first_version(versions.get(table_id, 1) if need.since is not None else None)
        for table_id, need in needs.items()
    }


async def _versions(tx: Transaction, since: Sequence[tuple[UUID, Micros | None]]) -> dict[UUID, int]:
    parameters = {"table_ids": [table_id for table_id, _ in since], "times": [time for _, time in since]}
    return dict(await tx.query(_VERSIONS, parameters))
