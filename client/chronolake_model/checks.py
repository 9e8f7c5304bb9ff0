"""The report of ``chronolake check``: the files of a table compared with its timeline and with each other."""

from __future__ import annotations

import enum

import msgspec


class FindingKind(enum.StrEnum):
    """A defect of a file, or of records in it."""

    MISSING_FILE = "missing-file"
    """The snapshot names the file, and storage does not have it."""
    WRONG_SIZE = "wrong-size"
    """The file has another size than on the timeline: it was overwritten or cut off."""
    UNREADABLE_FILE = "unreadable-file"
    """The file is no whole Parquet file."""
    WRONG_NAME = "wrong-name"
    """The name says another instant, file group or folder than the timeline."""
    WRONG_RECORD_COUNT = "wrong-record-count"
    """The file has more or fewer records than on the timeline."""
    MISSING_COLUMN = "missing-column"
    """The file lacks a column of the schema that it was written with, or one of Hudi's five."""
    WRONG_TYPE = "wrong-type"
    """A column has another type than the schema says, or a value that the type cannot hold."""
    INVALID_TEXT = "invalid-text"
    """Records with a string that is not UTF-8: hudi-rs, Arrow and lookups fail at the file. See
    [Strings](../spark.md#strings)."""
    WRONG_FIELD_ID = "wrong-field-id"
    """A column or nested field has another field id than the schema says, or none although others have one."""
    NO_RECORD_KEY = "no-record-key"
    """Records whose key fields give no key: null, empty or ambiguous."""
    WRONG_RECORD_KEY = "wrong-record-key"
    """``_hoodie_record_key`` is not the text of the key fields."""
    WRONG_BUCKET = "wrong-bucket"
    """Records whose key belongs to another bucket than the file's."""
    DUPLICATE_KEY = "duplicate-key"
    """Records whose key is in the partition twice."""
    WRONG_PARTITION = "wrong-partition"
    """Records whose partition fields name another folder than the one that they are in."""
    WRONG_COMMIT_TIME = "wrong-commit-time"
    """``_hoodie_commit_time`` is of no instant that had completed, or later than the file's own."""
    WRONG_COMMIT_SEQNO = "wrong-commit-seqno"
    """``_hoodie_commit_seqno`` is not ``<commit time>_<number>_<number>``, or twice in a file."""
    WRONG_PARTITION_PATH = "wrong-partition-path"
    """``_hoodie_partition_path`` is not the file's folder."""
    WRONG_FILE_NAME = "wrong-file-name"
    """``_hoodie_file_name`` is not the file's name."""
    FOREIGN_FILE = "foreign-file"
    """The file is an orphan, unless a pending instant accounts for it. ``chronolake finish-rollbacks``
    deletes files of pending rollbacks, ``chronolake orphans --delete`` other orphans."""
    FOREIGN_HUDI_FILE = "foreign-hudi-file"
    """A file in ``.hoodie`` that no publisher wrote: it comes from a
    [writer of Hudi](../concepts/hudi.md#writers-of-hudi)."""
    FOREIGN_CLAIM = "foreign-claim"
    """The claim of the base path is of another metastore, such as
    [a copy that was claimed](../backups.md#a-server-that-only-reads): ``.hoodie`` was not compared."""
    WRONG_HUDI_FILE = "wrong-hudi-file"
    """A file of the publication for Hudi's readers is missing, was changed, or exists again after it was
    removed; or ``hoodie.properties`` shows a hidden table."""


AWAITS_ROLLBACK = "rolled-back, and its rollback has yet to delete it"
"""The example of a foreign file that a pending rollback will delete."""


class Finding(msgspec.Struct, frozen=True):
    """One kind of defect of one file."""

    kind: FindingKind
    path: str
    """The file, relative to the table's base path."""
    records: int
    """How many records have the defect; 0 when it is of the file itself."""
    examples: list[str]
    """Three at most, in words."""


class FindingTotal(msgspec.Struct, frozen=True):
    """How many findings of a kind there are, and records in them."""

    kind: FindingKind
    findings: int
    records: int


class CheckResult(msgspec.Struct, frozen=True):
    """A table as of a completion time, checked; ``as_of`` is null when nothing had completed.

    ``findings`` are bounded, ``totals`` count all. ``not_covered`` says in words what was not read.
    """

    table: str
    as_of: str | None
    files: int
    files_read: int
    records: int
    totals: list[FindingTotal]
    findings: list[Finding]
    not_covered: list[str]
