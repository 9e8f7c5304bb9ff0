"""Commands on tables and their schemas."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import ClassVar, Final
from uuid import UUID

import msgspec
from typing_extensions import override

from chronolake_metastore import errors
from chronolake_metastore.commands.handler import Handler, Loading, Names, Sharing
from chronolake_metastore.commands.rollbacks import plan_of, roll_back
from chronolake_metastore.domain import locations, rights, rollbacks, schemas, tables
from chronolake_metastore.domain.base_paths import NEIGHBOURS_MAX, Neighbour, PublishedTime
from chronolake_metastore.domain.events import BasePathTakenOver, Now, Origin, TableCreated
from chronolake_metastore.domain.logs import CATALOG_ID, Clock
from chronolake_metastore.domain.results import AnyResult, DropResult, SchemaResult, TableResult
from chronolake_metastore.domain.schemas import ChangeSchema
from chronolake_metastore.domain.state import State
from chronolake_metastore.domain.tables import AlterTable, CreateTable, DropTable, FormerHolders, Table
from chronolake_metastore.store import base_paths, catalog, clocks, identity, instants
from chronolake_metastore.store.postgres.transaction import Query
from chronolake_model.names import split_table_name
from chronolake_model.times import Micros

_NO_METASTORE: Final = UUID(int=0)


class NewTable(msgspec.Struct, frozen=True):
    """Facts for the creation of a table.

    ``neighbours`` are the tables whose base paths overlap with the new one, ``dropped_clocks`` the clocks of
    those among them that are dropped, which are locked. ``former`` are the tables that had its name before.
    ``published_time`` is that of a pending instant to adopt at which a dropped neighbour has published files.
    """

    metastore_id: UUID = _NO_METASTORE
    former: FormerHolders = FormerHolders()
    neighbours: Sequence[Neighbour] = ()
    dropped_clocks: Sequence[Clock] = ()
    published_time: PublishedTime | None = None


class CreateTableHandler(Handler[CreateTable, NewTable]):
    """Creates a table, under the catalog's lock: no other table is created or dropped meanwhile."""

    command = CreateTable
    no_evidence: ClassVar[NewTable] = NewTable()

    @override
    def names(self, command: CreateTable) -> Names:
        name = command.definition.name
        return Names(
            tables=[name],
            catalog=True,
            namespaces=[split_table_name(name)[0]],
            new=rights.scopes_of([name]),
            # A dropped table of any name may have had the base path.
            beside=[rights.EVERYTHING],
        )

    @override
    def sharing(self, command: CreateTable) -> Sharing:
        return Sharing.ALONE

    @override
    def load(
        self, state: State, command: CreateTable, evidence: NewTable, now: Now
    ) -> Loading[NewTable] | None:
        return None if command.definition.name in state.tables else self._load(command)

    def _load(self, command: CreateTable) -> Loading[NewTable]:
        metastore, former = identity.find(), catalog.find_former_holders(command.definition.name)
        try:
            neighbours = base_paths.find_neighbours(tables.base_path_key(command), NEIGHBOURS_MAX + 1)
        except errors.InvalidTable:
            # The decision refuses it.
            return self.no_evidence
        yield [metastore, former, neighbours]
        dropped = [neighbour.table_id for neighbour in neighbours.result if neighbour.is_dropped]
        locked = clocks.lock_dropped(dropped)
        if dropped:
            yield [locked]
        return NewTable(
            metastore.result.metastore_id,
            former.result,
            neighbours.result,
            list(locked.result.values()) if dropped else [],
        )

    @override
    def decide(self, state: State, command: CreateTable, evidence: NewTable, origin: Origin) -> AnyResult:
        definition = command.definition
        name, _ = split_table_name(definition.name)
        payload = tables.create(
            state.namespaces.get(name),
            state.tables.get(definition.name),
            command,
            state.allowed_locations(name),
            evidence.neighbours,
            state.rights,
        )
        table_id = id_of_new_table(origin)
        last = take_over(state, table_id, payload, evidence, origin)
        start = Micros(last - last % definition.tick.micros)
        state.start_clock(Clock(table_id, definition.tick, start))
        state.append(table_id, origin, payload)
        return TableResult(
            log_id=table_id,
            table=state.tables[definition.name],
            metastore_id=evidence.metastore_id,
            is_new=True,
        )


def id_of_new_table(origin: Origin) -> UUID:
    """The id of the table that a request creates.

    The request id is unique as long as the log exists; so is what is made of it, without randomness.
    """
    return uuid.uuid5(CATALOG_ID, origin.request_id)


def take_over(
    state: State, table_id: UUID, payload: TableCreated, evidence: NewTable, origin: Origin
) -> Micros:
    """Take the folder over from dropped tables; gives the time after which the new table's clock starts.

    It is later than the times of tables that had this name or folder: their writers must not mistake instants
    of this table for their own.
    """
    for clock in evidence.dropped_clocks:
        state.start_clock(clock)
    for taken in payload.took_over:
        state.append(taken, origin, BasePathTakenOver(by=table_id, name=payload.definition.name))
    times = [state.clocks[taken].last_time for taken in payload.took_over]
    return max([evidence.former.last_time or Micros(0), *times])


