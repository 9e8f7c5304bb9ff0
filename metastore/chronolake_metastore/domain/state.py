"""The part of the metastore's state that a group of commands touches, and how events change it.

``Loaded`` has the rows that were read under the locks, and never changes. ``State`` starts from it;
``State.evolve`` is the only way in which the state changes, for live commands and on replay of the log alike.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar, assert_never
from uuid import UUID

import msgspec

from chronolake_metastore import errors
from chronolake_metastore.domain import (
    base_paths,
    concurrency,
    conflicts,
    event_chain,
    events,
    files,
    inserts,
    instants,
    lists,
    namespaces,
    reported_files,
    resizes,
    schemas,
    streams,
    sweeps,
    tables,
)
from chronolake_metastore.domain.answers import START, ChainHead
from chronolake_metastore.domain.changes import (
    BufferedVersion,
    Changes,
    CleanedFiles,
    InstantKey,
    ListKey,
    ListOfEvent,
    PlannedGroups,
    Publication,
    Replacement,
    ReportedFiles,
    Restored,
    SchemaOfTable,
    WrittenFiles,
)
from chronolake_metastore.domain.clock import CATALOG_ID, Clock
from chronolake_metastore.domain.conflicts import ConcurrentInstant
from chronolake_metastore.domain.events import ImpossibleEvent
from chronolake_metastore.domain.files import FileGroup
from chronolake_metastore.domain.instants import Instant, Marks
from chronolake_metastore.domain.lists import NO_LIST_ENTRIES, ListEntries, ListName
from chronolake_metastore.domain.namespaces import Namespace
from chronolake_metastore.domain.reported_files import BufferedFile
from chronolake_metastore.domain.streams import Stream, StreamKey
from chronolake_metastore.domain.tables import Table
from chronolake_model.files import WriteStat
from chronolake_model.marker_names import DeletedFile
from chronolake_model.names import split_table_name
from chronolake_model.times import Micros, Tick, format_time
from chronolake_model.vocabulary import Action

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """Projections that are read under the locks. ``clocks`` are of the tables that are locked.

    ``renamed`` maps a name without a table, or without an instant that is named, to the present name of the
    table that had it last. ``answer_heads`` are the heads of the chains of answers; a chain that is not there
    has no outcome yet. ``table_counts`` says how many tables a namespace has. ``marks`` are of instants that
    may end. ``wall_offset`` is how far the wall clock is ahead of the steady clock.
    """

    clocks: Mapping[UUID, Clock] = {}
    answer_heads: Mapping[UUID, ChainHead] = {}
    namespaces: Mapping[str, Namespace] = {}
    table_counts: Mapping[str, int] = {}
    tables: Mapping[str, Table] = {}
    renamed: Mapping[str, str] = {}
    present_names: Mapping[UUID, str] = {}
    instants: Mapping[InstantKey, Instant] = {}
    marks: Mapping[InstantKey, Marks] = {}
    concurrent: Mapping[FileGroup, Sequence[ConcurrentInstant]] = {}
    streams: Mapping[StreamKey, Stream] = {}
    wall_offset: int = 0


EMPTY = Loaded(clocks={CATALOG_ID: Clock(CATALOG_ID, Tick.MILLISECOND)})
"""An empty metastore: only the catalog's clock."""


