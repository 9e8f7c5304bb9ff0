"""The part of the lake that a group of commands touches: loaded under locks, changed only by events.

The same object replays the log on a rebuild, so that live and rebuilt projections come from one ``evolve``.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from chronolake_metastore import errors
from chronolake_metastore.domain import events, files, instants, namespaces, tables
from chronolake_metastore.domain.clock import CATALOG_ID, Clock
from chronolake_metastore.store.event_log import PublishedFiles
from chronolake_metastore.store.files import Publication
from chronolake_model.file_names import FileKind
from chronolake_model.files import WriteStat
from chronolake_model.names import split_table_name
from chronolake_model.times import Micros, Tick


class Lake:
    """Clocks, namespaces, tables, instants and file groups, as far as they were loaded, and what changed."""

    def __init__(self) -> None:
        self.clocks: dict[UUID, Clock] = {}
        self.namespaces: dict[str, namespaces.Namespace] = {}
        self.tables_in: dict[str, int] = {}
        self.tables: dict[str, tables.Table] = {}
        self.last_times: dict[str, Micros] = {}
        self.instants: dict[tuple[UUID, Micros], instants.Instant] = {}
        self.base_files: dict[files.FileGroup, files.BaseFile] = {}
        self.events: list[events.Event] = []
        self.published: list[PublishedFiles] = []
        self.publications: list[Publication] = []
        self.changed_tables: dict[UUID, tables.Table] = {}
        self.changed_instants: set[tuple[UUID, Micros]] = set()
        self.made_namespaces: set[str] = set()
        self.dropped_namespaces: set[str] = set()

    def know_table(self, table: tables.Table) -> None:
        """Take in a table that is not dropped."""
        self.tables[table.name] = table

    def forget_changes(self) -> None:
        """Regard what has changed as written; what is known stays."""
        self.events.clear()
        self.published.clear()
        self.publications.clear()
        self.changed_tables.clear()
        self.changed_instants.clear()
        self.made_namespaces.clear()
        self.dropped_namespaces.clear()

    def table(self, name: str) -> tables.Table:
        """A table whose clock is locked; raises ``TableNotFound``."""
        table = self.tables.get(name)
        # Made between the look-up of the names and now: it is not locked, so for us it is not there yet.
        if table is None or table.table_id not in self.clocks:
            raise errors.TableNotFound(name)
        return table

    def append(
        self,
        table_id: UUID,
        origin: events.Origin,
        payload: events.Payload,
        instant: Micros | None = None,
        write_stats: Sequence[WriteStat] = (),
    ) -> events.Event:
        """Append an event to a table's log, and bring the state up to it."""
        event = events.next_event(self.clocks[table_id], origin, payload, instant)
        self.events.append(event)
        if isinstance(payload, events.InstantCompleted):
            self.published.append(PublishedFiles(table_id, event.version, write_stats))
            self._publish(event, write_stats)
        self.apply(event)
        return event

    def apply(self, event: events.Event) -> None:
        """Bring the state up to ``event``, live and on rebuild alike."""
        payload = event.payload
        match payload:
            case events.NamespaceCreated():
                self.namespaces[payload.name] = namespaces.evolve_created(payload, event.time)
                self.tables_in[payload.name] = 0
                # One that was dropped before stays among the dropped: its row goes before the new one comes.
                self.made_namespaces.add(payload.name)
            case events.NamespaceDropped():
                del self.namespaces[payload.name]
                self.made_namespaces.discard(payload.name)
                self.dropped_namespaces.add(payload.name)
            case events.TableCreated():
                self._create_table(payload, event)
            case events.TableDropped():
                self._drop_table(payload, event)
            case _:
                self._apply_to_instant(event)
        self.clocks[event.table_id] = events.advance(self.clocks[event.table_id], event)

    def _create_table(self, payload: events.TableCreated, event: events.Event) -> None:
        table = tables.evolve_created(payload, event.table_id, event.time)
        self.clocks.setdefault(event.table_id, Clock(event.table_id, payload.definition.tick))
        self.know_table(table)
        self.changed_tables[event.table_id] = table
        self._count_table(table.name, 1)

    def _drop_table(self, payload: events.TableDropped, event: events.Event) -> None:
        table = self.tables.pop(payload.name)
        self.changed_tables[event.table_id] = tables.evolve_dropped(table, event.time)
        self._count_table(payload.name, -1)

    def _count_table(self, name: str, change: int) -> None:
        namespace, _ = split_table_name(name)
        self.tables_in[namespace] = self.tables_in.get(namespace, 0) + change

    def _apply_to_instant(self, event: events.Event) -> None:
        assert event.instant is not None
        key = (event.table_id, event.instant)
        self.instants[key] = instants.evolve(self.instants.get(key), event)
        self.changed_instants.add(key)
        if isinstance(event.payload, events.InstantCompleted):
            self.publications.append(Publication(event.table_id, event.version, event.instant, event.time))

    def _publish(self, event: events.Event, write_stats: Sequence[WriteStat]) -> None:
        """Let the commands behind this one in the group see whose base file is the latest."""
        assert event.instant is not None
        base = files.BaseFile(event.instant, event.time)
        for stat in write_stats:
            if files.kind_of(stat) is FileKind.BASE:
                self.base_files[files.FileGroup(event.table_id, stat.partition_path, stat.file_id)] = base


def new_lake() -> Lake:
    """A lake in which nothing has happened: the catalog's clock, and no more."""
    lake = Lake()
    lake.clocks[CATALOG_ID] = Clock(CATALOG_ID, Tick.MILLISECOND)
    return lake
