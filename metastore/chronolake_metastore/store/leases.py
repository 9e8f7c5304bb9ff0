"""Leases of pending instants that have expired."""

from __future__ import annotations

import msgspec
from sqlalchemy import func, select

from chronolake_metastore.store.postgres import schema
from chronolake_metastore.store.postgres.engine import Reader
from chronolake_model.times import Micros, Tick
from chronolake_model.vocabulary import Action, State


class ExpiredLease(msgspec.Struct, frozen=True):
    """A pending instant whose lease ended ``expired_us`` ago; ``is_resize`` if its plan resizes the table."""

    table: str
    tick: Tick
    requested_time: Micros
    action: Action
    state: State
    writer: str
    expired_us: int
    is_resize: bool


async def expired(connection: Reader, limit: int) -> list[ExpiredLease]:
    """Instants of live tables whose lease has ended, the longest ago first."""
    instant, table = schema.instant.c, schema.lake_table.c
    # Once, as a subquery: a volatile function in the condition would rule the index out.
    now = select(func.moment(func.steady_us())).scalar_subquery()
    query = (
        select(
            table.namespace + "." + table.name,
            table.definition["tick"].astext,
            func.micros(instant.requested_time),
            instant.action,
            instant.state,
            instant.writer,
            func.steady_us() - func.micros(instant.lease_expires_at),
            func.coalesce(instant.plan["buckets"].astext, "") != "",
        )
        .join_from(schema.instant, schema.lake_table, table.table_id == instant.table_id)
        .where(instant.lease_expires_at <= now, table.dropped_at.is_(None))
        .order_by(instant.lease_expires_at)
        .limit(limit)
    )
    return [
        ExpiredLease(
            name,
            Tick(tick),
            Micros(requested_time),
            Action(action),
            State(state),
            writer,
            expired_us,
            is_resize,
        )
        for name, tick, requested_time, action, state, writer, expired_us, is_resize in (
            await connection.execute(query)
        )
    ]
