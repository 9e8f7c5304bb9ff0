"""The closed list of commands, and what tells two requests of them apart."""

from __future__ import annotations

import hashlib

import msgspec

from chronolake_metastore.domain.cleans import PlanClean
from chronolake_metastore.domain.deletions import ReportDeletions
from chronolake_metastore.domain.instants import BeginInstant, CompleteInstant, ReturnToRequested, TakeInflight
from chronolake_metastore.domain.leases import RenewLease
from chronolake_metastore.domain.namespaces import CreateNamespace, DropNamespace
from chronolake_metastore.domain.restores import RestoreTable
from chronolake_metastore.domain.rollbacks import RollbackInstant
from chronolake_metastore.domain.savepoints import CreateSavepoint, ReleaseSavepoint
from chronolake_metastore.domain.schemas import ChangeSchema
from chronolake_metastore.domain.staging import StageWriteStats
from chronolake_metastore.domain.sweeps import RecordSweep
from chronolake_metastore.domain.tables import CreateTable, DropTable
from chronolake_metastore.domain.transactions import CompleteTogether

CatalogCommand = CreateNamespace | DropNamespace | CreateTable | DropTable
InstantCommand = (
    TakeInflight
    | ReturnToRequested
    | StageWriteStats
    | ReportDeletions
    | RecordSweep
    | CompleteInstant
    | RollbackInstant
    | RenewLease
    | ReleaseSavepoint
)
"""Commands that name one instant of one table."""
TableCommand = BeginInstant | InstantCommand | CreateSavepoint | RestoreTable | ChangeSchema | PlanClean
Command = CatalogCommand | TableCommand | CompleteTogether


def canonical(command: Command) -> bytes:
    """The command in one form, whatever way it was written."""
    if isinstance(command, CreateTable):
        # Where links lead to is no part of the request, and may have changed when it is sent again.
        command = msgspec.structs.replace(command, base_path_key=None)
    return msgspec.json.encode(command, order="sorted")


def fingerprint(canonical_command: bytes) -> bytes:
    """16 bytes that two requests share only when they ask for the same thing of the same object."""
    return hashlib.blake2b(canonical_command, digest_size=16).digest()
