"""File groups as of a time: their published files, their replacement, the pending plans."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeAlias
from uuid import UUID

import msgspec

from chronolake_metastore.domain.actions import begun_as
from chronolake_metastore.domain.slices import Replacement
from chronolake_metastore.store.files import FileOfInstant, GroupKey
from chronolake_metastore.store.postgres import statements
from chronolake_metastore.store.postgres.pooled import Connection
from chronolake_model.file_names import GENERATION_MAX, bucket_file_id, bucket_prefix
from chronolake_model.files import FileGroupName
from chronolake_model.slices import BucketName
from chronolake_model.times import Micros
from chronolake_model.vocabulary import Action, Operation

_PENDING: Final = statements.load("slices/pending_groups")
_COMPACTIONS: Final = statements.load("slices/pending_compactions")
_REPLACED: Final = statements.load("slices/replaced_groups")
_REPLACEMENT: Final = statements.load("slices/replacement_of_group")
_HISTORY: Final = statements.load("slices/history_of_group")
_GROUPS_BEFORE_OR_ON: Final = statements.load("slices/groups_before_or_on")
_FILES_BEFORE_OR_ON: Final = statements.load("slices/files_before_or_on")
_FILES_OF_GROUPS: Final = statements.load("slices/files_of_groups")
_LAST_REPLACED: Final = statements.load("slices/last_replaced_of_buckets")
_FILE_ID_LENGTH_MAX: Final = 255


class AsOf(msgspec.Struct, frozen=True):
    """A table as of a time."""

    table_id: UUID
    as_of: Micros


GroupName: TypeAlias = FileGroupName | BucketName
"""Name of a file group of a table: its file id, or, with a bucket index, its bucket."""


class PendingGroup(msgspec.Struct, frozen=True):
    """A file group in the plan of a table service that is pending; ``action`` is the one that was begun."""

    group: GroupKey
    requested_time: Micros
    action: Action


class ReplacedGroup(msgspec.Struct, frozen=True):
    """A replaced file group, and the instant that replaced it."""

    group: GroupKey
    replacement: Replacement
    action: Action
    operation: Operation


async def pending(connection: Connection, at: AsOf, after: GroupKey, groups: int) -> list[PendingGroup]:
    """The first ``groups`` file groups after ``after`` for which a table service was pending."""
    rows = await connection.execute(_PENDING, _of(at) | _after(after) | {"groups": groups})
    return [
        PendingGroup((partition, file_id), Micros(requested), begun_as(Action(action), Operation(operation)))
        for partition, file_id, requested, action, operation in rows
    ]


async def pending_compactions(
    connection: Connection, at: AsOf, groups: Sequence[GroupKey]
) -> dict[GroupKey, list[Micros]]:
    """The requested times of the compactions of ``groups`` that were pending, by file group."""
    by_group: dict[GroupKey, list[Micros]] = defaultdict(list)
    rows = await connection.execute(_COMPACTIONS, _of(at) | _named(groups))
    for partition_path, file_id, requested_time in rows:
        by_group[partition_path, file_id].append(Micros(requested_time))
    return by_group


async def replaced(connection: Connection, at: AsOf, after: GroupKey, groups: int) -> list[ReplacedGroup]:
    """The first ``groups`` file groups after ``after`` that had been replaced."""
    rows = await connection.execute(_REPLACED, _of(at) | _after(after) | {"groups": groups})
    return _replaced_groups(rows)


async def replacement(connection: Connection, at: AsOf, group: GroupKey) -> ReplacedGroup | None:
    """The replacement of a file group; None if it had not been replaced."""
    replacements = _replaced_groups(await connection.execute(_REPLACEMENT, _of(at) | _one(group)))
    assert len(replacements) <= 1, "a file group is replaced once"
    return replacements[0] if replacements else None


async def history(
    connection: Connection, at: AsOf, group: GroupKey
) -> tuple[list[FileOfInstant], set[FileOfInstant]]:
    """The files that a file group had published, and those among them that cleans have planned to delete.

    Rows of cleaned files may have left PostgreSQL.
    """
    rows = await connection.execute(_HISTORY, _of(at) | _one(group))
    files = [(FileOfInstant(*row[:-1]), row[-1]) for row in rows]
    return [file for file, _ in files], {file for file, is_cleaned in files if is_cleaned}


async def groups_before_or_on(
    connection: Connection,
    at: AsOf,
    before_or_on: Micros,
    partition_path: str | None,
    after: GroupKey,
    groups: int,
) -> list[GroupKey]:
    """The first ``groups`` file groups after ``after`` that may have slices of a time or before.

    Without those that had been replaced by an instant requested by then.
    """
    parameters = {"before_or_on": before_or_on, "partition_path": partition_path, "groups": groups}
    rows = await connection.execute(_GROUPS_BEFORE_OR_ON, _of(at) | _after(after) | parameters)
    return [(partition, file_id) for partition, file_id in rows]


async def files_before_or_on(
    connection: Connection, at: AsOf, before_or_on: Micros, groups: Sequence[GroupKey]
) -> list[FileOfInstant]:
    """The newest base file of a time or before of each of ``groups``, and the logs up to the next base file."""
    parameters = _of(at) | _named(groups) | {"before_or_on": before_or_on}
    rows = await connection.execute(_FILES_BEFORE_OR_ON, parameters)
    return [FileOfInstant(*row) for row in rows]


async def files_of(
    connection: Connection, at: AsOf, names: Sequence[GroupName]
) -> dict[GroupName, list[FileOfInstant]]:
    """The files in the slices of file groups, base file first, then the log files by completion time."""
    by_name: dict[GroupName, list[FileOfInstant]] = defaultdict(list)
    for kind, length in ((FileGroupName, _FILE_ID_LENGTH_MAX), (BucketName, len(bucket_prefix(0)))):
        of_kind = [name for name in names if isinstance(name, kind)]
        if not of_kind:
            continue
        parameters = {
            "partition_paths": [name.partition_path for name in of_kind],
            "prefixes": [
                bucket_prefix(name.bucket) if isinstance(name, BucketName) else name.file_id for name in of_kind
            ],
            "prefix_length": length,
        }
        rows = await connection.execute(_FILES_OF_GROUPS, _of(at) | parameters)
        for number, *columns in rows:
            by_name[of_kind[number - 1]].append(FileOfInstant(*columns))
    return by_name


async def last_replaced(
    connection: Connection, at: AsOf, buckets: Sequence[BucketName]
) -> dict[BucketName, str]:
    """The file id of the last file group of each bucket that was replaced, if there was one."""
    if not buckets:
        return {}
    parameters = {
        "partition_paths": [bucket.partition_path for bucket in buckets],
        "firsts": [bucket_file_id(bucket.bucket) for bucket in buckets],
        "lasts": [bucket_file_id(bucket.bucket, GENERATION_MAX) for bucket in buckets],
    }
    rows = await connection.execute(_LAST_REPLACED, _of(at) | parameters)
    return {buckets[number - 1]: file_id for number, file_id in rows}


def _replaced_groups(rows: Iterable[Sequence[Any]]) -> list[ReplacedGroup]:
    return [
        ReplacedGroup(
            (partition_path, file_id),
            Replacement(Micros(requested), Micros(completed)),
            Action(action),
            Operation(operation),
        )
        for partition_path, file_id, requested, completed, action, operation in rows
    ]


def _of(at: AsOf) -> dict[str, object]:
    return msgspec.structs.asdict(at)


def _one(group: GroupKey) -> dict[str, object]:
    return {"partition_path": group[0], "file_id": group[1]}


def _after(after: GroupKey) -> dict[str, object]:
    return {"after_partition": after[0], "after_file_id": after[1]}


def _named(groups: Sequence[GroupKey]) -> dict[str, object]:
    return {
        "partition_paths": [partition_path for partition_path, _ in groups],
        "file_ids": [file_id for _, file_id in groups],
    }
