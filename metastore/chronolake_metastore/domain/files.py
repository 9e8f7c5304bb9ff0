"""Data files, as writers report them."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Final
from uuid import UUID

import msgspec

from chronolake_metastore import errors
from chronolake_metastore.domain import column_stats, lists
from chronolake_metastore.domain.column_stats import Columns
from chronolake_metastore.domain.tables import Table
from chronolake_model import file_names
from chronolake_model.file_names import (
    PATH_BYTES_MAX,
    FileKind,
    bucket_file_id,
    bucket_of,
    generation_of,
    parse_file_name,
)
from chronolake_model.files import FileGroupName, WriteStat
from chronolake_model.partition_paths import HIVE_STYLE_PROPERTY, Spelling, are_kept, escape
from chronolake_model.vocabulary import IndexType, TableType, Touch, WriteSummary


class FileGroup(msgspec.Struct, frozen=True):
    """A file group of a table."""

    table_id: UUID
    partition_path: str
    file_id: str


digest = lists.digest
Digest = lists.Digest

Touched = tuple[Touch, FileGroupName]
"""A file group, and how it was written."""


class Staged(msgspec.Struct, frozen=True):
    """The facts that completing an instant needs about its staged write stats.

    ``chunks`` are their totals by the version that staged them. ``touched`` are only those of their file groups
    that other instants may have changed since, or that must be checked. ``repeated`` has an example of each
    kind of duplicate: a file, or a base file of a file group.
    """

    chunks: Mapping[int, WriteSummary] = {}
    touched: Sequence[Touched] = ()
    repeated: Sequence[tuple[str, str, str]] = ()


NOTHING_STAGED: Final = Staged()
_counts: Final = attrgetter("size_bytes", "records", "inserts", "updates", "deletes")


def check(table: Table, requested_time: str, stats: Sequence[WriteStat], *, is_adopted: bool = False) -> None:
    """Raise ``InvalidWriteStat`` unless each stat fits the instant, the table and its neighbours.

    With ``is_adopted`` a log file may have an earlier time in its name, as in table version 6: that of its base
    file.
    """
    has_columns = any(stat.column_stats for stat in stats)
    columns = column_stats.columns_of(table) if has_columns else None
    seen: set[tuple[str, str]] = set()
    bases: set[tuple[str, str]] = set()
    for index, stat in enumerate(stats):
        kind = _check_one(table, requested_time, index, stat, is_adopted=is_adopted)
        if columns is not None:
            _check_columns(columns, index, stat)
        _check_new(index, stat, "file", (stat.partition_path, stat.file_name), seen)
        if kind is FileKind.BASE:
            _check_new(index, stat, "base file of a group", (stat.partition_path, stat.file_id), bases)


def check_staged(versions: Sequence[int], write_stats: Sequence[WriteStat], staged: Staged) -> None:
    """Raise ``InvalidWriteStat`` unless the named ``versions`` were staged, and have each file once."""
    if versions and write_stats:
        raise errors.InvalidWriteStat("staged: the request has write_stats too; stage all write stats, or none")
    if len(set(versions)) < len(versions):
        raise errors.InvalidWriteStat("staged: a version is named twice")
    missing = [version for version in versions if version not in staged.chunks]
    if missing:
        raise errors.InvalidWriteStat(
            f"staged: this instant has no write stats under {len(missing)} of the versions; the first of them "
            f"is {missing[0]}",
            version=missing[0],
        )
    for what, partition_path, name in staged.repeated:
        raise errors.InvalidWriteStat(
            f"staged: the same {what} is reported twice: {name!r}", partition_path=partition_path, name=name
        )


def touches(stats: Sequence[WriteStat]) -> list[Touched]:
    """The file groups that ``stats``, which were checked, write to; each once for each kind of file."""
    return list(
        dict.fromkeys(
            (
                Touch.LOG if kind_of(stat) is FileKind.LOG else Touch.BASE,
                FileGroupName(stat.partition_path, stat.file_id),
            )
            for stat in stats
        )
    )


def kind_of(stat: WriteStat) -> FileKind:
    """Whether the stat, which was checked, is of a base file or of a log file."""
    return FileKind.LOG if stat.file_name.startswith(".") else FileKind.BASE


def summarise(stats: Sequence[WriteStat]) -> WriteSummary:
    """The totals over ``stats``."""
    return WriteSummary(len(stats), *map(sum, zip(*map(_counts, stats), strict=True)))


def total(summaries: Iterable[WriteSummary]) -> WriteSummary:
    """The totals over several of them."""
    sums = map(sum, zip(*map(msgspec.structs.astuple, summaries), strict=True))
    return WriteSummary(*sums)


def _check_one(table: Table, requested_time: str, index: int, stat: WriteStat, *, is_adopted: bool) -> FileKind:
    try:
        name = parse_file_name(stat.file_name)
    except ValueError as exc:
        raise _invalid(index, stat, str(exc)) from exc
    is_after_base = is_adopted and name.kind is FileKind.LOG and name.requested_time < requested_time
    if name.requested_time != requested_time and not is_after_base:
        raise _invalid(index, stat, f"the name says instant {name.requested_time}, not {requested_time}")
    if name.file_id != stat.file_id:
        raise _invalid(index, stat, f"the name says file id {name.file_id!r}, not {stat.file_id!r}")
    if name.kind is FileKind.LOG and table.definition.type is TableType.COPY_ON_WRITE:
        raise _invalid(index, stat, "a copy-on-write table has no log files")
    try:
        file_names.check_partition_path(stat.partition_path)
        check_partition_path(table, stat.partition_path)
    except ValueError as exc:
        raise _invalid(index, stat, str(exc)) from exc
    if len(f"{stat.partition_path}/{stat.file_name}".encode()) > PATH_BYTES_MAX:
        raise _invalid(index, stat, f"partition path and file name have more than {PATH_BYTES_MAX} bytes")
    _check_bucket(table, index, stat)
    return name.kind


def _check_bucket(table: Table, index: int, stat: WriteStat) -> None:
    if table.definition.index.type is not IndexType.BUCKET:
        return
    buckets = table.definition.index.buckets
    try:
        # Raises for a file id that is not of a bucket's file group.
        generation_of(stat.file_id)
        is_of_bucket = bucket_of(stat.file_id) < buckets
    except ValueError:
        is_of_bucket = False
    if not is_of_bucket:
        # Two file groups of one bucket would hide two writers of one record from each other.
        raise _invalid(
            index,
            stat,
            f"a file id begins with its bucket in eight digits, 0 to {buckets - 1}, and counts the groups "
            f"replaced before it, like {bucket_file_id(0)} and {bucket_file_id(0, 1)}; not {stat.file_id!r}",
        )


def _check_columns(columns: Columns, index: int, stat: WriteStat) -> None:
    try:
        column_stats.check(columns, stat)
    except ValueError as exc:
        raise _invalid(index, stat, str(exc)) from exc


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


def check_partition_path(table: Table, partition_path: str) -> None:
    """Raise ``ValueError`` unless the path has a part for each partition field, in the style of the table.

    A writer of another spelling would store a record twice.

    In hive style each part begins with its field's ``name=``; otherwise none does. Whether a value is escaped
    cannot be seen. Paths that are kept have any form.
    """
    definition = table.definition
    if are_kept(definition.properties):
        return
    hive_style = Spelling.of(definition.properties).hive_style
    _check_parts(tuple(definition.partition_fields), partition_path, hive_style=hive_style)


@functools.lru_cache(maxsize=1_024)
def _check_parts(fields: Sequence[str], partition_path: str, *, hive_style: bool) -> None:
    parts = partition_path.split("/") if partition_path else []
    if len(parts) != len(fields):
        raise ValueError("the partition path must have one part for each partition field")
    for field, part in zip(fields, parts, strict=True):
        if part.startswith((f"{field}=", f"{escape(field)}=")) is hive_style:
            continue
        if hive_style:
            raise ValueError(
                f"the part {part[:100]!r} of the partition path must begin with '{field}=': the table has the "
                "names of its partition fields in its paths"
            )
        raise ValueError(
            f"the part {part[:100]!r} of the partition path begins with '{field}=', but the table has values "
            f"without names in its paths ({HIVE_STYLE_PROPERTY} is false), and the record would be stored a "
            "second time; use a writer that follows this property"
        )
