"""Commands on tables."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import ClassVar, Final
from uuid import UUID

import msgspec
from typing_extensions import override

from chronolake_metastore import errors
from chronolake_metastore.commands.answers import Answer, answer
from chronolake_metastore.commands.handler import Handler, Loading, Names, Sharing
from chronolake_metastore.domain import tables
from chronolake_metastore.domain.base_paths import NEIGHBOURS_MAX, Neighbour
from chronolake_metastore.domain.clock import CATALOG_ID, Clock
from chronolake_metastore.domain.events import BasePathTakenOver, Origin
from chronolake_metastore.domain.state import State
from chronolake_metastore.domain.tables import CreateTable, DropTable
from chronolake_metastore.store import base_paths, catalog, clocks, identity
from chronolake_model.names import split_table_name
from chronolake_model.times import Micros

_NO_METASTORE: Final = UUID(int=0)


class NewTable(msgspec.Struct, frozen=True):
    """What creating a table goes by.

    ``neighbours`` are the tables whose base paths overlap with the new one, ``dropped_clocks`` the clocks of
    those among them that are dropped, which are locked. ``last_time`` is the last time that a dropped table of
    the same name has issued.
    """

    metastore_id: UUID = _NO_METASTORE
    last_time: Micros | None = None
    neighbours: Sequence[Neighbour] = ()
    dropped_clocks: Sequence[Clock] = ()


class CreateTableHandler(Handler[CreateTable, NewTable]):
    """Creates a table, under the catalog's lock: no other table is created or dropped meanwhile."""

    command = CreateTable
    no_evidence: ClassVar[NewTable] = NewTable()

    @override
    def names(self, command: CreateTable) -> Names:
        name = command.request.name
        return Names(tables=[name], catalog=True, namespaces=[split_table_name(name)[0]])

    @override
    def sharing(self, command: CreateTable) -> Sharing:
        return Sharing.ALONE

    @override
    def load(
        self, state: State, command: CreateTable, evidence: NewTable, now: Micros
    ) -> Loading[NewTable] | None:
        return None if command.request.name in state.tables else self._load(command)

    def _load(self, command: CreateTable) -> Loading[NewTable]:
        metastore, last_time = identity.find(), catalog.find_last_time(command.request.name)
        try:
            neighbours = base_paths.find_neighbours(tables.base_path_key(command), NEIGHBOURS_MAX + 1)
        except errors.InvalidTable:
            # The decision refuses it.
            return self.no_evidence
        yield [metastore, last_time, neighbours]
        dropped = [neighbour.table_id for neighbour in neighbours.result if neighbour.is_dropped]
        locked = clocks.lock_dropped(dropped)
        if dropped:
            yield [locked]
        return NewTable(
            metastore.result.metastore_id,
            last_time.result,
            neighbours.result,
            list(locked.result.values()) if dropped else [],
        )

    @override
    def decide(self, state: State, command: CreateTable, evidence: NewTable, origin: Origin) -> Answer:
        definition = command.request
        namespace = state.namespaces.get(split_table_name(definition.name)[0])
        payload = tables.create(namespace, state.tables.get(definition.name), command, evidence.neighbours)
        # The request id is unique as long as the log exists; so is what is made of it, without randomness.
        table_id = uuid.uuid5(CATALOG_ID, origin.request_id)
        for clock in evidence.dropped_clocks:
            state.start_clock(clock)
        for taken in payload.took_over:
            state.append(taken, origin, BasePathTakenOver(by=table_id, name=definition.name))
        # Not behind a dropped table of this name: its writers must not meet their instants again in this one.
        last = max(evidence.last_time or 0, *(state.clocks[taken].last_time for taken in payload.took_over), 0)
        start = Micros(last - last % definition.tick.micros)
        state.start_clock(Clock(table_id, definition.tick, start))
        state.append(table_id, origin, payload)
        return answer(201, tables.document(state.tables[definition.name], evidence.metastore_id), table_id)


class DropTableHandler(Handler[DropTable, None]):
    """Drops a table."""

    command = DropTable

    @override
    def names(self, command: DropTable) -> Names:
        return Names(tables=[command.name], catalog=True)

    @override
    def decide(self, state: State, command: DropTable, evidence: None, origin: Origin) -> Answer:
        payload = tables.drop(state.tables.get(command.name), command)
        table = state.table(command.name)
        state.append(table.table_id, origin, payload)
        return Answer(204, b"", table.table_id)
