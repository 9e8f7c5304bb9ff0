"""Reports of deleted files: by their deleter, and by a sweep that has checked them again."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, TypeVar

import msgspec
from typing_extensions import override

from chronolake_metastore.commands.handler import Handler, Loading, Names, Sharing
from chronolake_metastore.domain import deletable, deletions, sweeps
from chronolake_metastore.domain.actions import WRITES
from chronolake_metastore.domain.deletions import NO_CONTRADICTED_FILES, ContradictedFiles, ReportDeletions
from chronolake_metastore.domain.events import DeletionsSwept, FilesDeleted, Now, Origin
from chronolake_metastore.domain.instants import PENDING, Instant
from chronolake_metastore.domain.results import AnyResult, DeletionsResult, SweepResult
from chronolake_metastore.domain.state import State
from chronolake_metastore.domain.sweeps import RecordSweep
from chronolake_metastore.domain.tables import Table
from chronolake_metastore.store import deletable as deletable_files, deletions as stored, event_lists
from chronolake_metastore.store.markers import InstantRef
from chronolake_model.marker_names import DeletedFile
from chronolake_model.times import Micros

ReportT = TypeVar("ReportT", ReportDeletions, RecordSweep)


def _look_ahead(table: str, requested_time: Micros, files: Sequence[DeletedFile]) -> Loading[ContradictedFiles]:
    """The files that were never marked. A file that was marked stays so."""
    unmarked = stored.unmarked(table, requested_time, files)
    yield [unmarked]
    return ContradictedFiles(unmarked=unmarked.result)


def _load(
    ahead: ContradictedFiles, table: Table, instant: Instant, files: Sequence[DeletedFile], now: Micros
) -> Loading[ContradictedFiles]:
    """The files that the plan does not name, and published and staged ones: they must not be deleted."""
    unplanned = (
        event_lists.unplanned_files(table.table_id, instant.requested_time, files)
        if deletions.is_planned_deletion(instant)
        else None
    )
    # Files that a restore has undone were published too, and reads as of earlier times need them.
    published = (
        stored.published(InstantRef(table.table_id, deletions.marked_by(instant)), files)
        if instant.state in sweeps.ENDED
        else None
    )
    named = [(file, time) for file in files if (time := deletable.requested_time_of(file)) is not None]
    facts = (
        deletable_files.find(table.table_id, named, now)
        if named and instant.begun_as in WRITES and instant.state in PENDING
        else None
    )
    has_left = (
        stored.has_left(table.table_id, instant.version)
        if instant.state in sweeps.ENDED and (ahead.unmarked or unplanned is not None)
        else None
    )
    queries = [query for query in (unplanned, published, facts, has_left) if query is not None]
    if queries:
        yield queries
    return msgspec.structs.replace(
        ahead,
        unplanned=ahead.unplanned if unplanned is None else unplanned.result,
        published=ahead.published if published is None else published.result,
        staged=[
            file
            for (file, _), known in zip(named, [] if facts is None else facts.result, strict=False)
            if known.is_staged
        ],
        has_left=has_left is not None and has_left.result,
    )


class _ReportHandler(Handler[ReportT, ContradictedFiles]):
    """Checks the files that a command reports as deleted against the log."""

    no_evidence: ClassVar[ContradictedFiles] = NO_CONTRADICTED_FILES

    @abstractmethod
    def reported(self, command: ReportT) -> Sequence[DeletedFile]:
        """The files that the command reports."""

    @override
    def names(self, command: ReportT) -> Names:
        return Names(tables=[command.table], instants=[(command.table, command.requested_time)])

    @override
    def sharing(self, command: ReportT) -> Sharing:
        return Sharing.ALONE

    @override
    def files(self, command: ReportT) -> int:
        return len(self.reported(command))

    @override
    def look_ahead(self, command: ReportT) -> Loading[ContradictedFiles] | None:
        files = deletions.recorded_order(self.reported(command))
        return _look_ahead(command.table, command.requested_time, files) if files else None

    @override
    def load(
        self, state: State, command: ReportT, evidence: ContradictedFiles, now: Now
    ) -> Loading[ContradictedFiles] | None:
        entry = state.find_instant(command.table, command.requested_time)
        files = deletions.recorded_order(self.reported(command))
        return _load(evidence, *entry, files, now.steady) if entry is not None and files else None


class ReportDeletionsHandler(_ReportHandler[ReportDeletions]):
    """Records files that were deleted."""

    command = ReportDeletions

    @override
    def reported(self, command: ReportDeletions) -> Sequence[DeletedFile]:
        return command.files

    @override
    def decide(
        self, state: State, command: ReportDeletions, evidence: ContradictedFiles, origin: Origin
    ) -> AnyResult:
        table = state.table(command.table)
        instant = state.instant(table, command.requested_time)
        payload = deletions.report(table, instant, command, evidence, origin.now.steady)
        files = deletions.recorded_order(self.reported(command))
        event = state.append_report(table.table_id, origin, payload, instant.requested_time, files)
        return DeletionsResult(
            log_id=table.table_id,
            table=table.name,
            tick=table.definition.tick,
            requested_time=instant.requested_time,
            version=event.version,
            files=payload.files,
        )


class RecordSweepHandler(_ReportHandler[RecordSweep]):
    """Records the late files of a sweep, or that it found none."""

    command = RecordSweep

    @override
    def reported(self, command: RecordSweep) -> Sequence[DeletedFile]:
        return command.late_files

    @override
    def decide(
        self, state: State, command: RecordSweep, evidence: ContradictedFiles, origin: Origin
    ) -> AnyResult:
        table = state.table(command.table)
        instant = state.instant(table, command.requested_time)
        payload = sweeps.record(table, instant, command, evidence, origin.now.steady)
        match payload:
            case FilesDeleted():
                files = deletions.recorded_order(self.reported(command))
                state.append_report(table.table_id, origin, payload, instant.requested_time, files)
            case DeletionsSwept():
                state.append(table.table_id, origin, payload, instant.requested_time)
            case None:
                pass
        return SweepResult(
            log_id=table.table_id,
            table=table.name,
            tick=table.definition.tick,
            requested_time=instant.requested_time,
            late_files=payload.files if isinstance(payload, FilesDeleted) else 0,
            unswept_since=state.instants[table.table_id, instant.requested_time].unswept_since,
        )