class State:
    """Clocks, namespaces, tables and instants as they stand after the events so far, and the changes."""

    def __init__(self, loaded: Loaded) -> None:
        self.wall_offset = loaded.wall_offset
        self.marks = loaded.marks
        self.renamed = loaded.renamed
        self.present_names = loaded.present_names
        self.clocks = dict(loaded.clocks)
        self.answer_heads = dict(loaded.answer_heads)
        self.namespaces = dict(loaded.namespaces)
        self.table_counts = dict(loaded.table_counts)
        self.tables = dict(loaded.tables)
        self.instants = dict(loaded.instants)
        self.streams = dict(loaded.streams)
        self.concurrent = concurrency.copy_of(loaded.concurrent)
        self.inserted: dict[inserts.Partition, ConcurrentInstant] = {}
        self.buffered: dict[FileGroup, tuple[BufferedFile, ...]] = {}
        """The files that were reported to streams since the state was loaded."""
        self.changes = Changes()

    def table(self, name: str) -> Table:
        """A table whose clock is locked; raises ``TableNotFound``."""
        table = self.locked_table(name)
        if table is None:
            raise errors.TableNotFound(name, self.renamed.get(name))
        return table

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
        """An instant of a table; raises ``InstantNotFound``."""
        instant = self.instants.get((table.table_id, requested_time))
        if instant is None:
            time = format_time(requested_time, table.definition.tick)
            raise errors.InstantNotFound(table.name, time, self.renamed.get(table.name))
        return instant

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

    def has_markers(self, table: Table, instant: Instant) -> bool:
        """Whether an instant that may end has markers."""
        marks = self.marks.get((table.table_id, instant.requested_time))
        return marks is not None and marks.has_markers

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """Undo what the block has appended if it raises. Values are never changed in place."""
        before = {name: copy.copy(value) for name, value in vars(self).items() if name != "changes"}
        changes = self.changes.copy()
        try:
            yield
        except errors.TimelineError:
            vars(self).update(before, changes=changes)
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
        event = event_chain.next_event(self.clocks[table_id], origin, payload, instant, head)
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
        requests = event_chain.next_requests(self.clocks[table_id], origin, payload, count, head)
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
            completed = self._instant_of(event)
            changes = conflicts.group_changes(completed.begun_as, files.touches(write_stats), [])
            concurrency.add(self.concurrent, event.table_id, changes, completed)
            self.inserted |= inserts.completed(completed, write_stats, event.table_id)
        if isinstance(event.payload, events.WriteStatsStaged) and event.payload.report is not None:
            self._buffer(event, write_stats)

    def _buffer(self, event: events.Event, write_stats: Sequence[WriteStat]) -> None:
        place = self._instant_of(event).stream
        assert place is not None, "only instants of streams take reports of tasks"
        checkpoint = self.streams[event.table_id, place.name].checkpoints[place.checkpoint]
        for file in reported_files.buffered(
            write_stats, event.version, place.name, place.checkpoint, checkpoint
        ):
            group = FileGroup(event.table_id, file.partition_path, file.file_id)
            self.buffered[group] = (*self.buffered.get(group, ()), file)

    def _add_lists(self, event: events.Event, entries_by_list: ListEntries) -> None:
        """Keep the lists of an event as rows; later commands conflict with the file groups in them."""
        if entries_by_list.keys() != events.lists_of(event.payload).keys():
            raise ImpossibleEvent("the lists beside an event are those that its payload seals")
        for name, entries in entries_by_list.items():
            instant = self._instant_of(event)
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
        payload = event.payload
        if isinstance(payload, events.TableCreated):
            self.clocks.setdefault(event.table_id, Clock(event.table_id, payload.definition.tick))
        clock = event_chain.advance(_known(self.clocks, event.table_id, "the log has no clock"), event)
        self._apply(payload, event)
        self.clocks[event.table_id] = clock

    def _apply(self, payload: events.Payload, event: events.Event) -> None:
        match payload:
            case events.InstantRequested() | events.InstantCompleted():
                # Nearly all events are these. As the last cases they would be compared with all other classes.
                self._evolve_timeline(event)
            case events.NamespaceCreated():
                self._create_namespace(payload, event)
            case events.NamespaceDropped():
                self._drop_namespace(payload)
            case events.TableCreated():
                self._create_table(payload, event)
            case events.TableAltered() | events.TableSchemaChanged() | events.TableAdopted():
                self._change_table(payload, event)
            case events.TableDropped():
                self._drop_table(payload, event)
            case events.BasePathTakenOver():
                self.changes.taken_base_paths[event.table_id] = payload.by
            case events.HudiFilesFound():
                self.changes.found.append(event)
            case events.FilesDeleted() | events.DeletionsSwept():
                self._set_instant(event, sweeps.evolve(self._instant_of(event), event))
            case _:
                self._evolve_timeline(event)

    def _create_namespace(self, payload: events.NamespaceCreated, event: events.Event) -> None:
        self.namespaces[payload.name] = namespaces.evolve_created(payload, event.time)
        self.table_counts[payload.name] = 0
        # A namespace that was dropped before stays among the dropped: its row goes before the new one comes.
        self.changes.created_namespaces.add(payload.name)

    def _drop_namespace(self, payload: events.NamespaceDropped) -> None:
        _known(self.namespaces, payload.name, "there is no such namespace")
        del self.namespaces[payload.name]
        self.changes.created_namespaces.discard(payload.name)
        self.changes.dropped_namespaces.add(payload.name)

    def _create_table(self, payload: events.TableCreated, event: events.Event) -> None:
        table = tables.evolve_created(payload, event.table_id, event.time)
        self._set_schema(table, event)
        self._count_table(table.name, 1)
        self.changes.base_paths.append(base_paths.of_new_table(event.table_id, payload))

    def _change_table(
        self,
        payload: events.TableAltered | events.TableSchemaChanged | events.TableAdopted,
        event: events.Event,
    ) -> None:
        table = self._table_of(event, payload.name)
        match payload:
            case events.TableAltered():
                self._alter_table(table, payload, event)
            case events.TableSchemaChanged():
                self._set_schema(schemas.evolve(table, payload), event)
            case events.TableAdopted():
                self._set_table(tables.evolve_adopted(table, payload, event.version, event.time))
                self.changes.adopted.append(event)
            case _:
                assert_never(payload)

    def _set_schema(self, table: Table, event: events.Event) -> None:
        self._set_table(table)
        version = schemas.present(table, event.time, event.version)
        self.changes.schemas.append(SchemaOfTable(event.table_id, version))

    def _set_table(self, table: Table) -> None:
        self.tables[table.name] = table
        self.changes.tables[table.table_id] = table

    def _alter_table(self, before: Table, payload: events.TableAltered, event: events.Event) -> None:
        after = tables.evolve_altered(before, payload, event.time)
        if after.name != before.name:
            if after.name in self.tables:
                raise ImpossibleEvent("the new name is another table's")
            del self.tables[before.name]
            self._count_table(before.name, -1)
            self._count_table(after.name, 1)
        self._set_table(after)

    def _drop_table(self, payload: events.TableDropped, event: events.Event) -> None:
        table = self._table_of(event, payload.name)
        del self.tables[payload.name]
        self.changes.tables[event.table_id] = tables.evolve_dropped(table, event.time)
        self._count_table(payload.name, -1)

    def _count_table(self, name: str, change: int) -> None:
        namespace, _ = split_table_name(name)
        self.table_counts[namespace] = self.table_counts.get(namespace, 0) + change

    def _table_of(self, event: events.Event, name: str) -> Table:
        table = _known(self.tables, name, "there is no such table")
        if table.table_id != event.table_id:
            raise ImpossibleEvent("the name is another table's")
        return table

    def _instant_of(self, event: events.Event) -> Instant:
        if event.instant is None:
            raise ImpossibleEvent("the event names no instant")
        return _known(self.instants, (event.table_id, event.instant), "there is no such instant")

    def _set_instant(self, event: events.Event, instant: Instant) -> None:
        key = event.table_id, instant.requested_time
        self.instants[key] = instant
        self.changes.instants.add(key)

    def _evolve_timeline(self, event: events.Event) -> None:
        if event.instant is None:
            self._evolve_stream(event, streams.name_of(event.payload))
            return
        key = event.table_id, event.instant
        after = instants.evolve(self.instants.get(key), event)
        self.instants[key] = after
        if isinstance(event.payload, events.InstantRequested):
            self.changes.begun.append(key)
            self._plan(event.table_id, after)
            if after.stream is not None:
                self._evolve_stream(event, after.stream.name)
            return
        self.changes.instants.add(key)
        match event.payload:
            case events.WriteStatsStaged(report=events.ReportOfTask()) if after.stream is not None:
                self._evolve_stream(event, after.stream.name)
            case events.InstantInflight() | events.InstantReturnedToRequested() | events.LeaseRenewed():
                concurrency.update_plan(self.concurrent, event.table_id, after)
            case events.InstantCompleted() as payload:
                self._settle(event.table_id, after)
                self._publish(event, after, payload)
            case events.InstantRolledBack():
                self._settle(event.table_id, after)
            case _:
                pass

    def _evolve_stream(self, event: events.Event, name: str) -> None:
        key = event.table_id, name
        before, after = self.streams.get(key), streams.evolve(self.streams.get(key), event)
        self.streams[key] = after
        self.changes.streams.add(key)
        self.changes.checkpoints.update((key, number) for number in streams.changed(before, after))
        if isinstance(event.payload, events.WriteStatsStaged) and event.payload.summary.files:
            assert event.instant is not None
            self.changes.buffered.append(BufferedVersion(event.table_id, event.version, event.instant))
        self.changes.dropped.extend(
            BufferedVersion(event.table_id, version, requested_time)
            for requested_time, version in streams.dropped(before, after, event.payload)
        )

    def _unbuffer(self, table_id: UUID, ended: Instant) -> None:
        """Take an instant that has ended out of the buffer of its stream, which may not be loaded."""
        if ended.stream is None:
            return
        self.changes.unbuffered.append((table_id, ended.requested_time))
        key = table_id, ended.stream.name
        if key in self.streams:
            self.streams[key] = streams.without(self.streams[key], ended.requested_time)

    def _plan(self, table_id: UUID, instant: Instant) -> None:
        if concurrency.plans_groups(instant):
            self.changes.planned.append(PlannedGroups(table_id, instant.requested_time))
        if instant.plan is not None and instant.plan.cleaned_before is not None:
            # From the plan on, the table is not served as of earlier times: the files may be deleted at any
            # moment.
            self._clean(table_id, instant.plan.cleaned_before)
            self.changes.cleaned.append(CleanedFiles(table_id, instant.requested_time, instant.version))

    def _settle(self, table_id: UUID, instant: Instant) -> None:
        """Remove the plan of an instant that has ended, and its place in the buffer of a stream."""
        self._unbuffer(table_id, instant)
        if concurrency.plans_groups(instant):
            self.changes.settled.append((table_id, instant.requested_time))
            concurrency.remove_plan(self.concurrent, table_id, instant)

    def _publish(self, event: events.Event, instant: Instant, payload: events.InstantCompleted) -> None:
        requested_time = instant.requested_time
        if payload.summary.files:
            self.changes.publications.extend(
                Publication(event.table_id, version, requested_time, event.time)
                for version in payload.staged or [event.version]
            )
        if payload.replaced_file_groups.count:
            self.changes.replacements.append(Replacement(event.table_id, requested_time, event.time))
        if instant.action is Action.RESTORE:
            self.changes.restored.append(Restored(event.table_id, requested_time))
        if payload.cleaned_before is not None:
            self._clean(event.table_id, payload.cleaned_before)
        if payload.buckets is not None:
            self._set_table(resizes.evolve(self._table_by_id(event.table_id), payload.buckets, event))

    def _clean(self, table_id: UUID, before: Micros) -> None:
        self._set_table(tables.evolve_cleaned(self._table_by_id(table_id), before))

    def _table_by_id(self, table_id: UUID) -> Table:
        for table in self.tables.values():
            if table.table_id == table_id:
                return table
        raise ImpossibleEvent("there is no such table")


def _known(values: Mapping[KeyT, ValueT], key: KeyT, otherwise: str) -> ValueT:
    """The value of a key; raises ``ImpossibleEvent`` if there is none."""
    value = values.get(key)
    if value is None:
        raise ImpossibleEvent(otherwise)
    return value
