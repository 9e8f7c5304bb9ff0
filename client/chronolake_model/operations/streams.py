"""Streams and publications."""

from __future__ import annotations

from typing import Final

from chronolake_model.operations.declaring import command, note, read
from chronolake_model.problems import ProblemCode as Code
from chronolake_model.publication import (
    HistoryPage,
    HistoryPlan,
    PlanHistory,
    Publication,
    PublicationFiles,
    PublicationLease,
    PublicationPartitions,
    PublicationSteps,
    ReportPublication,
    TakePublicationLease,
)
from chronolake_model.roles import Right
from chronolake_model.streams import (
    AbortCheckpoint,
    CloseStream,
    CompleteCheckpoints,
    CompletedCheckpoints,
    OpenStream,
    RenewStream,
    ReportedWriteMetadata,
    ReportWriteMetadata,
    RequestInstant,
    RestartedTask,
    RestartTask,
    Stream,
    StreamInstant,
    StreamPage,
)

_TABLE: Final = "/v1/tables/{table}"
_STREAM: Final = f"{_TABLE}/streams/{{stream}}"
_PUBLICATION: Final = f"{_TABLE}/publication"

GET_PUBLICATION: Final = read(
    _PUBLICATION, "Get the publication", Code.TABLE_NOT_FOUND, tag="Publication", answer=Publication
)
TAKE_PUBLICATION_LEASE: Final = note(
    "POST",
    f"{_PUBLICATION}/lease",
    "Take the publisher's lease",
    Code.TABLE_NOT_FOUND,
    Code.METASTORE_MOVED,
    Code.LEASE_LIVE,
    Code.NOT_PUBLISHED,
    tag="Publication",
    body=TakePublicationLease,
    answer=PublicationLease,
    right=Right.MAINTAIN,
)
LIST_PUBLICATION_STEPS: Final = read(
    f"{_PUBLICATION}/steps",
    "List the steps of a publication",
    Code.TABLE_NOT_FOUND,
    Code.NOT_PUBLISHED,
    tag="Publication",
    answer=PublicationSteps,
)
LIST_PUBLICATION_FILES: Final = read(
    f"{_PUBLICATION}/files",
    "List the files of a publication",
    Code.TABLE_NOT_FOUND,
    tag="Publication",
    answer=PublicationFiles,
)
LIST_PUBLICATION_PARTITIONS: Final = read(
    f"{_PUBLICATION}/partitions",
    "List the metadata of partitions of a publication",
    Code.TABLE_NOT_FOUND,
    tag="Publication",
    answer=PublicationPartitions,
)
REPORT_PUBLICATION: Final = note(
    "POST",
    _PUBLICATION,
    "Report a publication",
    Code.TABLE_NOT_FOUND,
    Code.ILLEGAL_TRANSITION,
    Code.PUBLICATION_FENCED,
    tag="Publication",
    body=ReportPublication,
    answer=Publication,
    right=Right.MAINTAIN,
)
PLAN_PUBLICATION_HISTORY: Final = note(
    "POST",
    f"{_PUBLICATION}/history",
    "Decide which instants leave the published timeline",
    Code.TABLE_NOT_FOUND,
    Code.PUBLICATION_FENCED,
    tag="Publication",
    body=PlanHistory,
    answer=HistoryPlan,
    right=Right.MAINTAIN,
)
LIST_PUBLICATION_HISTORY: Final = read(
    f"{_PUBLICATION}/history",
    "List the instants of the history of a publication",
    Code.TABLE_NOT_FOUND,
    tag="Publication",
    answer=HistoryPage,
)
OPEN_STREAM: Final = command(
    "POST",
    f"{_STREAM}/open",
    "Open a stream",
    Code.TABLE_NOT_FOUND,
    tag="Streams",
    body=OpenStream,
    answer=Stream,
    right=Right.WRITE,
)
RENEW_STREAM: Final = command(
    "POST",
    f"{_STREAM}/heartbeat",
    "Renew the lease of a stream",
    Code.TABLE_NOT_FOUND,
    Code.STREAM_NOT_FOUND,
    Code.STREAM_FENCED,
    tag="Streams",
    body=RenewStream,
    answer=Stream,
    right=Right.WRITE,
)
REQUEST_STREAM_INSTANT: Final = command(
    "POST",
    f"{_STREAM}/instants",
    "Ask for the instant of a checkpoint",
    Code.TABLE_NOT_FOUND,
    Code.STREAM_NOT_FOUND,
    Code.STREAM_FENCED,
    Code.CHECKPOINT_PASSED,
    Code.INSTANT_NOT_YET,
    Code.ACTION_NOT_SUPPORTED,
    tag="Streams",
    body=RequestInstant,
    answer=StreamInstant,
    right=Right.WRITE,
    creates=True,
)
REPORT_WRITE_METADATA: Final = command(
    "POST",
    f"{_STREAM}/write-metadata",
    "Report write metadata",
    Code.TABLE_NOT_FOUND,
    Code.STREAM_NOT_FOUND,
    Code.STREAM_FENCED,
    Code.INSTANT_NOT_FOUND,
    Code.ILLEGAL_TRANSITION,
    Code.INSTANT_ROLLED_BACK,
    Code.INVALID_WRITE_STAT,
    Code.INVALID_PLAN,
    Code.WRITE_CONFLICT,
    Code.MAY_CONFLICT,
    tag="Streams",
    body=ReportWriteMetadata,
    answer=ReportedWriteMetadata,
    right=Right.WRITE,
)
COMPLETE_CHECKPOINTS: Final = command(
    "POST",
    f"{_STREAM}/complete",
    "Complete checkpoints",
    Code.TABLE_NOT_FOUND,
    Code.STREAM_NOT_FOUND,
    Code.STREAM_FENCED,
    Code.CHECKPOINT_INCOMPLETE,
    Code.UNKNOWN_CHECKPOINT,
    Code.WRITE_CONFLICT,
    Code.INVALID_WRITE_STAT,
    Code.INVALID_PLAN,
    Code.UNRECONCILED_MARKERS,
    tag="Streams",
    body=CompleteCheckpoints,
    answer=CompletedCheckpoints,
    right=Right.WRITE,
)
ABORT_CHECKPOINT: Final = command(
    "POST",
    f"{_STREAM}/abort",
    "Abort a checkpoint",
    Code.TABLE_NOT_FOUND,
    Code.STREAM_NOT_FOUND,
    Code.STREAM_FENCED,
    tag="Streams",
    body=AbortCheckpoint,
    answer=Stream,
    right=Right.WRITE,
)
RESTART_TASK: Final = command(
    "POST",
    f"{_STREAM}/restart-task",
    "Restart a task",
    Code.TABLE_NOT_FOUND,
    Code.STREAM_NOT_FOUND,
    Code.STREAM_FENCED,
    Code.INVALID_WRITE_STAT,
    tag="Streams",
    body=RestartTask,
    answer=RestartedTask,
    right=Right.WRITE,
)
CLOSE_STREAM: Final = command(
    "POST",
    f"{_STREAM}/close",
    "Close a stream",
    Code.TABLE_NOT_FOUND,
    Code.STREAM_NOT_FOUND,
    Code.STREAM_FENCED,
    Code.ILLEGAL_TRANSITION,
    tag="Streams",
    body=CloseStream,
    answer=Stream,
    right=Right.WRITE,
)
GET_STREAM: Final = read(
    _STREAM, "Get a stream", Code.TABLE_NOT_FOUND, Code.STREAM_NOT_FOUND, tag="Streams", answer=Stream
)
LIST_STREAMS: Final = read(
    f"{_TABLE}/streams",
    "List streams",
    Code.TABLE_NOT_FOUND,
    Code.INVALID_CURSOR,
    tag="Streams",
    answer=StreamPage,
)
