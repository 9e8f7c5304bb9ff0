"""Published data files as a projection of the log: each with the time that it was in the latest slice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

import msgspec

from chronolake_metastore.domain.changes import PublishedFiles
from chronolake_metastore.store.postgres import statements
from chronolake_metastore.store.postgres.pooled import Connection
from chronolake_metastore.store.postgres.transaction import Statement
from chronolake_model.file_names import FileKind
from chronolake_model.times import Micros

_PROJECT: Final = statements.load("files/insert")
_SUPERSEDE: Final = statements.load("files/supersede")
_SNAPSHOT: Final = statements.load("files/snapshot")
_NTH_GROUP: Final = statements.load("files/find_nth_group")
_CHANGED_GROUPS: Final = statements.load("files/page_of_changed_groups")
_GROUP_FILES: Final = statements.load("files/files_of_groups")

GroupKey = tuple[str, str]
"""Partition path and file id: a file group within its table, and the order of pages."""
FIRST: Final[GroupKey] = ("", "")
"""Before all file groups."""


class FileOfInstant(msgspec.Struct, frozen=True):
    """A published data file of a table."""

    partition_path: str
    file_id: str
    file_name: str
    kind: FileKind
    size_bytes: int
    records: int
    requested_time: Micros
    completion_time: Micros
    schema_version: int
    has_field_ids: bool

    @property
    def group(self) -> GroupKey:
        """The file group that the file belongs to."""
        return self.partition_path, self.file_id


def project(publications: Sequence[PublishedFiles]) -> list[Statement]:
    """Show the files of these publications, and take out of the latest slices what they supersede."""
    parameters = {
        name: [getattr(publication, name) for publication in publications]
        for name in ("table_id", "version", "requested_time", "completion_time")
    }
    groups = {name: parameters[name] for name in ("table_id", "version")}
    return [(_PROJECT, parameters), (_SUPERSEDE, groups)]


async def snapshot(
    connection: Connection,
    table_id: UUID,
    as_of: Micros,
    partition_path: str | None,
    after: GroupKey,
    groups: int,
    kind: FileKind | None = None,
) -> list[FileOfInstant]:
    """The files of the first ``groups`` file groups after ``after`` that were live as of a completion time.

    Only those of a ``kind``, if one is given, and of groups that have such.
    """
    paths = None if partition_path is None else [partition_path]
    last = await nth_group(connection, table_id, as_of, paths, after, groups, kind)
    rows = await connection.execute(
        _SNAPSHOT,
        {
            "table_id": table_id,
            "as_of": as_of,
            "partition_path": partition_path,
            "after_partition": after[0],
            "after_file_id": after[1],
            "last_partition": None if last is None else last[0],
            "last_file_id": None if last is None else last[1],
            "kind": kind,
        },
    )
    return [FileOfInstant(*row) for row in rows]


async def nth_group(
    connection: Connection,
    table_id: UUID,
    as_of: Micros,
    partition_paths: Sequence[str] | None,
    after: GroupKey,
    nth: int,
    kind: FileKind | None = None,
) -> GroupKey | None:
    """The ``nth`` file group after ``after`` that was live as of a completion time; None if there are fewer."""
    rows = await connection.execute(
        _NTH_GROUP,
        {
            "table_id": table_id,
            "as_of": as_of,
            "partition_paths": None if partition_paths is None else list(partition_paths),
            "after_partition": after[0],
            "after_file_id": after[1],
            "nth": nth,
            "kind": kind,
        },
    )
    row = rows.one_or_none()
    return None if row is None else (row[0], row[1])


async def changed_groups(
    connection: Connection, table_id: UUID, between: tuple[Micros, Micros], after: GroupKey, groups: int
) -> list[GroupKey]:
    """The first ``groups`` file groups after ``after`` written to by completions in a range (from, to]."""
    rows = await connection.execute(
        _CHANGED_GROUPS,
        {
            "table_id": table_id,
            "after": between[0],
            "until": between[1],
            "after_partition": after[0],
            "after_file_id": after[1],
            "groups": groups,
        },
    )
    return [(partition_path, file_id) for partition_path, file_id in rows]


async def files_of(
    connection: Connection, table_id: UUID, groups: Sequence[GroupKey], as_of: Micros
) -> list[FileOfInstant]:
    """The files that ``groups`` had in their slices as of a completion time."""
    rows = await connection.execute(
        _GROUP_FILES,
        {
            "table_id": table_id,
            "as_of": as_of,
            "partition_paths": [partition_path for partition_path, _ in groups],
            "file_ids": [file_id for _, file_id in groups],
        },
    )
    return [FileOfInstant(*row) for row in rows]
