"""Data files: what a writer may say of them, and when two writers of one file group conflict."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from uuid import UUID

import msgspec

from chronolake_metastore import errors
from chronolake_metastore.domain.tables import Table
from chronolake_model.file_names import FileKind, bucket_file_id, bucket_of, parse_file_name
from chronolake_model.files import WriteStat
from chronolake_model.instants import WriteSummary
from chronolake_model.times import Micros, format_time
from chronolake_model.vocabulary import TableType

PATH_BYTES_MAX = 1_024
"""Object stores take no longer names, and PostgreSQL no longer keys of an index."""
CONFLICTS_NAMED_MAX = 100
"""File groups that a conflict names; it may have more."""


class FileGroup(msgspec.Struct, frozen=True):
    """A file group of a table."""

    table_id: UUID
    partition_path: str
    file_id: str


class BaseFile(msgspec.Struct, frozen=True):
    """The times of the instant that wrote the base file of a file group's latest slice."""

    requested_time: Micros
    completion_time: Micros


BaseFiles = Mapping[FileGroup, BaseFile]
"""The latest base file of each file group that a group of commands touches."""


def check(table: Table, requested_time: str, stats: Sequence[WriteStat]) -> None:
    """Raise ``InvalidWriteStat`` unless each stat fits the instant, the table and its neighbours."""
    seen: set[tuple[str, str]] = set()
    bases: set[tuple[str, str]] = set()
    for index, stat in enumerate(stats):
        kind = _check_one(table, requested_time, index, stat)
        _check_new(index, stat, "file", (stat.partition_path, stat.file_name), seen)
        if kind is FileKind.BASE:
            _check_new(index, stat, "base file of a group", (stat.partition_path, stat.file_id), bases)


def refuse_conflicts(
    table: Table, requested_time: Micros, stats: Sequence[WriteStat], base_files: BaseFiles
) -> None:
    """Raise ``WriteConflict`` when another instant published a base file of the same group after we began.

    The first to complete wins: whoever began before that could not have read what the winner wrote. Log
    files only add to a group and never conflict.
    """
    lost = []
    winner: BaseFile | None = None
    for stat in stats:
        if kind_of(stat) is FileKind.LOG:
            continue
        base = base_files.get(FileGroup(table.table_id, stat.partition_path, stat.file_id))
        if base is not None and base.completion_time > requested_time:
            lost.append({"partition_path": stat.partition_path, "file_id": stat.file_id})
            if winner is None or base.completion_time > winner.completion_time:
                winner = base
    if winner is None:
        return
    tick = table.definition.tick
    won_at = format_time(winner.requested_time, tick)
    raise errors.WriteConflict(
        f"the instant {won_at} wrote {len(lost)} of the same file group(s) of {table.name!r} and completed "
        "first; roll back, read the table again and write again",
        winner=won_at,
        rebase_on=format_time(winner.completion_time, tick),
        file_groups=lost[:CONFLICTS_NAMED_MAX],
        file_groups_in_common=len(lost),
    )


def kind_of(stat: WriteStat) -> FileKind:
    """Whether the stat, which was checked, is of a base file or of a log file."""
    return FileKind.LOG if stat.file_name.startswith(".") else FileKind.BASE


def summarise(stats: Sequence[WriteStat]) -> WriteSummary:
    """The totals over ``stats``."""
    return WriteSummary(
        files=len(stats),
        size_bytes=sum(stat.size_bytes for stat in stats),
        records=sum(stat.records for stat in stats),
        inserts=sum(stat.inserts for stat in stats),
        updates=sum(stat.updates for stat in stats),
        deletes=sum(stat.deletes for stat in stats),
    )


def digest(stats: Sequence[WriteStat]) -> str:
    """SHA-256, in hex, over the stats in their order: what seals them into the event's hash."""
    return hashlib.sha256(msgspec.json.encode(stats)).hexdigest()


class Digest:
    """``digest`` of stats that come one by one."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256(b"[")
        self.files = 0

    def add(self, stat: WriteStat) -> None:
        """Take in the next stat."""
        self._hash.update(b"," + msgspec.json.encode(stat) if self.files else msgspec.json.encode(stat))
        self.files += 1

    def hexdigest(self) -> str:
        """The digest of the stats so far."""
        whole = self._hash.copy()
        whole.update(b"]")
        return whole.hexdigest()


def _check_one(table: Table, requested_time: str, index: int, stat: WriteStat) -> FileKind:
    try:
        name = parse_file_name(stat.file_name)
    except ValueError as exc:
        raise _invalid(index, stat, str(exc)) from exc
    if name.requested_time != requested_time:
        raise _invalid(index, stat, f"the name says instant {name.requested_time}, not {requested_time}")
    if name.file_id != stat.file_id:
        raise _invalid(index, stat, f"the name says file id {name.file_id!r}, not {stat.file_id!r}")
    if name.kind is FileKind.LOG and table.definition.type is TableType.COPY_ON_WRITE:
        raise _invalid(index, stat, "a copy-on-write table has no log files")
    parts = stat.partition_path.split("/") if stat.partition_path else []
    if any(part in ("", ".", "..") for part in parts):
        raise _invalid(index, stat, "the partition path must be relative, without empty, '.' or '..' parts")
    if len(f"{stat.partition_path}/{stat.file_name}".encode()) > PATH_BYTES_MAX:
        raise _invalid(index, stat, f"partition path and file name have more than {PATH_BYTES_MAX} bytes")
    if len(parts) != len(table.definition.partition_fields):
        raise _invalid(index, stat, "the partition path has one part for each partition field")
    if parts[:1] == [".hoodie"] or any(char < " " or char in "\\\x7f" for char in stat.partition_path):
        raise _invalid(index, stat, "the partition path has a control character, a backslash, or is .hoodie")
    _check_bucket(table, index, stat)
    return name.kind


def _check_bucket(table: Table, index: int, stat: WriteStat) -> None:
    buckets = table.definition.index.buckets
    try:
        bucket = bucket_of(stat.file_id)
    except ValueError:
        bucket = buckets
    if 0 <= bucket < buckets and stat.file_id != bucket_file_id(bucket):
        # Two file groups of one bucket would hide two writers of one record from each other.
        raise _invalid(index, stat, f"the file id of bucket {bucket} is {bucket_file_id(bucket)}")
    if not 0 <= bucket < buckets:
        raise _invalid(
            index,
            stat,
            f"a file id begins with its bucket in eight digits, 0 to {buckets - 1}, not {stat.file_id!r}",
        )


def _check_new(
    index: int, stat: WriteStat, what: str, key: tuple[str, str], seen: set[tuple[str, str]]
) -> None:
    if key in seen:
        raise _invalid(index, stat, f"the same {what} is reported twice")
    seen.add(key)


def _invalid(index: int, stat: WriteStat, why: str) -> errors.InvalidWriteStat:
    return errors.InvalidWriteStat(
        f"write_stats[{index}]: {why}",
        index=index,
        file_name=stat.file_name,
        partition_path=stat.partition_path,
    )
