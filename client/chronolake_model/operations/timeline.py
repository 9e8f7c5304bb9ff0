"""Instants, savepoints and cleans."""

from __future__ import annotations

from typing import Final

from chronolake_model.cleans import CleanPolicy, CleanPreview, PlanClean, PlannedClean
from chronolake_model.instants import (
    BeginInstant,
    CompletedTogether,
    CompleteInstant,
    CompleteTogether,
    CompletionTimes,
    Conflicts,
    CreateSavepoint,
    FileGroupsReplaced,
    FindConflicts,
    Heartbeat,
    Instant,
    InstantPage,
    PlannedFileGroups,
    PlannedFiles,
    PlannedInstants,
    ReleaseSavepoint,
    RequestedTimes,
    RestoreTable,
    ReturnToRequested,
    RollbackInstant,
    StagedWriteStats,
    StageWriteStats,
    TakeInflight,
)
from chronolake_model.operations.declaring import command, question, read
from chronolake_model.problems import ProblemCode as Code
from chronolake_model.roles import Right

_TABLE: Final = "/v1/tables/{table}"
_INSTANT: Final = f"{_TABLE}/instants/{{requested_time}}"

BEGIN_INSTANT: Final = command(
    "POST",
    f"{_TABLE}/instants",
    "Begin an instant",
    Code.TABLE_NOT_FOUND,
    Code.WRITE_CONFLICT,
    Code.ACTION_NOT_SUPPORTED,
    Code.INVALID_PLAN,
    Code.ILLEGAL_TRANSITION,
    tag="Timeline",
    body=BeginInstant,
    answer=Instant,
    right=Right.WRITE,
    creates=True,
)
TAKE_INFLIGHT: Final = command(
    "POST",
    f"{_INSTANT}/inflight",
    "Take an instant inflight",
    Code.TABLE_NOT_FOUND,
    Code.INSTANT_NOT_FOUND,
    Code.ILLEGAL_TRANSITION,
    Code.LEASE_LIVE,
    Code.INSTANT_ROLLED_BACK,
    tag="Timeline",
    body=TakeInflight,
    answer=Instant,
    right=Right.WRITE,
    body_may_be_left_out=True,
)
RETURN_TO_REQUESTED: Final = command(
    "POST",
    f"{_INSTANT}/requested",
    "Take an instant back to requested",
    Code.TABLE_NOT_FOUND,
    Code.INSTANT_NOT_FOUND,
    Code.ILLEGAL_TRANSITION,
    Code.LEASE_LIVE,
    Code.INSTANT_ROLLED_BACK,
    tag="Timeline",
    body=ReturnToRequested,
    answer=Instant,
    right=Right.WRITE,
)
COMPLETE_INSTANT: Final = command(
    "POST",
    f"{_INSTANT}/complete",
    "Complete an instant",
    Code.TABLE_NOT_FOUND,
    Code.INSTANT_NOT_FOUND,
    Code.ILLEGAL_TRANSITION,
    Code.LEASE_LIVE,
    Code.WRITE_CONFLICT,
    Code.INSTANT_ROLLED_BACK,
    Code.INVALID_WRITE_STAT,
    Code.INVALID_PLAN,
    Code.UNRECONCILED_MARKERS,
    Code.UNDELETED_FILES,
    tag="Timeline",
    body=CompleteInstant,
    answer=Instant,
    right=Right.WRITE,
)
GET_INSTANT: Final = read(
    _INSTANT, "Get an instant", Code.TABLE_NOT_FOUND, Code.INSTANT_NOT_FOUND, tag="Timeline", answer=Instant
)
LIST_INSTANTS: Final = read(
    f"{_TABLE}/instants",
    "List instants",
    Code.TABLE_NOT_FOUND,
    Code.INVALID_CURSOR,
    tag="Timeline",
    answer=InstantPage,
)
LOOK_UP_COMPLETION_TIMES: Final = question(
    f"{_TABLE}/completion-times",
    "Look up completion times",
    Code.TABLE_NOT_FOUND,
    tag="Timeline",
    body=RequestedTimes,
    answer=CompletionTimes,
)
STAGE_WRITE_STATS: Final = command(
    "POST",
    f"{_INSTANT}/write-stats",
    "Stage write stats",
    Code.TABLE_NOT_FOUND,
    Code.INSTANT_NOT_FOUND,
    Code.ILLEGAL_TRANSITION,
    Code.LEASE_LIVE,
    Code.WRITE_CONFLICT,
    Code.INSTANT_ROLLED_BACK,
    Code.INVALID_WRITE_STAT,
    Code.INVALID_PLAN,
    tag="Timeline",
    body=StageWriteStats,
    answer=StagedWriteStats,
    right=Right.WRITE,
    creates=True,
)
LIST_PLANNED_FILE_GROUPS: Final = read(
    f"{_INSTANT}/plan/file-groups",
    "List the file groups of a plan",
    Code.TABLE_NOT_FOUND,
    Code.INSTANT_NOT_FOUND,
    Code.INVALID_CURSOR,
    tag="Timeline",
    answer=PlannedFileGroups,
)
LIST_PLANNED_FILES: Final = read(
    f"{_INSTANT}/plan/files",
    "List the files of a plan",
    Code.TABLE_NOT_FOUND,
    Code.INSTANT_NOT_FOUND,
    Code.INVALID_CURSOR,
    tag="Timeline",
    answer=PlannedFiles,
)
LIST_PLANNED_INSTANTS: Final = read(
    f"{_INSTANT}/plan/instants",
    "List the instants of a plan",
    Code.TABLE_NOT_FOUND,
    Code.INSTANT_NOT_FOUND,
    Code.INVALID_CURSOR,
    tag="Timeline",
    answer=PlannedInstants,
)
LIST_REPLACED_BY_INSTANT: Final = read(
    f"{_INSTANT}/replaced-file-groups",
    "List the file groups that an instant replaced",
    Code.TABLE_NOT_FOUND,
    Code.INSTANT_NOT_FOUND,
    Code.INVALID_CURSOR,
    tag="Timeline",
    answer=FileGroupsReplaced,
)
FIND_CONFLICTS: Final = question(
    f"{_INSTANT}/conflicts",
    "Would this conflict?",
    Code.TABLE_NOT_FOUND,
    Code.INSTANT_NOT_FOUND,
    tag="Timeline",
    body=FindConflicts,
    answer=Conflicts,
)
ROLL_BACK_INSTANT: Final = command(
    "POST",
    f"{_INSTANT}/rollback",
    "Roll an instant back",
    Code.TABLE_NOT_FOUND,
    Code.INSTANT_NOT_FOUND,
    Code.ILLEGAL_TRANSITION,
    Code.LEASE_LIVE,
    Code.INVALID_PLAN,
    tag="Timeline",
    body=RollbackInstant,
    answer=Instant,
    right=Right.WRITE,
)
CREATE_SAVEPOINT: Final = command(
    "POST",
    f"{_TABLE}/savepoints",
    "Create a savepoint",
    Code.TABLE_NOT_FOUND,
    Code.INSTANT_NOT_FOUND,
    Code.ILLEGAL_TRANSITION,
    Code.HISTORY_CLEANED,
    tag="Savepoints",
    body=CreateSavepoint,
    answer=Instant,
    right=Right.WRITE,
    creates=True,
)
RELEASE_SAVEPOINT: Final = command(
    "POST",
    f"{_TABLE}/savepoints/{{requested_time}}/release",
    "Release a savepoint",
    Code.TABLE_NOT_FOUND,
    Code.INSTANT_NOT_FOUND,
    Code.ILLEGAL_TRANSITION,
    tag="Savepoints",
    body=ReleaseSavepoint,
    answer=Instant,
    right=Right.WRITE,
)
RESTORE_TABLE: Final = command(
    "POST",
    f"{_TABLE}/restore",
    "Restore a table to a savepoint",
    Code.TABLE_NOT_FOUND,
    Code.INSTANT_NOT_FOUND,
    Code.ILLEGAL_TRANSITION,
    Code.SAVEPOINTED,
    Code.INVALID_PLAN,
    tag="Savepoints",
    body=RestoreTable,
    answer=Instant,
    right=Right.MAINTAIN,
)
PLAN_CLEAN: Final = command(
    "POST",
    f"{_TABLE}/cleans",
    "Plan a clean",
    Code.TABLE_NOT_FOUND,
    Code.LEASE_LIVE,
    Code.ILLEGAL_TRANSITION,
    tag="Cleans",
    body=PlanClean,
    answer=PlannedClean,
    right=Right.MAINTAIN,
    creates=True,
)
PREVIEW_CLEAN: Final = question(
    f"{_TABLE}/clean-plans",
    "Preview a clean",
    Code.TABLE_NOT_FOUND,
    tag="Cleans",
    body=CleanPolicy,
    answer=CleanPreview,
)
COMPLETE_TOGETHER: Final = command(
    "POST",
    "/v1/transactions/complete",
    "Complete several instants together",
    Code.TABLE_NOT_FOUND,
    Code.INSTANT_NOT_FOUND,
    Code.ILLEGAL_TRANSITION,
    Code.LEASE_LIVE,
    Code.WRITE_CONFLICT,
    Code.INSTANT_ROLLED_BACK,
    Code.INVALID_WRITE_STAT,
    Code.INVALID_PLAN,
    Code.UNDELETED_FILES,
    tag="Timeline",
    body=CompleteTogether,
    answer=CompletedTogether,
    right=Right.WRITE,
)
RENEW_LEASE: Final = command(
    "POST",
    f"{_INSTANT}/heartbeat",
    "Renew an instant's lease",
    Code.TABLE_NOT_FOUND,
    Code.INSTANT_NOT_FOUND,
    Code.ILLEGAL_TRANSITION,
    Code.INSTANT_ROLLED_BACK,
    tag="Timeline",
    body=Heartbeat,
    answer=Instant,
    right=Right.WRITE,
    body_may_be_left_out=True,
)
