"""The part of the metastore's state that a group of commands touches, and how events change it.

``Loaded`` has the rows that were read under the locks, and never changes. ``State`` starts from it;
``State.evolve`` is the only way in which the state changes, for live commands and on replay of the log alike.
It passes an event to the projections that the event concerns.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self, TypeVar, cast
from uuid import UUID

import msgspec

from chronolake_metastore import errors
from chronolake_metastore.domain import (
    concurrency,
    conflicts,
    events,
    files,
    lists,
    locations,
    logs,
    reported_files,
)
from chronolake_metastore.domain.changes import (
    InstantKey,
    ListKey,
    ListOfEvent,
    ReportedFiles,
    WrittenFiles,
)
from chronolake_metastore.domain.conflicts import ConcurrentInstant
from chronolake_metastore.domain.events import ImpossibleEvent
from chronolake_metastore.domain.files import FileGroup
from chronolake_metastore.domain.instants import Instant, Marks
from chronolake_metastore.domain.lists import NO_LIST_ENTRIES, ListEntries, ListName
from chronolake_metastore.domain.locations import AllowedLocations
from chronolake_metastore.domain.logs import CATALOG_ID, START, ChainHead, Clock
from chronolake_metastore.domain.namespaces import Namespace
from chronolake_metastore.domain.reported_files import BufferedFile
from chronolake_metastore.domain.rights import UNLIMITED
from chronolake_metastore.domain.streams import Stream, StreamKey
from chronolake_metastore.domain.tables import Table, archived_instant
from chronolake_model.files import WriteStat
from chronolake_model.marker_names import DeletedFile
from chronolake_model.times import Micros, Tick, format_time

EvolutionT = TypeVar("EvolutionT", bound="Evolution")


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """Projections that are read under the locks. ``clocks`` are of the tables that are locked.

    ``renamed`` maps a name without a table, or without an instant that is named, to the present name of the
    table that had it last. ``answer_heads`` are the heads of the chains of answers; a chain that is not there
    has no outcome yet. ``table_counts`` says how many tables a namespace has. ``locations`` are those of the
    namespaces that have a list of their own, ``default_locations`` those of the others. ``marks`` are of
    instants that may end. ``wall_offset`` is how far the wall clock is ahead of the steady clock.
    """

    clocks: Mapping[UUID, Clock] = {}
    answer_heads: Mapping[UUID, ChainHead] = {}
    namespaces: Mapping[str, Namespace] = {}
    table_counts: Mapping[str, int] = {}
    locations: Mapping[str, Sequence[str]] = {}
    default_locations: Sequence[str] = ()
    tables: Mapping[str, Table] = {}
    renamed: Mapping[str, str] = {}
    present_names: Mapping[UUID, str] = {}
    instants: Mapping[InstantKey, Instant] = {}
    marks: Mapping[InstantKey, Marks] = {}
    concurrent: Mapping[FileGroup, tuple[ConcurrentInstant, ...]] = {}
    streams: Mapping[StreamKey, Stream] = {}
    wall_offset: int = 0


EMPTY = Loaded(clocks={CATALOG_ID: Clock(CATALOG_ID, Tick.MILLISECOND)})
"""An empty metastore: only the catalog's clock."""


class StateChanges:
    """Events to append, and the rows beside them."""

    def __init__(self) -> None:
        self.events: list[events.Event] = []
        """Without earlier ones, which are appended already."""
        self.lists: list[ListOfEvent] = []
        self.written: list[WrittenFiles] = []
        self.reported: list[ReportedFiles] = []

    def copy(self) -> StateChanges:
        """A copy of the changes so far."""
        copied = StateChanges()
        vars(copied).update({name: copy.copy(value) for name, value in vars(self).items()})
        return copied


class Evolution(ABC):
    """The part that a projection has in a state: it follows the events that concern it.

    It keeps which rows have changed. A state makes it when the first event concerns it.
    """

    def __init__(self, state: State) -> None:
        self.state = state
        self.must_be_written = False
        """Whether the changes so far are written before the next event of the log."""

    @abstractmethod
    def evolve(self, event: events.Event) -> None:
        """Follow the next event; raises ``ImpossibleEvent``."""

    def copied(self) -> Self:
        """A copy. Values are never changed in place, collections are."""
        copied = copy.copy(self)
        vars(copied).update({name: copy.copy(value) for name, value in vars(self).items() if name != "state"})
        return copied


Routes = Mapping[type[events.Payload], Sequence[tuple[type[Evolution], Callable[[Any], object] | None]]]
"""By type of event, the projections that it concerns, in their order.

A function of the payload says whether it does; without one it always does.
"""


