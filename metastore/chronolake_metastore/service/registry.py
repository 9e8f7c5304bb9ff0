"""The registry of commands, notes and reads: each with the right that it needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
from chronolake_metastore.domain.instants import BeginInstant, CompleteInstant, ReturnToRequested, TakeInflight
from chronolake_metastore.domain.leases import RenewLease
from chronolake_metastore.domain.publication import RecordHudiFiles
from chronolake_metastore.domain.restores import RestoreTable
from chronolake_metastore.domain.rollbacks import RollbackInstant
from chronolake_metastore.domain.savepoints import CreateSavepoint, ReleaseSavepoint
from chronolake_metastore.domain.schemas import ChangeSchema
from chronolake_metastore.domain.staging import StageWriteStats
from chronolake_metastore.domain.streams import CloseStream, ExpireStream, OpenStream, RenewStream
from chronolake_metastore.domain.sweeps import RecordSweep
from chronolake_metastore.domain.transactions import CompleteTogether
from chronolake_metastore.notes import markers, metastore, publication, readers
from chronolake_metastore.queries import (
    adoption,
    clean_plans,
    conflicts,
    deletable,
    deletions,
    event_lists,
    events,
    file_groups,
    file_streams,
    files,
    following,
    health,
    instants,
    markers as queried_markers,
    namespaces as queried_namespaces,
    outcomes,
    partitions,
    publication as queried_publication,
    readers as queried_readers,
    schemas,
    slices,
    streams,
    sweeps,
    tables as queried_tables,
)
from chronolake_metastore.service.authorization import Right

Names: TypeAlias = Callable[[tuple[Any, ...]], tuple[str, ...]]
"""The tables and namespaces that the arguments of a note or a read name."""

_COMMANDS_OF_RIGHT: Final[Mapping[Right, tuple[type[Command], ...]]] = {
    Right.DEFINE: (
        namespaces.CreateNamespace,
        namespaces.DropNamespace,
        tables.CreateTable,
        tables.AlterTable,
        tables.DropTable,
        AdoptTable,
        ChangeSchema,
    ),
    Right.WRITE: (
        BeginInstant,
        TakeInflight,
        ReturnToRequested,
        RenewLease,
        StageWriteStats,
        CompleteInstant,
        CompleteTogether,
        RollbackInstant,
        CreateSavepoint,
        ReleaseSavepoint,
        OpenStream,
        RenewStream,
        RequestInstant,
        ReportWriteMetadata,
        CompleteCheckpoints,
        AbortCheckpoint,
        RestartTask,
        CloseStream,
        ExpireStream,
    ),
    Right.MAINTAIN: (RestoreTable, ReportDeletions, RecordSweep, PlanClean, RecordHudiFiles),
}
COMMANDS: Final[Mapping[type[Command], Right]] = {
    command: right for right, commands in _COMMANDS_OF_RIGHT.items() for command in commands
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
            return (create.request.name,)
        case AdoptTable() as adopt:
            return (adopt.request.definition.name,)
        case other:
            raise TypeError(other)


class Requirement(msgspec.Struct, frozen=True):
    """The right that a note or a read requires, and the names that it is required for.

    The server logs a note at ``info``, or at ``debug`` if it is frequent.
    """

    right: Right = Right.READ
    names: Names = _first
    is_frequent: bool = False


NOTES: Final[Mapping[Callable[..., Any], Requirement]] = {
    readers.begin: Requirement(Right.READ),
    readers.renew: Requirement(Right.READ, is_frequent=True),
    readers.end: Requirement(Right.READ),
    markers.create: Requirement(Right.WRITE, is_frequent=True),
    markers.delete: Requirement(Right.WRITE),
    publication.take_lease: Requirement(Right.MAINTAIN, is_frequent=True),
    publication.report: Requirement(Right.MAINTAIN, is_frequent=True),
    publication.fail: Requirement(Right.MAINTAIN, is_frequent=True),
    metastore.return_time: Requirement(Right.READ, _nothing, is_frequent=True),
    metastore.follow_promotion: Requirement(Right.ADMINISTER, _nothing),
}
READS: Final[dict[Callable[..., Any], Requirement]] = {
    adoption.check: Requirement(Right.DEFINE, _of_new_table),
    clean_plans.preview: Requirement(),
    conflicts.find: Requirement(),
    deletable.find_deletable: Requirement(Right.MAINTAIN),
    deletable.find_deletable_orphans: Requirement(Right.MAINTAIN),
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
    instants.completion_times: Requirement(),
    instants.get: Requirement(),
    instants.page: Requirement(),
    queried_markers.find: Requirement(),
    queried_markers.page: Requirement(),
    queried_namespaces.get: Requirement(),
    queried_namespaces.page: Requirement(names=_nothing),
    outcomes.get: Requirement(names=_nothing),
    partitions.page: Requirement(),
    queried_publication.files: Requirement(),
    queried_publication.files_to_record: Requirement(Right.MAINTAIN),
    queried_publication.find_pause: Requirement(),
    queried_publication.partitions: Requirement(),
    queried_publication.status: Requirement(),
    queried_publication.steps: Requirement(),
    queried_readers.page: Requirement(),
    schemas.get: Requirement(),
    schemas.page: Requirement(),
    slices.snapshot: Requirement(),
    streams.get: Requirement(),
    streams.page: Requirement(),
    sweeps.page: Requirement(),
    queried_tables.check_new: Requirement(Right.DEFINE, _of_new_table),
    queried_tables.get: Requirement(),
    queried_tables.page: Requirement(),
    queried_tables.page_of_dropped: Requirement(names=_nothing),
}
