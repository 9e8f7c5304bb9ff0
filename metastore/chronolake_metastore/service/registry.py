"""The registry of commands and notes: each with the right that it needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

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
from chronolake_metastore.service.authorization import Right

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


class Note(msgspec.Struct, frozen=True):
    """The right that a note needs. The server logs it at ``info``, or at ``debug`` if it is frequent."""

    right: Right
    is_frequent: bool = False


NOTES: Final[Mapping[Callable[..., Any], Note]] = {
    readers.begin: Note(Right.READ),
    readers.renew: Note(Right.READ, is_frequent=True),
    readers.end: Note(Right.READ),
    markers.create: Note(Right.WRITE, is_frequent=True),
    markers.delete: Note(Right.WRITE),
    publication.take_lease: Note(Right.MAINTAIN, is_frequent=True),
    publication.report: Note(Right.MAINTAIN, is_frequent=True),
    publication.fail: Note(Right.MAINTAIN, is_frequent=True),
    metastore.return_time: Note(Right.READ, is_frequent=True),
    metastore.follow_promotion: Note(Right.ADMINISTER),
}
