"""Files, markers, deletions and leases of readers."""

from __future__ import annotations

from typing import Final

from chronolake_model.deletable import Deletable, FindDeletable, FindDeletableOrphans
from chronolake_model.files import Changes, Snapshot
from chronolake_model.markers import (
    CreatedMarkers,
    CreateMarkers,
    DeletedFilePage,
    DeletedMarkers,
    MarkerExists,
    MarkerPage,
    ReportDeletions,
    ReportedDeletions,
)
from chronolake_model.operations.declaring import command, note, question, read
from chronolake_model.problems import ProblemCode as Code
from chronolake_model.readers import BeginReading, EndedReading, ReaderLease, ReaderPage, RenewReading
from chronolake_model.roles import Right
from chronolake_model.scans import Scan
from chronolake_model.slices import (
    FileGroupHistory,
    FindFileGroups,
    FoundFileGroups,
    Partitions,
    PendingFileGroups,
    ReplacedFileGroups,
)
from chronolake_model.sweeps import RecordedSweep, RecordSweep, UnsweptPage

_TABLE: Final = "/v1/tables/{table}"
_INSTANT: Final = f"{_TABLE}/instants/{{requested_time}}"

FIND_DELETABLE: Final = question(
    f"{_INSTANT}/deletable",
    "Ask which files may be deleted",
    Code.TABLE_NOT_FOUND,
    Code.BASE_PATH_SHARED,
    Code.METASTORE_MOVED,
    Code.ILLEGAL_TRANSITION,
    Code.INSTANT_NOT_FOUND,
    tag="Markers",
    body=FindDeletable,
    answer=Deletable,
    right=Right.MAINTAIN,
)
FIND_DELETABLE_ORPHANS: Final = question(
    f"{_TABLE}/deletable",
    "Ask which orphans may be deleted",
    Code.TABLE_NOT_FOUND,
    Code.BASE_PATH_SHARED,
    Code.METASTORE_MOVED,
    Code.ILLEGAL_TRANSITION,
    tag="Markers",
    body=FindDeletableOrphans,
    answer=Deletable,
    right=Right.MAINTAIN,
)
BEGIN_READING: Final = note(
    "POST",
    f"{_TABLE}/readers",
    "Begin reading",
    Code.TABLE_NOT_FOUND,
    Code.HISTORY_CLEANED,
    Code.TOO_MANY_LEASES,
    tag="Readers",
    body=BeginReading,
    answer=ReaderLease,
    right=Right.READ,
    status=201,
)
RENEW_READING: Final = note(
    "POST",
    f"{_TABLE}/readers/{{lease_id}}/heartbeat",
    "Renew a reader's lease",
    Code.TABLE_NOT_FOUND,
    Code.READER_NOT_FOUND,
    tag="Readers",
    body=RenewReading,
    answer=ReaderLease,
    right=Right.READ,
)
END_READING: Final = note(
    "DELETE",
    f"{_TABLE}/readers/{{lease_id}}",
    "End reading",
    Code.TABLE_NOT_FOUND,
    tag="Readers",
    body=type(None),
    answer=EndedReading,
    right=Right.READ,
)
LIST_READERS: Final = read(
    f"{_TABLE}/readers",
    "List readers",
    Code.TABLE_NOT_FOUND,
    Code.INVALID_CURSOR,
    tag="Readers",
    answer=ReaderPage,
    # Who knows the id of a lease can end it, and then files are deleted under its reader.
    right=Right.MAINTAIN,
)
CREATE_MARKERS: Final = note(
    "POST",
    f"{_INSTANT}/markers",
    "Create markers",
    Code.TABLE_NOT_FOUND,
    Code.INSTANT_NOT_FOUND,
    Code.INVALID_MARKER,
    Code.ILLEGAL_TRANSITION,
    Code.LEASE_LIVE,
    Code.WRITE_CONFLICT,
    Code.INSTANT_ROLLED_BACK,
    Code.OVERLOADED,
    tag="Markers",
    body=CreateMarkers,
    answer=CreatedMarkers,
    right=Right.WRITE,
)
LIST_MARKERS: Final = read(
    f"{_INSTANT}/markers",
    "List markers",
    Code.TABLE_NOT_FOUND,
    Code.INSTANT_NOT_FOUND,
    Code.INVALID_CURSOR,
    tag="Markers",
    answer=MarkerPage,
)
FIND_MARKER: Final = read(
    f"{_INSTANT}/marker",
    "Find a marker",
    Code.TABLE_NOT_FOUND,
    Code.INSTANT_NOT_FOUND,
    tag="Markers",
    answer=MarkerExists,
)
DELETE_MARKERS: Final = note(
    "DELETE",
    f"{_INSTANT}/markers",
    "Delete the markers of an instant",
    Code.TABLE_NOT_FOUND,
    Code.INSTANT_NOT_FOUND,
    Code.ILLEGAL_TRANSITION,
    tag="Markers",
    body=type(None),
    answer=DeletedMarkers,
    right=Right.WRITE,
)
REPORT_DELETIONS: Final = command(
    "POST",
    f"{_INSTANT}/deletions",
    "Report deletions",
    Code.TABLE_NOT_FOUND,
    Code.INSTANT_NOT_FOUND,
    Code.ILLEGAL_TRANSITION,
    Code.LEASE_LIVE,
    Code.INSTANT_ROLLED_BACK,
    Code.INVALID_DELETION,
    tag="Markers",
    body=ReportDeletions,
    answer=ReportedDeletions,
    right=Right.MAINTAIN,
    creates=True,
)
LIST_DELETIONS: Final = read(
    f"{_INSTANT}/deletions",
    "List deletions",
    Code.TABLE_NOT_FOUND,
    Code.INSTANT_NOT_FOUND,
    Code.INVALID_CURSOR,
    tag="Markers",
    answer=DeletedFilePage,
)
LIST_UNSWEPT: Final = read(
    f"{_TABLE}/unswept",
    "List instants that are due for a sweep",
    Code.TABLE_NOT_FOUND,
    Code.INVALID_CURSOR,
    tag="Markers",
    answer=UnsweptPage,
)
RECORD_SWEEP: Final = command(
    "POST",
    f"{_INSTANT}/sweep",
    "Record a sweep",
    Code.TABLE_NOT_FOUND,
    Code.INSTANT_NOT_FOUND,
    Code.ILLEGAL_TRANSITION,
    Code.INVALID_DELETION,
    tag="Markers",
    body=RecordSweep,
    answer=RecordedSweep,
    right=Right.MAINTAIN,
)
GET_SNAPSHOT: Final = read(
    f"{_TABLE}/snapshot",
    "The live file slices",
    Code.TABLE_NOT_FOUND,
    Code.INVALID_CURSOR,
    Code.HISTORY_CLEANED,
    Code.TOO_MANY_STREAMS,
    Code.OVERLOADED,
    tag="Files",
    answer=Snapshot,
)
GET_PUBLISHED: Final = read(
    f"{_TABLE}/published",
    "Every file that was ever published",
    Code.TABLE_NOT_FOUND,
    Code.TOO_MANY_STREAMS,
    Code.OVERLOADED,
    tag="Files",
    answer=type(None),
)
GET_CHANGES: Final = read(
    f"{_TABLE}/changes",
    "What changed between two completion times",
    Code.TABLE_NOT_FOUND,
    Code.INVALID_CURSOR,
    Code.HISTORY_CLEANED,
    Code.TOO_MANY_STREAMS,
    Code.OVERLOADED,
    tag="Files",
    answer=Changes,
)
SCAN_FILES: Final = question(
    f"{_TABLE}/scan",
    "The live file slices that could match a filter",
    Code.TABLE_NOT_FOUND,
    Code.INVALID_CURSOR,
    Code.INVALID_FILTER,
    Code.HISTORY_CLEANED,
    Code.TOO_MANY_STREAMS,
    Code.OVERLOADED,
    tag="Files",
    body=Scan,
    answer=Snapshot,
)
FIND_FILE_GROUPS: Final = question(
    f"{_TABLE}/file-groups",
    "The slices of some file groups",
    Code.TABLE_NOT_FOUND,
    Code.INVALID_CURSOR,
    Code.HISTORY_CLEANED,
    tag="Files",
    body=FindFileGroups,
    answer=FoundFileGroups,
)
GET_FILE_GROUP: Final = read(
    f"{_TABLE}/file-groups/history",
    "One file group with all its slices",
    Code.TABLE_NOT_FOUND,
    Code.INVALID_CURSOR,
    Code.HISTORY_CLEANED,
    tag="Files",
    answer=FileGroupHistory,
)
LIST_REPLACED_FILE_GROUPS: Final = read(
    f"{_TABLE}/replaced-file-groups",
    "The file groups that were replaced",
    Code.TABLE_NOT_FOUND,
    Code.INVALID_CURSOR,
    Code.HISTORY_CLEANED,
    tag="Files",
    answer=ReplacedFileGroups,
)
LIST_PENDING_FILE_GROUPS: Final = read(
    f"{_TABLE}/pending-file-groups",
    "The file groups for which table services are pending",
    Code.TABLE_NOT_FOUND,
    Code.INVALID_CURSOR,
    Code.HISTORY_CLEANED,
    tag="Files",
    answer=PendingFileGroups,
)
LIST_PARTITIONS: Final = read(
    f"{_TABLE}/partitions",
    "The partitions with their totals",
    Code.TABLE_NOT_FOUND,
    Code.INVALID_CURSOR,
    Code.HISTORY_CLEANED,
    tag="Files",
    answer=Partitions,
)
