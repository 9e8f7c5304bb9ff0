"""The part of the lake that a group of commands touches: loaded under locks, changed only by events.

The same object replays the log on a rebuild, so that live and rebuilt projections come from one ``evolve``.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final
from uuid import UUID

from chronolake_metastore import errors
from chronolake_metastore.domain import (
    base_paths,
    conflicts,
    events,
    files,
    instants,
    lists,
    namespaces,
    schemas,
    sweeps,
    tables,
)
from chronolake_metastore.domain.answers import START, ChainHead
from chronolake_metastore.domain.base_paths import BasePath, Neighbour
from chronolake_metastore.domain.cleans import NOTHING_PLANNED, CleanHistory, PlannedAhead
from chronolake_metastore.domain.clock import CATALOG_ID, Clock
from chronolake_metastore.domain.conflicts import ConcurrentInstant, GroupChange
from chronolake_metastore.domain.deletions import NOTHING_CONTRADICTED, Contradicted
from chronolake_metastore.domain.files import NOTHING_STAGED, FileGroup, Staged
from chronolake_metastore.domain.lists import NOTHING_LISTED, Listed, ListName
from chronolake_metastore.domain.reconciling import Reconciliation
from chronolake_metastore.store.cleans import CleanedFiles
from chronolake_metastore.store.deletions import DeletedFiles
from chronolake_metastore.store.event_lists import OfEvent, StoredList
from chronolake_metastore.store.event_log import WrittenFiles
from chronolake_metastore.store.file_groups import PlannedGroups, Replacement, Restored
from chronolake_metastore.store.files import Publication
from chronolake_metastore.store.schemas import SchemaOfTable
from chronolake_model.files import FileGroupName, WriteStat
from chronolake_model.names import split_table_name
from chronolake_model.times import Micros, Tick, format_time
from chronolake_model.vocabulary import Action

NO_METASTORE: Final = UUID(int=0)


class Lake:
    """Clocks, namespaces, tables, instants and file groups, as far as they were loaded, and what changed."""

    def __init__(self) -> None:
        self.clocks: dict[UUID, Clock] = {}
        # The heads of the chains of answers; a chain that is not here has no outcome yet.
        self.answers: dict[UUID, ChainHead] = {}
        self.namespaces: dict[str, namespaces.Namespace] = {}
        self.tables_in: dict[str, int] = {}
        self.tables: dict[str, tables.Table] = {}
        self.last_times: dict[str, Micros] = {}
        # Of the database; known when a table is to be made.
        self.metastore_id: UUID = NO_METASTORE
        # Tables whose base paths overlap with that of the one that is to be made.
        self.neighbours: list[Neighbour] = []
        self.instants: dict[tuple[UUID, Micros], instants.Instant] = {}
        self.concurrent: dict[FileGroup, tuple[ConcurrentInstant, ...]] = {}
        self.staged: Staged = NOTHING_STAGED
        self.clean_histories: dict[tuple[UUID, Micros], CleanHistory] = {}
        self.planned_ahead: PlannedAhead = NOTHING_PLANNED
        # Of cleans that are to complete: how many files of the plan were not deleted, and one of them.
        self.undeleted: dict[tuple[UUID, Micros], tuple[int, str | None]] = {}
        self.contradicted: Contradicted = NOTHING_CONTRADICTED
        self.marked: set[tuple[UUID, Micros]] = set()
        self.unmarked: set[tuple[UUID, Micros]] = set()
        self.had_deletions: set[tuple[UUID, Micros]] = set()
        # By the identity of the command: two of a group may complete one instant with other write stats.
        self.reconciled: dict[int, Reconciliation] = {}
        # By the identity of the command: the file groups that its instant's plan does not name.
        self.unplanned: dict[int, Sequence[FileGroupName]] = {}
        self.events: list[events.Event] = []
        self.listed: list[StoredList] = []
        self.written: list[WrittenFiles] = []
        self.deleted: list[DeletedFiles] = []
        self.publications: list[Publication] = []
        self.replacements: list[Replacement] = []
        self.restored: list[Restored] = []
        self.plans: list[PlannedGroups] = []
        self.settled: list[tuple[UUID, Micros]] = []
        self.cleaned: list[CleanedFiles] = []
        self.schemas: list[SchemaOfTable] = []
        self.made_base_paths: list[BasePath] = []
        # By the dropped table, the one that took its base path over.
        self.taken_base_paths: dict[UUID, UUID] = {}
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
        self.listed.clear()
        self.written.clear()
        self.publications.clear()
        self.replacements.clear()
        self.restored.clear()
        self.plans.clear()
        self.settled.clear()
        self.concurrent.clear()
        self.cleaned.clear()
        self.schemas.clear()
        self.made_base_paths.clear()
        self.taken_base_paths.clear()
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

    def instant(self, table: tables.Table, requested_time: Micros) -> instants.Instant:
        """An instant of a table; raises ``InstantNotFound``."""
        instant = self.instants.get((table.table_id, requested_time))
        if instant is None:
            raise errors.InstantNotFound(table.name, format_time(requested_time, table.definition.tick))
        return instant

    def know_marks(self, key: tuple[UUID, Micros], *, has_markers: bool, had_deletions: bool) -> None:
        """Take in whether an instant that may end has markers, and had some that were deleted."""
        (self.marked if has_markers else self.unmarked).add(key)
        if had_deletions:
            self.had_deletions.add(key)

    def instants_of(self, table_id: UUID) -> list[instants.Instant]:
        """The instants of a table, as far as they were loaded."""
        return [instant for (of_table, _), instant in self.instants.items() if of_table == table_id]

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """Take back what was appended in the block when it raises; values are never changed in place."""
        before = {name: copy.copy(value) for name, value in vars(self).items()}
        try:
            yield
        except errors.TimelineError:
            vars(self).update(before)
            raise

    def append(
        self,
        table_id: UUID,
        origin: events.Origin,
        payload: events.Payload,
        instant: Micros | None = None,
        write_stats: Sequence[WriteStat] = (),
        listed: Listed = NOTHING_LISTED,
    ) -> events.Event:
        """Append an event to a table's log, and bring the state up to it.

        ``write_stats`` and the lists in ``listed`` are rows beside the event.
        """
        answers = self.answers.get(table_id, START)
        event = events.next_event(self.clocks[table_id], origin, payload, instant, answers)
        self.events.append(event)
        if write_stats:
            self.written.append(WrittenFiles(table_id, event.version, write_stats))
        self.apply(event)
        self._list(event, listed)
        if write_stats and isinstance(payload, events.InstantCompleted):
            assert instant is not None
            completed = self.instants[table_id, instant]
            touched = conflicts.group_changes(completed.begun_as, files.touches(write_stats), [])
            self._know(table_id, touched, completed)
        return event

    def _list(self, event: events.Event, listed: Listed) -> None:
        """Keep the lists of an event as rows, and let the commands behind see the file groups in them."""
        assert listed.keys() == events.lists_of(event.payload).keys(), "the payload seals its lists"
        for name, entries in listed.items():
            assert event.instant is not None
            of = OfEvent(event.table_id, event.instant, event.version, name)
            self.listed.append(StoredList(of, entries))
            instant = self.instants[event.table_id, event.instant]
            match name:
                case ListName.PLAN_FILE_GROUPS:
                    self._know_planned(event.table_id, instant, lists.file_groups(entries))
                case ListName.REPLACED_FILE_GROUPS:
                    touched = conflicts.group_changes(instant.begun_as, [], lists.file_groups(entries))
                    self._know(event.table_id, touched, instant)
                case _:
                    pass

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
            case events.BasePathTakenOver():
                self.taken_base_paths[event.table_id] = payload.by
            case events.TableSchemaChanged():
                self._change_schema(payload, event)
            case events.FilesDeleted() | events.DeletionsSwept():
                self._delete_files(event)
            case _:
                self._apply_to_instant(event)
        self.clocks[event.table_id] = events.advance(self.clocks[event.table_id], event)

    def _create_table(self, payload: events.TableCreated, event: events.Event) -> None:
        table = tables.evolve_created(payload, event.table_id, event.time)
        self.clocks.setdefault(event.table_id, Clock(event.table_id, payload.definition.tick))
        self._know_schema(table, event)
        self._count_table(table.name, 1)
        self.made_base_paths.append(base_paths.of_new_table(event.table_id, payload))

    def _change_schema(self, payload: events.TableSchemaChanged, event: events.Event) -> None:
        table = self.tables[payload.name]
        assert table.table_id == event.table_id, "a table's name is in its own log"
        self._know_schema(schemas.evolve(table, payload), event)

    def _know_schema(self, table: tables.Table, event: events.Event) -> None:
        self.know_table(table)
        self.changed_tables[event.table_id] = table
        self.schemas.append(SchemaOfTable(event.table_id, schemas.present(table, event.time, event.version)))

    def _drop_table(self, payload: events.TableDropped, event: events.Event) -> None:
        table = self.tables.pop(payload.name)
        self.changed_tables[event.table_id] = tables.evolve_dropped(table, event.time)
        self.last_times[payload.name] = event.time
        self._count_table(payload.name, -1)

    def _count_table(self, name: str, change: int) -> None:
        namespace, _ = split_table_name(name)
        self.tables_in[namespace] = self.tables_in.get(namespace, 0) + change

    def _apply_to_instant(self, event: events.Event) -> None:
        assert event.instant is not None
        key = (event.table_id, event.instant)
        before = self.instants.get(key)
        after = instants.evolve(before, event)
        self.instants[key] = after
        self.changed_instants.add(key)
        match event.payload:
            case events.InstantRequested():
                self._plan(event.table_id, after)
                self._plan_clean(event.table_id, after)
            case events.InstantInflight() | events.InstantReturnedToRequested() | events.LeaseRenewed():
                self._know_plan(event.table_id, after)
            case events.InstantCompleted() as payload:
                self._settle(event.table_id, after)
                self._publish(event, event.instant, payload)
                if after.action is Action.RESTORE:
                    self.restored.append(Restored(event.table_id, event.instant))
                if payload.cleaned_before is not None:
                    self._clean(event.table_id, payload.cleaned_before)
            case events.InstantRolledBack():
                self._settle(event.table_id, after)
            case _:
                pass

    def _delete_files(self, event: events.Event) -> None:
        """The log says it, and markers go; of the instant it is known that it is to be swept, or was."""
        assert event.instant is not None
        key = (event.table_id, event.instant)
        self.instants[key] = sweeps.evolve(self.instants[key], event)
        self.changed_instants.add(key)

    def _clean(self, table_id: UUID, before: Micros) -> None:
        found = [table for table in self.tables.values() if table.table_id == table_id]
        assert found, "what completes is of a table that is there"
        table = tables.evolve_cleaned(found[0], before)
        self.know_table(table)
        self.changed_tables[table_id] = table

    def _plan_clean(self, table_id: UUID, instant: instants.Instant) -> None:
        """From its plan on: whoever was told a time that is served must not find its files gone."""
        if instant.plan is not None and instant.plan.cleaned_before is not None:
            self._clean(table_id, instant.plan.cleaned_before)
            self.cleaned.append(CleanedFiles(table_id, instant.requested_time, instant.version))

    def _plan(self, table_id: UUID, instant: instants.Instant) -> None:
        if _plans_groups(instant):
            self.plans.append(PlannedGroups(table_id, instant.requested_time))

    def _settle(self, table_id: UUID, instant: instants.Instant) -> None:
        """Forget what was planned: it has happened, or will not."""
        if _plans_groups(instant):
            self.settled.append((table_id, instant.requested_time))
            self._forget_plan(table_id, instant)

    def _know_plan(self, table_id: UUID, instant: instants.Instant) -> None:
        """Let the commands behind this one see the plan as it stands: who holds it, and until when."""
        if _plans_groups(instant):
            groups = self._forget_plan(table_id, instant)
            self._know_planned(table_id, instant, groups)

    def _know_planned(self, table_id: UUID, instant: instants.Instant, groups: Iterable[FileGroupName]) -> None:
        change = conflicts.planned_change(instant.begun_as)
        if change is not None:
            self._know(table_id, [(change, name) for name in groups], instant)

    def _forget_plan(self, table_id: UUID, instant: instants.Instant) -> list[FileGroupName]:
        """Forget who plans for file groups; gives those groups, as far as they were loaded."""
        forgotten = []
        for group, others in self.concurrent.items():
            left = tuple(
                other
                for other in others
                if other.completion_time is not None or other.requested_time != instant.requested_time
            )
            if group.table_id == table_id and len(left) < len(others):
                forgotten.append((group, left))
        self.concurrent.update(forgotten)
        return [FileGroupName(group.partition_path, group.file_id) for group, _ in forgotten]

    def _publish(
        self,
        event: events.Event,
        requested_time: Micros,
        payload: events.InstantCompleted,
    ) -> None:
        if payload.summary.files:
            self.publications.extend(
                Publication(event.table_id, version, requested_time, event.time)
                for version in payload.staged or [event.version]
            )
        if payload.replaced_file_groups.count:
            self.replacements.append(Replacement(event.table_id, requested_time, event.time))

    def _know(
        self, table_id: UUID, touched: Iterable[tuple[GroupChange, FileGroupName]], instant: instants.Instant
    ) -> None:
        """Let the commands behind this one in the group see what it does to file groups."""
        for change, name in touched:
            group = FileGroup(table_id, name.partition_path, name.file_id)
            other = ConcurrentInstant(
                change=change,
                action=instant.action,
                state=instant.state,
                requested_time=instant.requested_time,
                completion_time=instant.completion_time,
                lease_expires_at=instant.lease_expires_at,
            )
            self.concurrent[group] = (*self.concurrent.get(group, ()), other)


def _plans_groups(instant: instants.Instant) -> bool:
    return instant.plan is not None and instant.plan.file_groups.count > 0


def new_lake() -> Lake:
    """A lake in which nothing has happened: the catalog's clock, and no more."""
    lake = Lake()
    lake.clocks[CATALOG_ID] = Clock(CATALOG_ID, Tick.MILLISECOND)
    return lake
