"""The errors of Spark's part of a write or a read, and their way from an executor to the caller.

    chronolake.errors.ChronolakeError
    └── chronolake.slices.errors.LocalError
        ├── SchemaMismatch        a frame's columns do not fit the table
        ├── InvalidRecordKey      a row's record key is missing or ambiguous
        ├── InvalidPartitionValue a row's value cannot be in the table's partition paths
        ├── RequiredValueMissing  null in a column that is not nullable
        ├── InvalidText           a string is not UTF-8
        ├── InvalidOrderingValue  a value by which readers of a merge-on-read table would not show the row
        ├── DuplicateKeys         an insert has keys that exist already
        ├── BaseFileDamaged       a base file in storage is not as on the timeline
        ├── LogFileDamaged        a log file in storage is not as on the timeline
        ├── LogFileUnsupported    a log file has, or would need, a form that is not read or written
        ├── RecordIndexDamaged    a file of the record index is missing or cannot be read
        ├── AttemptGivenUp        an attempt of a task was stopped before its end
        ├── AmbiguousFilter       the text of a filter means other rows in SQL
        ├── InvalidOption         an option of format("chronolake") is wrong
        ├── StreamMismatch        a batch of a stream may be another one than the written one of its id
        ├── StreamBehind          a clean has deleted what a stream has still to read
        ├── TableMismatch         the table has another definition than the request
        ├── ServiceStopped        the execution of a table service was stopped before its end
        ├── SourceUnreadable      files to ingest are missing or cannot be read
        ├── SourceChanged         files to ingest changed after or while they were loaded
        ├── SparkJobFailed        Spark itself failed
        ├── JarNotFound           the Java part of the SQL catalog is not built
        └── JavaNotFound          there is no Java to run Spark on

PySpark turns an exception of a task, or of the committer, into text. So errors for the caller are appended to
that text in an encoded form: ``encoded`` writes it, ``decoded`` reads it.
"""

from __future__ import annotations

import base64
import re

import msgspec

from chronolake.errors import (
    CONNECTION_FAILED,
    STORAGE_FAILED,
    ChronolakeError,
    ConnectionFailed,
    StorageFailed,
    error_of,
)

# All errors that Spark's part raises have a name here.
# ruff: noqa: PLC0414
from chronolake.slices.errors import (
    AttemptGivenUp as AttemptGivenUp,
    BaseFileDamaged as BaseFileDamaged,
    DuplicateKeys as DuplicateKeys,
    InvalidOrderingValue as InvalidOrderingValue,
    InvalidPartitionValue as InvalidPartitionValue,
    InvalidRecordKey as InvalidRecordKey,
    InvalidText as InvalidText,
    LocalError as LocalError,
    LogFileDamaged as LogFileDamaged,
    LogFileUnsupported as LogFileUnsupported,
    RecordIndexDamaged as RecordIndexDamaged,
    RequiredValueMissing as RequiredValueMissing,
    SchemaMismatch as SchemaMismatch,
    SourceChanged as SourceChanged,
    SourceUnreadable as SourceUnreadable,
    TableMismatch as TableMismatch,
)
from chronolake_model import decoding
from chronolake_model.problems import Problem

_ENCODED = re.compile(r"\[chronolake:([A-Za-z0-9_=-]+)\]")


class InvalidOption(LocalError):
    """An option of ``format("chronolake")`` is unknown, missing or wrong, or cannot be used there."""

    CODE = "invalid-option"


class AmbiguousFilter(LocalError):
    """The text of a filter means other rows in Spark's SQL: ``where`` would not read what the filter reads."""

    CODE = "ambiguous-filter"


class StreamMismatch(LocalError):
    """A batch has the id of a written one, and may be another; or a query cannot write such a stream."""

    CODE = "stream-mismatch"


class StreamBehind(LocalError):
    """A clean has deleted what a stream has still to read; ``context`` has the ``first_servable_time``."""

    CODE = "stream-behind"


class ServiceStopped(LocalError):
    """The execution of a table service was stopped before its end. Its plan returns to requested."""

    CODE = "service-stopped"


class FrameOutdated(LocalError):
    """A frame that is to overwrite a table was computed from an earlier state of it."""

    CODE = "frame-outdated"


class SparkJobFailed(LocalError):
    """Spark itself failed, for example because of a file, memory or storage. The message has the cause."""

    CODE = "spark-job-failed"


class JarNotFound(LocalError):
    """The Java part of the SQL catalog is not built."""

    CODE = "jar-not-found"


class JavaNotFound(LocalError):
    """No Java 17 or 21 was found."""

    CODE = "java-not-found"


_BY_CODE = {cls.CODE: cls for cls in LocalError.__subclasses__()}


def encoded(error: ChronolakeError) -> str:
    """The message, followed by the error in base64, which survives any formatting of messages."""
    problem = error.problem or Problem("about:blank", type(error).__name__, 0, error.code, str(error))
    return f"{error} [chronolake:{base64.urlsafe_b64encode(msgspec.json.encode(problem)).decode()}]"


def decoded(text: str) -> ChronolakeError | None:
    """The error that is encoded in ``text``, or None."""
    match = _ENCODED.search(text)
    if match is None:
        return None
    problem = decoding.decode(base64.urlsafe_b64decode(match[1]), Problem)
    if problem.code == CONNECTION_FAILED:
        return ConnectionFailed(problem.detail)
    if problem.code == STORAGE_FAILED:
        return StorageFailed(problem.detail)
    if problem.code in _BY_CODE:
        return _BY_CODE[problem.code](problem.detail, problem.context)
    return error_of(problem)
