"""The registry of commands, notes and reads: each with the right of the operation that it executes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from chronolake_metastore.domain import namespaces, tables
from chronolake_metastore.domain.adoption import AdoptTable
from chronolake_metastore.domain.checkpoints import (
    AbortCheckpoint,
    CompleteCheckpoints,
    ReportWriteMetadata,
    RequestInstant,
    RestartTask,
)
from chronolake_metastore.domain.cleans import PlanClean
from chronolake_metastore.domain.commands import Command
from chronolake_metastore.domain.deletions import ReportDeletions
from chronolake_metastore.domain.denials import RecordDenial
from chronolake_metastore.domain.eras import RecordArchivedEra
from chronolake_metastore.domain.grants import GrantRole, RevokeRole
from chronolake_metastore.domain.instants import BeginInstant, CompleteInstant, ReturnToRequested, TakeInflight
from chronolake_metastore.domain.leases import RenewLease
from chronolake_metastore.domain.locations import AllowLocation, RevokeLocation
from chronolake_metastore.domain.publication import RecordHudiFiles
from chronolake_metastore.domain.restores import RestoreTable
from chronolake_metastore.domain.rights import Needs, scopes_of
from chronolake_metastore.domain.rollbacks import RollbackInstant
from chronolake_metastore.domain.savepoints import CreateSavepoint, ReleaseSavepoint
from chronolake_metastore.domain.schemas import ChangeSchema
from chronolake_metastore.domain.services import PlanServices
from chronolake_metastore.domain.staging import StageWriteStats
from chronolake_metastore.domain.streams import CloseStream, ExpireStream, OpenStream, RenewStream
from chronolake_metastore.domain.sweeps import RecordSweep
from chronolake_metastore.domain.tokens import CreateToken, RevokeToken, RotateToken
from chronolake_metastore.domain.transactions import CompleteTogether
from chronolake_metastore.domain.vendings import RecordVending
from chronolake_metastore.notes import (
    markers,
    metastore,
    publication,
    published_history,
    readers,
    services as noted_services,
)
from chronolake_metastore.queries import (
    cleans,
    conflicts,
    credentials,
    cuts,
    deletable,
    deletions,
    event_lists,
    events,
    file_groups,
    file_streams,
    files,
    following,
    grants as queried_grants,
    health,
    iceberg,
    instants,
    markers as queried_markers,
    namespaces as queried_namespaces,
    outcomes,
    partitions,
    publication as queried_publication,
    published_history as queried_history,
    readers as queried_readers,
    schemas,
    services,
    slices,
    streams,
    sweeps,
    tables as queried_tables,
)
from chronolake_model import operations
from chronolake_model.roles import Right

Names: TypeAlias = Callable[[tuple[Any, ...]], tuple[str, ...]]
"""The tables and namespaces that the arguments of a note or a read name."""

COMMANDS: Final[Mapping[type[Command], Right]] = {
    namespaces.CreateNamespace: operations.catalog.CREATE_NAMESPACE.right,
    namespaces.DropNamespace: operations.catalog.DROP_NAMESPACE.right,
    tables.CreateTable: operations.catalog.CREATE_TABLE.right,
    tables.AlterTable: operations.catalog.ALTER_TABLE.right,
    tables.DropTable: operations.catalog.DROP_TABLE.right,
    AdoptTable: operations.catalog.ADOPT_TABLE.right,
    ChangeSchema: operations.catalog.CHANGE_SCHEMA.right,
    BeginInstant: operations.timeline.BEGIN_INSTANT.right,
    TakeInflight: operations.timeline.TAKE_INFLIGHT.right,
    ReturnToRequested: operations.timeline.RETURN_TO_REQUESTED.right,
    RenewLease: operations.timeline.RENEW_LEASE.right,
    StageWriteStats: operations.timeline.STAGE_WRITE_STATS.right,
    CompleteInstant: operations.timeline.COMPLETE_INSTANT.right,
    CompleteTogether: operations.timeline.COMPLETE_TOGETHER.right,
    RollbackInstant: operations.timeline.ROLL_BACK_INSTANT.right,
    CreateSavepoint: operations.timeline.CREATE_SAVEPOINT.right,
    ReleaseSavepoint: operations.timeline.RELEASE_SAVEPOINT.right,
    RestoreTable: operations.timeline.RESTORE_TABLE.right,
    PlanClean: operations.timeline.PLAN_CLEAN.right,
    PlanServices: operations.services.PLAN_SERVICES.right,
    ReportDeletions: operations.files.REPORT_DELETIONS.right,
    RecordSweep: operations.files.RECORD_SWEEP.right,
    OpenStream: operations.streams.OPEN_STREAM.right,
    RenewStream: operations.streams.RENEW_STREAM.right,
    RequestInstant: operations.streams.REQUEST_STREAM_INSTANT.right,
    ReportWriteMetadata: operations.streams.REPORT_WRITE_METADATA.right,
    CompleteCheckpoints: operations.streams.COMPLETE_CHECKPOINTS.right,
    AbortCheckpoint: operations.streams.ABORT_CHECKPOINT.right,
    RestartTask: operations.streams.RESTART_TASK.right,
    CloseStream: operations.streams.CLOSE_STREAM.right,
    GrantRole: operations.access.GRANT_ROLE.right,
    RevokeRole: operations.access.REVOKE_ROLE.right,
    # Only workers send these.
    ExpireStream: operations.streams.CLOSE_STREAM.right,
    RecordHudiFiles: operations.streams.REPORT_PUBLICATION.right,
    # Only the service itself sends these.
    RecordDenial: Right.ADMINISTER,
    RecordVending: Right.ADMINISTER,
    # Only the command chronolake-metastore archive drop runs this.
    RecordArchivedEra: Right.ADMINISTER,
    # Only the commands chronolake-metastore token run these.
    CreateToken: Right.ADMINISTER,
    RotateToken: Right.ADMINISTER,
    RevokeToken: Right.ADMINISTER,
    # Only the commands chronolake-metastore locations allow and revoke run these.
    AllowLocation: Right.ADMINISTER,
    RevokeLocation: Right.ADMINISTER,
}


def _first(args: tuple[Any, ...]) -> tuple[str, ...]:
    """The first argument, which names a table or a namespace; nothing where it is left out."""
    return args[:1] if args and args[0] is not None else ()


def _nothing(args: tuple[Any, ...]) -> tuple[str, ...]:
    return ()


def _of_new_table(args: tuple[Any, ...]) -> tuple[str, ...]:
    """The name in a command that creates a table, or adopts one."""
    match args[0]:
        case tables.CreateTable() as create:
            return (create.definition.name,)
        case AdoptTable() as adopt:
            return (adopt.definition.name,)
        case other:
            raise TypeError(other)


def _of_cut(args: tuple[Any, ...]) -> tuple[str, ...]:
    """The namespace or the tables of a cut."""
    namespace, names, *_ = args
    return tuple(names or ()) if namespace is None else (namespace,)


class Requirement(msgspec.Struct, frozen=True):
    """The right that a note or a read requires, and the names that it is required for.

    Names that ``are_new`` need not exist. The server logs a note at ``info``, a frequent one at ``debug``.
    """

    right: Right = Right.READ
    names: Names = _first
    is_frequent: bool = False
    are_new: bool = False

    def needs(self, names: Sequence[str]) -> Needs:
        """The right that a caller needs on ``names``."""
        scopes = scopes_of(names)
        return Needs(self.right, (), scopes) if self.are_new else Needs(self.right, scopes)


NOTES: Final[Mapping[Callable[..., Any], Requirement]] = {
    readers.begin: Requirement(operations.files.BEGIN_READING.right),
    readers.renew: Requirement(operations.files.RENEW_READING.right, is_frequent=True),
    readers.end: Requirement(operations.files.END_READING.right),
    markers.create: Requirement(operations.files.CREATE_MARKERS.right, is_frequent=True),
    markers.delete: Requirement(operations.files.DELETE_MARKERS.right),
    publication.take_lease: Requirement(operations.streams.TAKE_PUBLICATION_LEASE.right, is_frequent=True),
    publication.report: Requirement(operations.streams.REPORT_PUBLICATION.right, is_frequent=True),
    publication.fail: Requirement(operations.streams.REPORT_PUBLICATION.right, is_frequent=True),
    published_history.plan: Requirement(operations.streams.PLAN_PUBLICATION_HISTORY.right),
    noted_services.save_look: Requirement(operations.services.PLAN_SERVICES.right, is_frequent=True),
    metastore.return_time: Requirement(operations.catalog.GET_TIME.right, _nothing, is_frequent=True),
    metastore.follow_promotion: Requirement(Right.ADMINISTER, _nothing),
}
READS: Final[dict[Callable[..., Any], Requirement]] = {
    cleans.preview: Requirement(),
    conflicts.find: Requirement(),
    # One operation, whose right depends on what its keys are for.
    credentials.for_reading: Requirement(operations.catalog.GET_CREDENTIALS.right),
    credentials.for_writing: Requirement(Right.WRITE),
    credentials.for_maintenance: Requirement(Right.MAINTAIN),
    cuts.page: Requirement(names=_of_cut),
    deletable.find_deletable: Requirement(operations.files.FIND_DELETABLE.right),
    deletable.find_deletable_orphans: Requirement(operations.files.FIND_DELETABLE_ORPHANS.right),
    deletions.page: Requirement(),
    event_lists.planned_file_groups: Requirement(),
    event_lists.planned_files: Requirement(),
    event_lists.planned_instants: Requirement(),
    event_lists.replaced_file_groups: Requirement(),
    events.page: Requirement(),
    events.time_of_cursor: Requirement(),
    file_groups.find: Requirement(),
    file_groups.history: Requirement(),
    file_groups.pending: Requirement(),
    file_groups.replaced: Requirement(),
    file_streams.changes: Requirement(),
    file_streams.published: Requirement(),
    file_streams.scan: Requirement(),
    file_streams.snapshot: Requirement(),
    files.changes: Requirement(),
    files.scan: Requirement(),
    files.snapshot: Requirement(),
    following.begin: Requirement(),
    health.page: Requirement(names=_nothing),
    iceberg.changes: Requirement(),
    iceberg.files: Requirement(),
    iceberg.find: Requirement(),
    iceberg.states: Requirement(),
    # Only a worker reads them, of tables that clients may read.
    iceberg.versions: Requirement(names=_nothing),
    instants.completion_times: Requirement(),
    instants.get: Requirement(),
    instants.page: Requirement(),
    queried_markers.find: Requirement(),
    queried_markers.page: Requirement(),
    queried_namespaces.get: Requirement(),
    queried_namespaces.page: Requirement(names=_nothing),
    outcomes.get: Requirement(names=_nothing),
    partitions.page: Requirement(),
    queried_history.page: Requirement(),
    queried_publication.files: Requirement(),
    queried_publication.files_to_record: Requirement(operations.streams.REPORT_PUBLICATION.right),
    queried_publication.find_pause: Requirement(),
    queried_publication.partitions: Requirement(),
    queried_publication.status: Requirement(),
    queried_publication.steps: Requirement(),
    queried_readers.page: Requirement(operations.files.LIST_READERS.right),
    queried_grants.page: Requirement(names=_nothing),
    queried_grants.who_am_i: Requirement(names=_nothing),
    queried_grants.can_i: Requirement(names=_nothing),
    schemas.get: Requirement(),
    schemas.page: Requirement(),
    services.decide: Requirement(),
    services.page: Requirement(names=_nothing),
    services.preview: Requirement(),
    services.status: Requirement(),
    slices.snapshot: Requirement(),
    streams.get: Requirement(),
    streams.page: Requirement(),
    sweeps.page: Requirement(),
    queried_tables.check_adoption: Requirement(
        operations.catalog.CHECK_ADOPTION.right, _of_new_table, are_new=True
    ),
    queried_tables.check_new: Requirement(
        operations.catalog.CHECK_NEW_TABLE.right, _of_new_table, are_new=True
    ),
    queried_tables.get: Requirement(),
    queried_tables.page: Requirement(),
    queried_tables.page_of_dropped: Requirement(names=_nothing),
}
