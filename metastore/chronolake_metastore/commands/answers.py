"""The answers to commands: their results, and the bodies that a dialect makes of them."""

from __future__ import annotations

import msgspec

from chronolake_metastore.domain import instants
from chronolake_metastore.domain.instants import TableInstant
from chronolake_metastore.domain.results import AnyResult, InstantResult
from chronolake_metastore.domain.state import State
from chronolake_metastore.domain.tables import Table
from chronolake_model.times import Micros


class Answer(msgspec.Struct, frozen=True):
    """The result of a command, and its answer in the dialect of the caller: empty for a caller without one."""

    result: AnyResult
    body: bytes = b""


def instant_of(state: State, table: Table, requested_time: Micros) -> TableInstant:
    """An instant in its present state."""
    return instants.of_table(table, state.instants[table.table_id, requested_time], state.wall_offset)


def instant_result(
    state: State, table: Table, requested_time: Micros, *, is_new: bool = False
) -> InstantResult:
    """The result of a command that concerns one instant, in its present state."""
    instant = state.instants[table.table_id, requested_time]
    of = instants.of_table(table, instant, state.wall_offset)
    return InstantResult(log_id=table.table_id, of=of, is_new=is_new)
