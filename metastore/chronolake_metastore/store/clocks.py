"""Clocks of logs, heads of the chains of answers, and the clocks of the database.

Those of a log are locked and read before a decision, and saved with its events.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final
from uuid import UUID

from chronolake_metastore.domain.events import Now
from chronolake_metastore.domain.logs import ChainHead, Clock, chain_of_name
from chronolake_metastore.domain.steady_clock import Reading, Record
from chronolake_metastore.store.postgres import advisory_locks, statements
from chronolake_metastore.store.postgres.advisory_locks import AdvisoryLock
from chronolake_metastore.store.postgres.pooled import Connection
from chronolake_metastore.store.postgres.transaction import Query, Rows, Statement, no_rows, read
from chronolake_model.names import split_table_name
from chronolake_model.times import Micros, Tick

_LOCK_NAMES: Final = statements.load("clocks/lock_table_names")
_LOCK: Final = statements.load("clocks/lock")
_SAVE: Final = statements.load("clocks/save")
_FIND_CHAINS: Final = statements.load("answers/find_chains")
_SAVE_CHAINS: Final = statements.load("answers/save_chains")
_NOW: Final = statements.load("clocks/now")
_READ_STEADY_CLOCK: Final = "SELECT now_us(), micros(last_time), wall_offset_us FROM steady_clock"
_RECORD_STEADY_CLOCK: Final = statements.load("clocks/record_steady_clock")
_ADVANCE_WALL_CLOCK: Final = statements.load("clocks/advance_wall_clock")
_WALL_OFFSET: Final = "SELECT wall_offset_us FROM steady_clock"
_TICKS: Final = {tick.micros: tick for tick in Tick}

_LAST_TIME: Final = "SELECT micros(last_time) FROM clock WHERE table_id = %(table_id)s"


def lock_names(tables: Iterable[str], others: Iterable[UUID] = ()) -> Query[None]:
    """Lock the names of tables, whether there are such tables or not, and the ids of the ``others``."""
    keys = {advisory_locks.key_of_name(name) for name in [*set(tables), *map(str, others)]}
    return Query(_LOCK_NAMES, {"lock": AdvisoryLock.TABLE_NAME.value, "keys": sorted(keys)}, no_rows)


def lock(tables: Iterable[str], others: Iterable[UUID] = ()) -> Query[dict[UUID, Clock]]:
    """Lock and read the clocks of the named tables and of the ``others``, in one fixed order.

    Their names must be locked. Everything that is read after it, also in the same round trip, is read under the
    locks. A table that is not there has no clock.
    """
    names = [split_table_name(table) for table in sorted(set(tables))]
    parameters = {
        "namespaces": [namespace for namespace, _ in names],
        "tables": [name for _, name in names],
        "others": sorted(others),
    }
    return Query(_LOCK, parameters, _clocks)


def lock_dropped(tables: Iterable[UUID]) -> Query[dict[UUID, Clock]]:
    """Lock and read the clocks of dropped tables. Only creating a table locks several of them."""
    return lock([], tables)


def _clocks(rows: Rows) -> dict[UUID, Clock]:
    return {
        table_id: Clock(table_id, _TICKS[tick_us], Micros(last_time), version, bytes(head), instants_from)
        for table_id, tick_us, last_time, version, head, instants_from in rows
    }


def read_now(*, appends: bool = False) -> Query[Now]:
    """The present by the clocks of the database. Read it when the locks are held.

    A transaction that ``appends`` to the log gets its id with it.
    """
    return Query(_NOW, {"appends": appends}, lambda rows: Now(*rows[0]))


def save(clocks: Iterable[Clock]) -> Statement:
    """Save the heads of the tables' logs."""
    saved = list(clocks)
    return _SAVE, {
        "table_id": [clock.table_id for clock in saved],
        "tick_us": [clock.tick.micros for clock in saved],
        "last_time": [clock.last_time for clock in saved],
        "version": [clock.version for clock in saved],
        "hash": [clock.head for clock in saved],
    }


def chain_of(name: str) -> UUID:
    """The chain of the outcomes that concern no table, of commands that name ``name`` first."""
    return chain_of_name(advisory_locks.key_of_name(name))


def find_answer_heads(tables: Iterable[str], others: Iterable[UUID]) -> Query[dict[UUID, ChainHead]]:
    """The heads, by chain, that commands on these tables, and on the ``others``, may append to.

    They must be locked. A table that is not there has the chain of its name.
    """
    named = sorted(set(tables))
    names = [split_table_name(table) for table in named]
    parameters = {
        "namespaces": [namespace for namespace, _ in names],
        "tables": [name for _, name in names],
        "others": [*others, *{chain_of(name) for name in named}],
    }
    return Query(_FIND_CHAINS, parameters, _answer_heads)


def _answer_heads(rows: Rows) -> dict[UUID, ChainHead]:
    return {chain_id: ChainHead(number, bytes(digest)) for chain_id, number, digest in rows}


def save_answer_heads(heads: Mapping[UUID, ChainHead]) -> Statement:
    """Save the heads of chains."""
    return _SAVE_CHAINS, {
        "chain_id": list(heads),
        "number": [head.number for head in heads.values()],
        "hash": [head.hash for head in heads.values()],
    }


async def advance_wall_clock(connection: Connection) -> tuple[Micros, Micros]:
    """The wall clock, which is stored as returned, and the latest time that any table may have issued."""
    advanced, latest = (await connection.execute(_ADVANCE_WALL_CLOCK)).one()
    return Micros(advanced), Micros(latest)


async def now(connection: Connection) -> Now:
    """The present by the clocks of the database, for reading."""
    return await read(connection, read_now())


async def wall_offset(connection: Connection) -> int:
    """How far the wall clock is ahead of the steady clock."""
    return int((await connection.execute(_WALL_OFFSET)).scalar_one())


async def last_time(connection: Connection, table_id: UUID) -> Micros:
    """The last time issued to a table. Later events have later times."""
    time = (await connection.execute(_LAST_TIME, {"table_id": table_id})).scalar_one()
    return Micros(time)


async def read_steady_clock(connection: Connection) -> Reading:
    """The clocks as the database shows them."""
    return Reading(*(await connection.execute(_READ_STEADY_CLOCK)).one())


async def record_steady_clock(connection: Connection, reading: Reading, record: Record) -> bool:
    """Record the clock; gives false if another server has changed it meanwhile."""
    parameters = {
        "last_time": record.last_time,
        "wall_offset_us": record.wall_offset,
        "jump_us": record.jump_us,
        "offset_read": reading.wall_offset,
    }
    recorded = await connection.execute(_RECORD_STEADY_CLOCK, parameters)
    return bool(recorded.scalar_one())
