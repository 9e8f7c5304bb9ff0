"""The heads of the logs: the clock of each table, and the end of each chain of answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, NoReturn
from uuid import UUID

from typing_extensions import override

from chronolake_metastore.domain import logs
from chronolake_metastore.domain.events import Event, ImpossibleEvent, TableCreated
from chronolake_metastore.domain.logs import ChainHead, Clock
from chronolake_metastore.domain.state import State
from chronolake_metastore.domain.stored_events import PAYLOADS
from chronolake_metastore.projections.projection import Entries, Followed, Named, Projection, Rows
from chronolake_metastore.store import clocks
from chronolake_metastore.store.postgres.transaction import Statement


class Clocks(Projection):
    """The clocks, which a group of commands locks. Each event moves that of its table."""

    tables = ("clock",)
    named = ("tables", "logs")
    followed: ClassVar[Followed] = dict.fromkeys(PAYLOADS.values())

    @override
    @classmethod
    def load(cls, named: Named) -> Rows:
        locked = clocks.lock(named.tables, named.logs)
        yield [clocks.lock_names(named.tables, named.logs), locked]
        return {"clocks": locked.result}

    @override
    def evolve(self, event: Event) -> None:
        by_table = self.state.clocks
        clock = by_table.get(event.table_id) or _first_clock(event)
        by_table[event.table_id] = logs.advance(clock, event)

    @override
    def write(self, entries: Entries) -> Iterator[Statement]:
        yield clocks.save(self.state.clocks.values())


def _first_clock(event: Event) -> Clock:
    """The clock of a table that the event creates."""
    if not isinstance(event.payload, TableCreated):
        raise ImpossibleEvent("the log has no clock")
    return Clock(event.table_id, event.payload.definition.tick)


class AnswerChains(Projection):
    """The ends of the chains of answers. They grow by outcomes, not by events."""

    tables = ("answer_chain",)
    named = ("tables", "logs")

    def __init__(self, state: State) -> None:
        super().__init__(state)
        self.grown: dict[UUID, ChainHead] = {}

    @override
    @classmethod
    def load(cls, named: Named) -> Rows:
        heads = clocks.find_answer_heads(named.tables, named.logs)
        yield [heads]
        return {"answer_heads": heads.result}

    @override
    def evolve(self, event: Event) -> NoReturn:
        raise TypeError(event)

    def grow(self, chain_id: UUID, head: ChainHead) -> None:
        """Note the new end of a chain."""
        self.state.answer_heads[chain_id] = self.grown[chain_id] = head

    @override
    def write(self, entries: Entries) -> Iterator[Statement]:
        yield clocks.save_answer_heads(self.grown)
