"""File groups and their files: those of the latest slices, planned ones and replaced ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import ClassVar

from typing_extensions import override

from chronolake_metastore.domain import concurrency, events
from chronolake_metastore.domain.actions import RULES
from chronolake_metastore.domain.changes import (
    CleanedFiles,
    InstantKey,
    ListKey,
    PlannedGroups,
    PublishedFiles,
    ReplacingInstant,
    Restored,
)
from chronolake_metastore.domain.events import Event
from chronolake_metastore.domain.instants import Instant
from chronolake_metastore.domain.state import State
from chronolake_metastore.projections.projection import Entries, Followed, Named, Projection, Rows
from chronolake_metastore.store import cleans, file_groups, files
from chronolake_metastore.store.postgres.transaction import Statement
from chronolake_model.vocabulary import Action


class FileGroups(Projection):
    """The files of the latest slices, the file groups of pending plans, and replaced file groups."""

    tables = ("file", "planned_group", "replaced_group")
    named = ("file_groups",)
    followed: ClassVar[Followed] = {
        events.InstantRequested: attrgetter("plan"),
        events.InstantInflight: None,
        events.InstantReturnedToRequested: None,
        events.LeaseRenewed: None,
        events.InstantCompleted: None,
        events.InstantRolledBack: None,
    }

    def __init__(self, state: State) -> None:
        super().__init__(state)
        self.planned: list[PlannedGroups] = []
        self.settled: list[InstantKey] = []
        """Instants that have ended: the file groups of their plans are not projected any more."""
        self.publications: list[PublishedFiles] = []
        self.replacements: list[ReplacingInstant] = []
        self.restored: list[Restored] = []
        self.cleaned: list[CleanedFiles] = []

    @override
    @classmethod
    def load(cls, named: Named) -> Rows:
        concurrent = file_groups.find_concurrent(file_groups.with_previous(named.file_groups))
        yield [concurrent]
        return {"concurrent": concurrent.result}

    @override
    def evolve(self, event: Event) -> None:
        instant = self.state.instant_of(event)
        match event.payload:
            case events.InstantCompleted() as payload:
                self._settle(event, instant)
                self._publish(event, instant, payload)
            case events.InstantRolledBack():
                self._settle(event, instant)
            case events.InstantRequested():
                self._plan(event, instant)
            case _:
                concurrency.update_plan(self.state.concurrent, event.table_id, instant)

    @override
    def lists(self) -> Sequence[ListKey]:
        return [clean.files for clean in self.cleaned]

    @override
    def write(self, entries: Entries) -> Iterator[Statement]:
        yield from file_groups.project_plans(self.planned, self.settled)
        if self.publications:
            yield from files.project(self.publications)
        if self.replacements:
            yield from file_groups.project_replacements(self.replacements)
        if self.restored:
            yield from file_groups.restore(self.restored)
        if self.cleaned:
            yield cleans.project([(clean, entries[clean.files]) for clean in self.cleaned])

    def _plan(self, event: Event, instant: Instant) -> None:
        if concurrency.plans_groups(instant):
            is_service = RULES[instant.action].needs_groups
            self.planned.append(PlannedGroups(event.table_id, instant.requested_time, is_service))
        if instant.plan is not None and instant.plan.cleaned_before is not None:
            self.cleaned.append(CleanedFiles(event.table_id, instant.requested_time, instant.version))
            # The list of a clean may be long, so only one is in memory at a time.
            self.must_be_written = True

    def _settle(self, event: Event, instant: Instant) -> None:
        """Remove the plan of an instant that has ended."""
        if instant.plan is not None and concurrency.plans_groups(instant):
            self.settled.append((event.table_id, instant.requested_time))
            concurrency.remove_plan(self.state.concurrent, event.table_id, instant)

    def _publish(self, event: Event, instant: Instant, payload: events.InstantCompleted) -> None:
        table_id, requested_time = event.table_id, instant.requested_time
        if payload.summary.files:
            self.publications.extend(
                PublishedFiles(table_id, version, requested_time, event.time)
                for version in payload.staged or [event.version]
            )
        if payload.replaced_file_groups.count:
            self.replacements.append(ReplacingInstant(table_id, requested_time, event.time))
        if instant.action is Action.RESTORE:
            self.restored.append(Restored(table_id, requested_time))
            # Completions after a restore are projected after it, in the order of the log.
            self.must_be_written = True
