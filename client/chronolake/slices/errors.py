"""Errors that the code that reads and writes files finds itself, without the server.

chronolake.errors.ChronolakeError
└── LocalError
    ├── SchemaMismatch        the columns do not fit the table
    ├── InvalidRecordKey      a row's record key is missing or ambiguous
    ├── InvalidPartitionValue a row's value cannot be in the table's partition paths
    ├── RequiredValueMissing  null in a column that is not nullable
    ├── InvalidText           a string is not UTF-8
    ├── InvalidOrderingValue  a value by which readers of a merge-on-read table would not show the row
    ├── DuplicateKeys         an insert has keys that exist already
    ├── TableMismatch         the table has another definition than the request
    ├── SourceUnreadable      files to ingest are missing or cannot be read
    ├── SourceChanged         files to ingest changed after or while they were loaded
    ├── AttemptGivenUp        an attempt of a task was stopped before its end
    ├── RecordIndexDamaged    a file of the record index is missing or cannot be read
    ├── BaseFileDamaged       a base file in storage is not as on the timeline
    ├── LogFileDamaged        a log file in storage is not as on the timeline
    └── LogFileUnsupported    a log file has, or would need, a form that is not read or written
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from chronolake.errors import ChronolakeError
from chronolake_model.problems import Problem

_STATUS = 422


class LocalError(ChronolakeError):
    """A failure that the caller can act upon; ``code`` is stable, ``context`` is for programs.

    ``problem`` has the same form as that of an error of the server.
    """

    CODE: ClassVar[str] = "local-error"

    def __init__(self, detail: str, context: Mapping[str, Any] | None = None) -> None:
        title = self.CODE.replace("-", " ").capitalize()
        super().__init__(
            detail, Problem("about:blank", title, _STATUS, self.CODE, detail, context=dict(context or {}))
        )


class SchemaMismatch(LocalError):
    """Rows lack columns of the table, or have others, or of another type; or the table has no such column."""

    CODE = "schema-mismatch"


class BaseFileDamaged(LocalError):
    """A base file is missing in storage, or has another size than the timeline says."""

    CODE = "base-file-damaged"


class LogFileDamaged(LocalError):
    """A log file is missing in storage, has another size than the timeline says, or cannot be read."""

    CODE = "log-file-damaged"


class LogFileUnsupported(LocalError):
    """A log file has blocks that are not read here, or cannot hold what was to be written."""

    CODE = "log-file-unsupported"


class InvalidRecordKey(LocalError):
    """A row's record key is null, empty, or ambiguous."""

    CODE = "invalid-record-key"


class InvalidPartitionValue(LocalError):
    """A row has a value in a partition field that the spelling of the table's partition paths cannot have."""

    CODE = "invalid-partition-value"


class RequiredValueMissing(LocalError):
    """A row is null in a column that the table declares as not nullable."""

    CODE = "required-value-missing"


class InvalidText(LocalError):
    """A string is not UTF-8: Spark would store it, but no other reader would read the file."""

    CODE = "invalid-text"


class InvalidOrderingValue(LocalError):
    """An ordering value of a merge-on-read table by which readers would not show the row that was written.

    NaN and -0.0, which readers order differently; or a value smaller than that of a delete of the record, in a
    statement that moves the record where this delete is.
    """

    CODE = "invalid-ordering-value"


class DuplicateKeys(LocalError):
    """An insert has keys that the table, or an earlier row of the write, has already."""

    CODE = "duplicate-keys"


class RecordIndexDamaged(LocalError):
    """A file of the record index is missing in storage, or cannot be read. The table itself is not affected."""

    CODE = "record-index-damaged"


class AttemptGivenUp(LocalError):
    """The file of an attempt counts as deleted: another attempt won, or the write was rolled back."""

    CODE = "attempt-given-up"


class TableMismatch(LocalError):
    """The table has another definition than the request, or is of a kind that this release does not write."""

    CODE = "table-mismatch"


class SourceUnreadable(LocalError):
    """The files to ingest are missing, too large for the engine, or not readable as what they seem to be."""

    CODE = "source-unreadable"


class SourceChanged(LocalError):
    """The rows to write changed meanwhile.

    Files changed while they were loaded or later, and the table has no ordering field to find older rows; or a
    frame gave other rows when Spark computed it again.
    """

    CODE = "source-changed"
