"""Namespaces with their locations, and tables with their schemas and base paths."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import Any, ClassVar
from uuid import UUID

from typing_extensions import override

from chronolake_metastore.domain import base_paths, events, locations, namespaces, plans, schemas, tables
from chronolake_metastore.domain.base_paths import BasePath
from chronolake_metastore.domain.changes import SchemaOfTable
from chronolake_metastore.domain.events import Event, ImpossibleEvent, InstantCompleted, InstantRequested
from chronolake_metastore.domain.state import State
from chronolake_metastore.domain.tables import Table
from chronolake_metastore.projections.projection import Entries, Followed, Named, Projection, Rows
from chronolake_metastore.store import (
    base_paths as stored_base_paths,
    catalog,
    locations as stored_locations,
    schemas as stored_schemas,
)
from chronolake_metastore.store.locations import StoredLocation
from chronolake_metastore.store.postgres.transaction import Statement
from chronolake_model.names import split_table_name
from chronolake_model.times import Micros


class Namespaces(Projection):
    """The namespaces, with the numbers of their tables."""

    tables = ("namespace",)
    named = ("namespaces",)
    followed: ClassVar[Followed] = {events.NamespaceCreated: None, events.NamespaceDropped: None}

    def __init__(self, state: State) -> None:
        super().__init__(state)
        self.created: set[str] = set()
        self.dropped: set[str] = set()

    @override
    @classmethod
    def load(cls, named: Named) -> Rows:
        query = catalog.find_namespaces(named.namespaces)
        yield [query]
        return {
            "namespaces": {namespace.name: namespace for namespace, _ in query.result},
            "table_counts": {namespace.name: count for namespace, count in query.result},
        }

    @override
    def evolve(self, event: Event) -> None:
        match event.payload:
            case events.NamespaceCreated() as payload:
                self.state.namespaces[payload.name] = namespaces.evolve_created(payload, event.time)
                self.state.table_counts[payload.name] = 0
                # One that was dropped before stays among the dropped: its row goes before the new one comes.
                self.created.add(payload.name)
            case events.NamespaceDropped() as payload:
                if self.state.namespaces.pop(payload.name, None) is None:
                    raise ImpossibleEvent("there is no such namespace")
                self.created.discard(payload.name)
                self.dropped.add(payload.name)
            case other:
                raise TypeError(other)

    @override
    def write(self, entries: Entries) -> Iterator[Statement]:
        if self.dropped:
            yield catalog.delete_namespaces(self.dropped)
        if self.created:
            yield catalog.save_namespaces([self.state.namespaces[name] for name in self.created])


class Locations(Projection):
    """The locations that were allowed to namespaces, revoked ones too: a list without any allows nothing."""

    tables = ("location",)
    named = ("namespaces",)
    followed: ClassVar[Followed] = {events.LocationAllowed: None, events.LocationRevoked: None}

    def __init__(self, state: State) -> None:
        super().__init__(state)
        self.changed: dict[tuple[str, str], StoredLocation] = {}

    @override
    @classmethod
    def load(cls, named: Named) -> Rows:
        query = stored_locations.find(named.namespaces)
        yield [query]
        return {"locations": query.result}

    @override
    def evolve(self, event: Event) -> None:
        payload, own = event.payload, self.state.locations
        match payload:
            case events.LocationAllowed():
                own[payload.namespace] = locations.evolve_allowed(own.get(payload.namespace), payload)
            case events.LocationRevoked():
                own[payload.namespace] = locations.evolve_revoked(own.get(payload.namespace), payload)
            case other:
                raise TypeError(other)
        is_allowed = isinstance(payload, events.LocationAllowed)
        stored = StoredLocation(payload.namespace, payload.location, is_allowed, event.version)
        self.changed[payload.namespace, payload.location] = stored

    @override
    def write(self, entries: Entries) -> Iterator[Statement]:
        if self.changed:
            yield stored_locations.save(list(self.changed.values()))


def _changes_table(payload: InstantCompleted) -> object:
    return payload.cleaned_before or payload.earliest_commit_to_retain or payload.buckets


class Tables(Projection):
    """The tables, the versions of their schemas, and their base paths."""

    tables = ("lake_table", "schema_version", "base_path")
    named = ("tables",)
    followed: ClassVar[Followed] = {
        events.TableCreated: None,
        events.TableAltered: None,
        events.TableSchemaChanged: None,
        events.TableAdopted: None,
        events.TableDropped: None,
        events.BasePathTakenOver: None,
        InstantRequested: attrgetter("plan"),
        InstantCompleted: _changes_table,
    }

    def __init__(self, state: State) -> None:
        super().__init__(state)
        self.changed: dict[UUID, Table] = {}
        self.schemas: list[SchemaOfTable] = []
        self.base_paths: list[BasePath] = []
        self.taken_base_paths: dict[UUID, UUID] = {}
        """By dropped table, the table that took its base path over."""

    @override
    @classmethod
    def load(cls, named: Named) -> Rows:
        query = catalog.find_tables(named.tables)
        yield [query]
        return {"tables": {table.name: table for table in query.result}}

    @override
    def evolve(self, event: Event) -> None:
        match event.payload:
            case InstantRequested() | InstantCompleted() as payload:
                self._follow_instant(payload, event)
            case events.TableCreated() as payload:
                self._set_schema(tables.evolve_created(payload, event.table_id, event.time), event)
                self._count(payload.definition.name, 1)
                self.base_paths.append(base_paths.of_new_table(event.table_id, payload))
            case events.BasePathTakenOver() as payload:
                self.taken_base_paths[event.table_id] = payload.by
            case events.TableDropped() as payload:
                table = self._named(event, payload.name)
                del self.state.tables[payload.name]
                self.changed[event.table_id] = tables.evolve_dropped(table, event.time)
                self._count(payload.name, -1)
            case events.TableAltered() as payload:
                self._alter(self._named(event, payload.name), payload, event)
            case events.TableSchemaChanged() as payload:
                self._set_schema(schemas.evolve(self._named(event, payload.name), payload), event)
            case events.TableAdopted() as payload:
                table = self._named(event, payload.name)
                self._set(tables.evolve_adopted(table, payload, event.version, event.time))
            case other:
                raise TypeError(other)

    @override
    def write(self, entries: Entries) -> Iterator[Statement]:
        if self.changed:
            yield catalog.save_tables(list(self.changed.values()))
        yield from stored_base_paths.save(self.base_paths, self.taken_base_paths)
        if self.schemas:
            yield stored_schemas.append(self.schemas)

    def _follow_instant(self, payload: InstantRequested | InstantCompleted, event: Event) -> None:
        # From the plan of a clean on, the table is not served as of earlier times: the files may be deleted at
        # any moment.
        source: Any = payload.plan if isinstance(payload, InstantRequested) else payload
        cleaned_before: Micros | None = source.cleaned_before
        earliest: Micros | None = source.earliest_commit_to_retain
        if cleaned_before is not None or earliest is not None:
            self._set(tables.evolve_cleaned(self._of(event), cleaned_before, earliest))
        if isinstance(payload, InstantCompleted) and payload.buckets is not None:
            self._set(plans.evolve_resized(self._of(event), payload.buckets, event))

    def _alter(self, before: Table, payload: events.TableAltered, event: Event) -> None:
        after = tables.evolve_altered(before, payload, event.time)
        if after.name != before.name:
            if after.name in self.state.tables:
                raise ImpossibleEvent("the new name is another table's")
            del self.state.tables[before.name]
            self._count(before.name, -1)
            self._count(after.name, 1)
        self._set(after)

    def _set_schema(self, table: Table, event: Event) -> None:
        self._set(table)
        self.schemas.append(SchemaOfTable(event.table_id, schemas.present(table, event.time, event.version)))

    def _set(self, table: Table) -> None:
        self.state.tables[table.name] = table
        self.changed[table.table_id] = table

    def _count(self, name: str, change: int) -> None:
        namespace, _ = split_table_name(name)
        counts = self.state.table_counts
        counts[namespace] = counts.get(namespace, 0) + change

    def _named(self, event: Event, name: str) -> Table:
        table = self.state.tables.get(name)
        if table is None:
            raise ImpossibleEvent("there is no such table")
        if table.table_id != event.table_id:
            raise ImpossibleEvent("the name is another table's")
        return table

    def _of(self, event: Event) -> Table:
        for table in self.state.tables.values():
            if table.table_id == event.table_id:
                return table
        raise ImpossibleEvent("there is no such table")