class Alteration(msgspec.Struct, frozen=True):
    """Facts for a change of a table: its first ``pending`` instants, and former tables of its new name.

    ``key`` is that of its base path.
    """

    metastore_id: UUID = _NO_METASTORE
    pending: Sequence[Micros] = ()
    former: FormerHolders = FormerHolders()
    key: str | None = None


class AlterTableHandler(Handler[AlterTable, Alteration]):
    """Renames a table, and changes its properties.

    In a transaction of its own, because later commands of a group were loaded by the former names.
    """

    command = AlterTable
    no_evidence: ClassVar[Alteration] = Alteration()

    @override
    def names(self, command: AlterTable) -> Names:
        name = command.new_name or command.name
        return Names(
            tables=list(dict.fromkeys([command.name, name])),
            catalog=command.new_name is not None,
            namespaces=[split_table_name(name)[0]] if command.concerns_storage else [],
            new=[] if command.new_name is None else rights.scopes_of([command.new_name]),
        )

    @override
    def sharing(self, command: AlterTable) -> Sharing:
        return Sharing.ALONE

    @override
    def load(
        self, state: State, command: AlterTable, evidence: Alteration, now: Now
    ) -> Loading[Alteration] | None:
        table = state.locked_table(command.name)
        return None if table is None else self._load(table, command)

    def _load(self, table: Table, command: AlterTable) -> Loading[Alteration]:
        metastore, pending = identity.find(), catalog.find_pending(table.table_id)
        former = catalog.find_former_holders(command.new_name or table.name, table.table_id)
        key = base_paths.find_key(table.table_id) if command.concerns_storage else Query.known(None)
        yield [metastore, pending, former, key]
        return Alteration(metastore.result.metastore_id, pending.result, former.result, key.result)

    @override
    def decide(self, state: State, command: AlterTable, evidence: Alteration, origin: Origin) -> AnyResult:
        table = state.table(command.name)
        payload = tables.alter(table, command, evidence.pending)
        if payload is not None:
            namespace = tables.namespace_to_check(table, payload)
            if namespace is not None:
                base_path = table.definition.base_path
                address = locations.address_of(base_path, evidence.key)
                state.allowed_locations(namespace).refuse_outside(base_path, address)
            if payload.new_name is not None:
                self._take_name(state, table, payload.new_name, evidence.former)
            state.append(table.table_id, origin, payload)
        altered = state.table(command.new_name or command.name)
        return TableResult(log_id=table.table_id, table=altered, metastore_id=evidence.metastore_id)

    def _take_name(self, state: State, table: Table, name: str, former: FormerHolders) -> None:
        namespace, holder = state.namespaces.get(split_table_name(name)[0]), state.tables.get(name)
        tables.refuse_rename(table, name, namespace, holder, former)
        # Its next instants get later times than all that writers know by this name.
        clock, last = state.clocks[table.table_id], former.last_time or 0
        behind = Micros(max(clock.last_time, last - last % clock.tick.micros))
        state.start_clock(msgspec.structs.replace(clock, last_time=behind))


class DropTableHandler(Handler[DropTable, None]):
    """Drops a table."""

    command = DropTable

    @override
    def names(self, command: DropTable) -> Names:
        return Names(tables=[command.name], catalog=True)

    @override
    def decide(self, state: State, command: DropTable, evidence: None, origin: Origin) -> AnyResult:
        table = state.locked_table(command.name)
        version = 0 if table is None else state.clocks[table.table_id].version
        payload = tables.drop(state.tables.get(command.name), command, version)
        table = state.table(command.name)
        state.append(table.table_id, origin, payload)
        return DropResult(log_id=table.table_id)


class ChangeSchemaHandler(Handler[ChangeSchema, None]):
    """Changes a table's schema, and cancels the clusterings that sort by a column that is gone."""

    command = ChangeSchema

    @override
    def names(self, command: ChangeSchema) -> Names:
        clusterings = instants.find_waiting_clusterings(command.table)
        return Names(tables=[command.table], instant_queries=[clusterings])

    @override
    def decide(self, state: State, command: ChangeSchema, evidence: None, origin: Origin) -> AnyResult:
        table = state.table(command.table)
        event = state.append(table.table_id, origin, schemas.change(table, command))
        changed = state.table(command.table)
        version = schemas.present(changed, event.time, event.version)
        pending = list(state.instants_of(changed.table_id))
        for cancelling in rollbacks.of_impossible_layouts(changed, pending, origin.actor):
            target = state.instant(changed, cancelling.requested_time)
            roll_back(state, changed, cancelling, plan_of(state, changed, cancelling, target), origin)
        return SchemaResult(log_id=table.table_id, table=changed.name, schema=version)
