"""Completing instants: one, or several together; and staging write stats before that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import msgspec
from typing_extensions import override

from chronolake_metastore.commands.concurrency import (
    cancel_lost_clusterings,
    find_further,
    find_inserted,
    load_lost_clusterings,
)
from chronolake_metastore.commands.handler import (
    Handler,
    Loading,
    Names,
    Sharing,
    combined,
    instant_of,
    instant_result,
    single_query,
)
from chronolake_metastore.domain import (
    cleans,
    concurrency,
    conflicts,
    deletions,
    files,
    instants,
    lists,
    plans,
    promised_files,
    reconciling,
    staging,
    streams,
    transactions,
)
from chronolake_metastore.domain.cleans import CleanHistory, Undeleted
from chronolake_metastore.domain.concurrency import LatestInserts
from chronolake_metastore.domain.conflicts import GroupChange
from chronolake_metastore.domain.events import Now, Origin
from chronolake_metastore.domain.files import NOTHING_STAGED, Staged
from chronolake_metastore.domain.instants import CompleteInstant, Instant
from chronolake_metastore.domain.plans import LeftOut, LostRecords
from chronolake_metastore.domain.promised_files import PromisedGroups
from chronolake_metastore.domain.reconciling import MarkerCounts, Reconciliation
from chronolake_metastore.domain.results import AnyResult, CompletedInstantsResult, StagingResult
from chronolake_metastore.domain.staging import StageWriteStats
from chronolake_metastore.domain.state import State
from chronolake_metastore.domain.tables import Table
from chronolake_metastore.domain.transactions import CompleteTogether
from chronolake_metastore.store import (
    cleans as stored_cleans,
    event_lists,
    file_groups,
    reconciling as stored_markers,
    staging as stored_staging,
    streams as stored_streams,
)
from chronolake_metastore.store.file_groups import Concurrent, with_previous
from chronolake_metastore.store.instants import NO_INSTANTS, FoundInstants
from chronolake_metastore.store.postgres.transaction import Query
from chronolake_metastore.store.reconciling import MarkedInstant
from chronolake_metastore.store.staging import StagedVersions, in_sets
from chronolake_model.files import FileGroupName, WriteStat
from chronolake_model.times import Micros
from chronolake_model.vocabulary import Action


class Completion(msgspec.Struct, frozen=True):
    """Facts for the completion of an instant.

    ``staged`` are its staged write stats, ``concurrent`` the changes of other instants to their file groups.
    ``unplanned`` are file groups that its plan does not name. ``reconciliation`` compares its markers with its
    write stats, if it has markers. ``undeleted`` are the files of a clean's plan that were not reported.
    ``history`` is for a clean with a stated ``cleaned_before``. ``inserted`` has the inserts of other instants
    into its partitions, if its keys were looked up. ``left_out`` are the live file groups that a resize does
    not replace. ``promised`` are the file groups with promised files that it replaces; for a resize all such
    groups. ``clusterings`` are pending ones that have its file groups in their plans. ``further`` are other
    concurrent instants: see ``find_further``. ``lost`` are records that a clustering loses.
    """

    staged: Staged = NOTHING_STAGED
    concurrent: Concurrent = {}
    further: Concurrent = {}
    unplanned: Sequence[FileGroupName] = ()
    reconciliation: Reconciliation | None = None
    undeleted: Undeleted | None = None
    history: CleanHistory | None = None
    inserted: LatestInserts = {}
    left_out: LeftOut = ()
    promised: PromisedGroups = ()
    clusterings: FoundInstants = NO_INSTANTS
    lost: LostRecords | None = None


class CompleteInstantHandler(Handler[CompleteInstant, Completion]):
    """Completes an instant.

    Staged write stats never change, so most of them are read before the table is locked. The lock of the
    instant's row excludes new markers: see ``docs/decisions/0016-markers.md``.
    """

    command = CompleteInstant
    no_evidence: ClassVar[Completion] = Completion()

    @override
    def names(self, command: CompleteInstant) -> Names:
        groups = [*_written(command.write_stats), *command.replaced_file_groups]
        return Names(
            tables=[command.table],
            instants=[(command.table, command.requested_time)],
            ending=True,
            file_groups=[(command.table, group) for group in groups],
        )

    @override
    def sharing(self, command: CompleteInstant) -> Sharing:
        return Sharing.ALONE if command.staged or _replaces(command) else Sharing.SHARED

    @override
    def files(self, command: CompleteInstant) -> int:
        return len(command.write_stats)

    @override
    def is_bulk(self, command: CompleteInstant) -> bool:
        # If write stats are staged, there are thousands of them.
        return bool(command.staged)

    @override
    def locks_instants(self, state: State, command: CompleteInstant) -> bool:
        entry = state.find_instant(command.table, command.requested_time)
        return entry is not None and _marked_instant(state, command, *entry) is not None

    @override
    def look_ahead(self, command: CompleteInstant) -> Loading[Completion] | None:
        return self._look_ahead(command) if command.staged else None

    def _look_ahead(self, command: CompleteInstant) -> Loading[Completion]:
        versions = _staged_versions(command)
        chunks, repeated = stored_staging.chunks(versions), stored_staging.repeated(versions)
        marked = _marked(command, command.requested_time)
        counted = stored_markers.count(marked)
        yield [chunks, *in_sets(repeated), counted]
        staged = Staged(chunks=chunks.result, repeated=repeated.result)
        if counted.result == MarkerCounts():
            return Completion(staged)
        return Completion(staged, reconciliation=(yield from single_query(stored_markers.reconcile(marked))))

    @override
    def load(
        self, state: State, command: CompleteInstant, evidence: Completion, now: Now
    ) -> Loading[Completion] | None:
        entry = state.find_instant(command.table, command.requested_time)
        return None if entry is None else self._load(state, command, evidence, *entry)

    def _load(
        self, state: State, command: CompleteInstant, ahead: Completion, table: Table, instant: Instant
    ) -> Loading[Completion]:
        staged, concurrent = ahead.staged, ahead.concurrent
        if command.staged:
            staged, concurrent = yield from _load_staged(command, staged)
        marked = _marked_instant(state, command, table, instant)
        counted = None if marked is None or ahead.reconciliation is None else stored_markers.count(marked)
        reconciled = None if marked is None or counted is not None else stored_markers.reconcile(marked)
        unplanned = _unplanned(table, instant, command.write_stats, command.replaced_file_groups)
        undeleted = _undeleted(table, instant)
        history = _history(table, command.cleaned_before)
        known = _known(state, concurrent)
        changes = _changes(command, instant, staged)
        inserted = find_inserted(table, command, changes, known)
        left_out = _left_out(table, command)
        promised = _promised(table, command)
        further = find_further(table, instant, command, changes, known)
        lost = _lost(table, instant, command)
        optional = counted, reconciled, unplanned, undeleted, history, left_out, further, lost
        queries = [query for query in optional if query is not None]
        if not inserted.is_known:
            queries += in_sets(inserted)
        if promised is not None:
            queries += in_sets(promised)
        if queries:
            yield queries
        clusterings = yield from load_lost_clusterings(table, instant, changes, known)
        reconciliation = None if reconciled is None else reconciled.result
        if marked is not None and counted is not None and ahead.reconciliation is not None:
            reconciliation = ahead.reconciliation
            if counted.result != reconciliation.counts:
                reconciliation = yield from single_query(stored_markers.reconcile(marked))
        return Completion(
            staged,
            concurrent,
            {} if further is None else further.result,
            () if unplanned is None else unplanned.result,
            reconciliation,
            None if undeleted is None else undeleted.result,
            None if history is None else history.result,
            inserted.result,
            () if left_out is None else left_out.result,
            () if promised is None else promised.result,
            clusterings,
            None if lost is None else lost.result,
        )

    @override
    def decide(self, state: State, command: CompleteInstant, evidence: Completion, origin: Origin) -> AnyResult:
        table = state.table(command.table)
        instant = state.instant(table, command.requested_time)
        streams.refuse_member(table, instant, "complete")
        self.complete(state, table, instant, command, evidence, origin)
        return instant_result(state, table, command.requested_time)

    def complete(
        self,
        state: State,
        table: Table,
        instant: Instant,
        command: CompleteInstant,
        evidence: Completion,
        origin: Origin,
    ) -> None:
        """Append the completion of one instant; raises ``TimelineError``."""
        concurrent = _known(state, evidence.concurrent)
        payload = instants.complete(
            table,
            instant,
            command,
            conflicts.joined(concurrent, evidence.further),
            origin.now.steady,
            evidence.staged,
            evidence.unplanned,
            evidence.left_out,
        )
        plans.refuse_lost_records(table, evidence.lost)
        if evidence.promised:
            promised_files.refuse(table, evidence.promised)
        if command.keys_looked_up and concurrency.compares_inserts(table):
            stats, time = command.write_stats, instant.requested_time
            own = concurrency.partitions_of(table.table_id, time, stats, concurrent)
            if command.staged:
                own |= evidence.inserted.keys()
            latest = {**evidence.inserted, **state.latest_inserts(table.table_id)}
            concurrency.refuse_inserts(table, time, own, latest)
        if command.cleaned_before is not None and evidence.history is not None:
            before, others = command.cleaned_before, state.instants_of(table.table_id)
            first = cleans.first_servable(table, instant, before, evidence.history, others)
            earliest = cleans.retained_by(table, before, evidence.history, others)
            payload = msgspec.structs.replace(payload, cleaned_before=first, earliest_commit_to_retain=earliest)
        if evidence.undeleted is not None:
            cleans.refuse_undeleted(table, instant, evidence.undeleted)
        if evidence.reconciliation is not None:
            reconciling.refuse(table, instant, command.write_stats, evidence.reconciliation)
        replaced = lists.entries_by_list(replaced_file_groups=command.replaced_file_groups)
        state.append(table.table_id, origin, payload, instant.requested_time, command.write_stats, replaced)
        changes = _changes(command, instant, evidence.staged)
        cancel_lost_clusterings(
            state, command.table, instant, changes, concurrent, evidence.clusterings, origin
        )


class CompleteTogetherHandler(Handler[CompleteTogether, list[Completion]]):
    """Completes several instants: all of them, or none."""

    command = CompleteTogether
    no_evidence: ClassVar[Sequence[Completion]] = ()

    def __init__(self) -> None:
        self._one = CompleteInstantHandler()

    @override
    def sharing(self, command: CompleteTogether) -> Sharing:
        replacing = any(_replaces(member) for member in command.members)
        return Sharing.ALONE if replacing else Sharing.SHARED

    @override
    def names(self, command: CompleteTogether) -> Names:
        members = [self._one.names(member) for member in command.members]
        return Names(
            tables=[table for member in members for table in member.tables],
            instants=[name for member in members for name in member.instants],
            ending=True,
            file_groups=[group for member in members for group in member.file_groups],
        )

    @override
    def files(self, command: CompleteTogether) -> int:
        return sum(self._one.files(member) for member in command.members)

    @override
    def locks_instants(self, state: State, command: CompleteTogether) -> bool:
        return any(self._one.locks_instants(state, member) for member in command.members)

    @override
    def load(
        self, state: State, command: CompleteTogether, evidence: Sequence[Completion], now: Now
    ) -> Loading[list[Completion]]:
        return combined(self._load_member(state, member, now) for member in command.members)

    def _load_member(self, state: State, member: CompleteInstant, now: Now) -> Loading[Completion]:
        loading = self._one.load(state, member, Completion(), now)
        return Completion() if loading is None else (yield from loading)

    @override
    def decide(
        self, state: State, command: CompleteTogether, evidence: Sequence[Completion], origin: Origin
    ) -> AnyResult:
        transactions.check(command)
        members = list(zip(command.members, evidence, strict=True))
        tables = [state.table(member.table) for member in command.members]
        with state.all_or_nothing():
            for table, (member, completion) in zip(tables, members, strict=True):
                instant = state.instant(table, member.requested_time)
                streams.refuse_member(table, instant, "complete")
                self._one.complete(state, table, instant, member, completion, origin)
        completed = [
            instant_of(state, table, member.requested_time)
            for table, member in zip(tables, command.members, strict=True)
        ]
        return CompletedInstantsResult(log_id=tables[0].table_id, instants=completed)


class StageWriteStatsHandler(Handler[StageWriteStats, list[FileGroupName]]):
    """Keeps write stats until their instant completes.

    The ``evidence`` is the file groups that the instant's plan does not name.
    """

    command = StageWriteStats
    no_evidence: ClassVar[list[FileGroupName]] = []

    @override
    def names(self, command: StageWriteStats) -> Names:
        return Names(
            tables=[command.table],
            instants=[(command.table, command.requested_time)],
            file_groups=[(command.table, group) for group in _written(command.write_stats)],
        )

    @override
    def files(self, command: StageWriteStats) -> int:
        return len(command.write_stats)

    @override
    def is_bulk(self, command: StageWriteStats) -> bool:
        return True

    @override
    def load(
        self, state: State, command: StageWriteStats, evidence: list[FileGroupName], now: Now
    ) -> Loading[list[FileGroupName]] | None:
        entry = state.find_instant(command.table, command.requested_time)
        unplanned = None if entry is None else _unplanned(*entry, command.write_stats, ())
        return None if unplanned is None else single_query(unplanned)

    @override
    def decide(
        self, state: State, command: StageWriteStats, evidence: list[FileGroupName], origin: Origin
    ) -> AnyResult:
        table = state.table(command.table)
        instant = state.instant(table, command.requested_time)
        streams.refuse_member(table, instant, "take write stats")
        stats = command.write_stats
        payload = staging.stage(table, instant, command, state.concurrent, origin.now.steady, evidence)
        event = state.append(table.table_id, origin, payload, instant.requested_time, stats)
        return StagingResult(
            log_id=table.table_id,
            table=table.name,
            tick=table.definition.tick,
            requested_time=instant.requested_time,
            version=event.version,
            summary=payload.summary,
        )


def _load_staged(command: CompleteInstant, staged: Staged) -> Loading[tuple[Staged, Concurrent]]:
    replaced = command.replaced_file_groups
    touched = stored_staging.groups_to_check(_staged_versions(command), replaced)
    yield in_sets(touched)
    groups = [(command.table, name) for _, name in touched.result]
    concurrent = yield from single_query(file_groups.find_concurrent(with_previous(groups)))
    return msgspec.structs.replace(staged, touched=touched.result), concurrent


def _known(state: State, concurrent: Concurrent) -> Concurrent:
    """The concurrent instants of the state, and those of staged files."""
    return {**state.concurrent, **concurrent} if concurrent else state.concurrent


def _changes(
    command: CompleteInstant, instant: Instant, staged: Staged
) -> list[tuple[GroupChange, FileGroupName]]:
    written = [*files.touches(command.write_stats), *staged.touched]
    return conflicts.group_changes(instant.begun_as, written, command.replaced_file_groups)


def _staged_versions(command: CompleteInstant) -> StagedVersions:
    return StagedVersions(command.table, command.requested_time, command.staged)


def _marked_instant(
    state: State, command: CompleteInstant, table: Table, instant: Instant
) -> MarkedInstant | None:
    """The instant whose markers are compared when the command completes it, if any are.

    None for an instant that cannot complete.
    """
    if not instant.state.is_pending:
        return None
    marks = state.marks.get((table.table_id, instant.requested_time))
    was_marked = marks is not None and (marks.has_markers or marks.had_deletions)
    if not reconciling.needs_markers(table, instant, was_marked=was_marked):
        return None
    return _marked(command, deletions.marked_by(instant))


def _marked(command: CompleteInstant, marked_by: Micros) -> MarkedInstant:
    return MarkedInstant(command.table, marked_by, command.write_stats, command.staged)


def _unplanned(
    table: Table, instant: Instant, stats: Sequence[WriteStat], replaced: Sequence[FileGroupName]
) -> Query[list[FileGroupName]] | None:
    """The file groups that the plan has to name and does not.

    A plan may be long, so a query compares it instead of reading it.
    """
    groups = plans.groups_of_plan(instant.begun_as, stats, replaced)
    return event_lists.unplanned_groups(table.table_id, instant.requested_time, groups) if groups else None


def _undeleted(table: Table, instant: Instant) -> Query[Undeleted] | None:
    if not instant.is_planned_clean:
        return None
    return stored_cleans.count_undeleted(table.table_id, instant.requested_time)


def _history(table: Table, cleaned_before: Micros | None) -> Query[CleanHistory] | None:
    if cleaned_before is None:
        return None
    return stored_cleans.find_clean_history(table.table_id, cleaned_before)


def _left_out(table: Table, command: CompleteInstant) -> Query[LeftOut] | None:
    if command.buckets is None:
        return None
    return file_groups.find_left_out(table.table_id, command.replaced_file_groups)


def _lost(table: Table, instant: Instant, command: CompleteInstant) -> Query[LostRecords | None] | None:
    if instant.begun_as is not Action.CLUSTERING or not instant.state.is_pending:
        return None
    return file_groups.find_lost_records(
        table.table_id, command.write_stats, command.staged, command.replaced_file_groups
    )


def _replaces(command: CompleteInstant) -> bool:
    """Whether an instant replaces file groups.

    The live and the promised ones are loaded: no earlier command of the group may open one, or report a file.
    """
    return bool(command.replaced_file_groups) or command.buckets is not None


def _promised(table: Table, command: CompleteInstant) -> Query[PromisedGroups] | None:
    if not _replaces(command):
        return None
    # A resize makes every file conflict that was placed by the earlier number.
    named = None if command.buckets is not None else command.replaced_file_groups
    return stored_streams.find_promised(table.table_id, named)


def _written(stats: Sequence[WriteStat]) -> list[FileGroupName]:
    return [FileGroupName(stat.partition_path, stat.file_id) for stat in stats]