class State:
    """Clocks, namespaces, tables and instants as they stand after the events so far, and the changes."""

    def __init__(self, loaded: Loaded, routes: Routes) -> None:
        self._routes = routes
        self.evolutions: dict[type[Evolution], Evolution] = {}
        self.rights = UNLIMITED
        """The rights of the caller of the present command, on what it names."""
        self.wall_offset = loaded.wall_offset
        self.marks = loaded.marks
        self.renamed = loaded.renamed
        self.present_names = loaded.present_names
        self.default_locations = loaded.default_locations
        self.clocks = dict(loaded.clocks)
        self.answer_heads = dict(loaded.answer_heads)
        self.namespaces = dict(loaded.namespaces)
        self.table_counts = dict(loaded.table_counts)
        self.locations = dict(loaded.locations)
        self.tables = dict(loaded.tables)
        self.instants = dict(loaded.instants)
        self.streams = dict(loaded.streams)
        self.concurrent = dict(loaded.concurrent)
        self._completed: list[tuple[UUID, Instant, Sequence[WriteStat]]] = []
        """The completions since the state was loaded, with the id of the table."""
        self.buffered: dict[FileGroup, tuple[BufferedFile, ...]] = {}
        """The files that were reported to streams since the state was loaded."""
        self.changes = StateChanges()

    def table(self, name: str) -> Table:
        """A table whose clock is locked; raises ``TableNotFound``."""
        table = self.locked_table(name)
        if table is None:
            raise errors.TableNotFound(name, self.renamed.get(name))
        return table

    def allowed_locations(self, namespace: str) -> AllowedLocations:
        """Where the tables of a namespace may have their base paths."""
        return locations.effective(namespace, self.locations.get(namespace), self.default_locations)

    def refuse_other(self, name: str, table_id: UUID) -> None:
        """Raise ``TableNotFound`` unless ``name`` is that of the table with this id."""
        table = self.locked_table(name)
        if table is None or table.table_id != table_id:
            raise errors.TableNotFound(name, self.present_names.get(table_id), table_id=table_id)

    def locked_table(self, name: str) -> Table | None:
        """A table whose clock is locked, if it is there.

        A table that was created after its name was looked up is not locked, and counts as missing.
        """
        table = self.tables.get(name)
        return table if table is not None and table.table_id in self.clocks else None

    def instant(self, table: Table, requested_time: Micros) -> Instant:
        """An instant of a table; raises ``InstantNotFound`` or ``IllegalTransition``."""
        self.refuse_archived(table, requested_time)
        instant = self.instants.get((table.table_id, requested_time))
        if instant is None:
            time = format_time(requested_time, table.definition.tick)
            raise errors.InstantNotFound(table.name, time, self.renamed.get(table.name))
        return instant

    def refuse_archived(self, table: Table, requested_time: Micros) -> None:
        """Raise ``IllegalTransition`` if an instant of this time can only be in the archive of the log."""
        instants_from = self.clocks[table.table_id].instants_from
        if instants_from is not None and self.is_archived(table, requested_time):
            raise archived_instant(table, requested_time, instants_from)

    def is_archived(self, table: Table, requested_time: Micros) -> bool:
        """Whether an instant of this time can only be in the archive of the log."""
        instants_from = self.clocks[table.table_id].instants_from
        return instants_from is not None and requested_time < instants_from

    def find_instant(self, table: str, requested_time: Micros) -> tuple[Table, Instant] | None:
        """A table and an instant of it, if both are there."""
        locked = self.locked_table(table)
        instant = None if locked is None else self.instants.get((locked.table_id, requested_time))
        return None if locked is None or instant is None else (locked, instant)

    def stream(self, table: Table, name: str) -> Stream:
        """A stream of a table; raises ``StreamNotFound``."""
        stream = self.streams.get((table.table_id, name))
        if stream is None:
            raise errors.StreamNotFound(table.name, name)
        return stream

    def streams_of(self, table_id: UUID) -> list[Stream]:
        """The streams of a table, as far as they were loaded."""
        return [stream for (of_table, _), stream in self.streams.items() if of_table == table_id]

    def instants_of(self, table_id: UUID) -> list[Instant]:
        """The instants of a table, as far as they were loaded."""
        return [instant for (of_table, _), instant in self.instants.items() if of_table == table_id]

    def latest_inserts(self, table_id: UUID) -> concurrency.LatestInserts:
        """The inserts into a table since the state was loaded."""
        latest: dict[concurrency.PartitionKey, ConcurrentInstant] = {}
        for of_table, completed, write_stats in self._completed:
            if of_table == table_id:
                latest |= concurrency.inserts_of(completed, write_stats, table_id, self.concurrent)
        return latest

    def add_loaded(self, table_id: UUID, instant: Instant, marks: Marks) -> None:
        """Add an instant that was read under the locks after the others, unless it is there already."""
        key = table_id, instant.requested_time
        if key not in self.instants:
            self.instants[key] = instant
            self.marks = {**self.marks, key: marks}

    def has_markers(self, table: Table, instant: Instant) -> bool:
        """Whether an instant that may end has markers."""
        marks = self.marks.get((table.table_id, instant.requested_time))
        return marks is not None and marks.has_markers

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """Undo what the block has appended if it raises. Values are never changed in place."""
        before = {name: copy.copy(value) for name, value in vars(self).items() if name != "changes"}
        before["changes"] = self.changes.copy()
        before["evolutions"] = {kind: evolution.copied() for kind, evolution in self.evolutions.items()}
        try:
            yield
        except errors.TimelineError:
            vars(self).update(before)
            raise

    def start_clock(self, clock: Clock) -> None:
        """Add the clock of a log that is locked, or new."""
        self.clocks[clock.table_id] = clock

    def append(
        self,
        table_id: UUID,
        origin: events.Origin,
        payload: events.Payload,
        instant: Micros | None = None,
        write_stats: Sequence[WriteStat] = (),
        entries_by_list: ListEntries = NO_LIST_ENTRIES,
    ) -> events.Event:
        """Append an event to a table's log, and evolve the state by it.

        ``write_stats`` and the lists in ``entries_by_list`` are rows beside the event.
        """
        head = self.answer_heads.get(table_id, START)
        event = logs.next_event(self.clocks[table_id], origin, payload, instant, head)
        self.changes.events.append(event)
        self.evolve(event)
        self._add_write_stats(event, write_stats)
        self._add_lists(event, entries_by_list)
        return event

    def append_requests(
        self, table_id: UUID, origin: events.Origin, payload: events.InstantRequested, count: int
    ) -> list[events.Event]:
        """Append ``count`` events, each of which requests an instant without lists; see ``append``."""
        head = self.answer_heads.get(table_id, START)
        requests = logs.next_requests(self.clocks[table_id], origin, payload, count, head)
        self.changes.events.extend(requests)
        for event in requests:
            self.evolve(event)
        return requests

    def append_report(
        self,
        table_id: UUID,
        origin: events.Origin,
        payload: events.FilesDeleted,
        instant: Micros,
        reported: Sequence[DeletedFile],
    ) -> events.Event:
        """Append an event that reports deleted files: rows beside it."""
        event = self.append(table_id, origin, payload, instant)
        self.changes.reported.append(ReportedFiles(table_id, event.version, payload.of, reported))
        return event

    def _add_write_stats(self, event: events.Event, write_stats: Sequence[WriteStat]) -> None:
        if not write_stats:
            return
        self.changes.written.append(WrittenFiles(event.table_id, event.version, write_stats))
        if isinstance(event.payload, events.InstantCompleted):
            completed = self.instant_of(event)
            changes = conflicts.group_changes(completed.begun_as, files.touches(write_stats), [])
            concurrency.add(self.concurrent, event.table_id, changes, completed)
            self._completed.append((event.table_id, completed, write_stats))
        if isinstance(event.payload, events.WriteStatsStaged) and event.payload.report is not None:
            self._buffer(event, write_stats)

    def _buffer(self, event: events.Event, write_stats: Sequence[WriteStat]) -> None:
        place = self.instant_of(event).stream
        assert place is not None, "only instants of streams take reports of tasks"
        checkpoint = self.streams[event.table_id, place.name].checkpoints[place.checkpoint]
        for file in reported_files.buffered(
            write_stats, event.version, place.name, place.checkpoint, checkpoint
        ):
            group = FileGroup(event.table_id, file.partition_path, file.file_id)
            self.buffered[group] = (*self.buffered.get(group, ()), file)

    def _add_lists(self, event: events.Event, entries_by_list: ListEntries) -> None:
        """Keep the lists of an event as rows; later commands conflict with the file groups in them."""
        if entries_by_list.keys() != logs.lists_of(event.payload).keys():
            raise ImpossibleEvent("the lists beside an event are those that its payload seals")
        for name, entries in entries_by_list.items():
            instant = self.instant_of(event)
            key = ListKey(event.table_id, instant.requested_time, event.version, name)
            self.changes.lists.append(ListOfEvent(key, entries))
            match name:
                case ListName.PLAN_FILE_GROUPS:
                    groups = lists.file_groups(entries)
                    concurrency.add_plan(self.concurrent, event.table_id, instant, groups)
                case ListName.REPLACED_FILE_GROUPS:
                    changes = conflicts.group_changes(instant.begun_as, [], lists.file_groups(entries))
                    concurrency.add(self.concurrent, event.table_id, changes, instant)
                case _:
                    pass

    def evolve(self, event: events.Event) -> None:
        """Bring the state up to ``event``; raises ``ImpossibleEvent`` if it does not follow from the state."""
        payload, evolutions = event.payload, self.evolutions
        for kind, concerns in self._routes[type(payload)]:
            if concerns is None or concerns(payload):
                (evolutions.get(kind) or self.evolution(kind)).evolve(event)

    def evolution(self, kind: type[EvolutionT]) -> EvolutionT:
        """The changes of a projection so far."""
        evolution = self.evolutions.get(kind)
        if evolution is None:
            evolution = self.evolutions[kind] = kind(self)
        return cast(EvolutionT, evolution)

    def instant_of(self, event: events.Event) -> Instant:
        """The instant that an event names; raises ``ImpossibleEvent``."""
        if event.instant is None:
            raise ImpossibleEvent("the event names no instant")
        instant = self.instants.get((event.table_id, event.instant))
        if instant is None:
            raise ImpossibleEvent("there is no such instant")
        return instant
