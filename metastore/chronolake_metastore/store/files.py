"""Published data files as a projection of the log: each with the time that it was in the latest slice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final
from uuid import UUID

import msgspec
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from chronolake_metastore.domain.files import BaseFile, FileGroup
from chronolake_metastore.store import statements
from chronolake_metastore.store.transaction import Rows, Statement
from chronolake_model.file_names import FileKind
from chronolake_model.names import split_table_name
from chronolake_model.times import Micros

_FIND_BASES: Final = statements.load("find_base_files")
_PROJECT: Final = statements.load("project_files")
_SUPERSEDE: Final = statements.load("supersede_files")
_SNAPSHOT: Final = text(statements.load("snapshot"))
_CHANGED_GROUPS: Final = text(statements.load("changed_groups"))
_GROUP_FILES: Final = text(statements.load("group_files"))

GroupKey = tuple[str, str]
"""Partition path and file id: a file group within its table, and the order of pages."""


class Publication(msgspec.Struct, frozen=True):
    """An event that published the files of an instant."""

    table_id: UUID
    version: int
    requested_time: Micros
    completion_time: Micros


class PublishedFile(msgspec.Struct, frozen=True):
    """A published data file of a table."""

    partition_path: str
    file_id: str
    file_name: str
    kind: FileKind
    size_bytes: int
    records: int
    requested_time: Micros
    completion_time: Micros

    @property
    def group(self) -> GroupKey:
        """The file group that the file belongs to."""
        return self.partition_path, self.file_id


def find_base_files(named: Iterable[tuple[str, str, str]]) -> Statement | None:
    """Look for the latest base file of file groups, by table name, partition path and file id."""
    keys = [(*split_table_name(table), partition, file_id) for table, partition, file_id in sorted(set(named))]
    if not keys:
        return None
    return _FIND_BASES, {
        "namespaces": [key[0] for key in keys],
        "tables": [key[1] for key in keys],
        "partition_paths": [key[2] for key in keys],
        "file_ids": [key[3] for key in keys],
    }


def found_base_files(rows: Rows) -> dict[FileGroup, BaseFile]:
    """The latest base file by file group."""
    return {
        FileGroup(table_id, partition_path, file_id): BaseFile(Micros(requested), Micros(completion))
        for table_id, partition_path, file_id, requested, completion in rows
    }


def project(publications: Sequence[Publication]) -> list[Statement]:
    """Show the files of these publications, and take out of the latest slices what they supersede."""
    parameters = {
        name: [getattr(publication, name) for publication in publications]
        for name in ("table_id", "version", "requested_time", "completion_time")
    }
    groups = {name: parameters[name] for name in ("table_id", "version")}
    return [(_PROJECT, parameters), (_SUPERSEDE, groups)]


async def snapshot(
    connection: AsyncConnection,
    table_id: UUID,
    as_of: Micros,
    partition_path: str | None,
    after: GroupKey,
    groups: int,
) -> list[PublishedFile]:
    """The files of the first ``groups`` file groups behind ``after`` that were live as of a completion time."""
    rows = await connection.execute(
        _SNAPSHOT,
        {
            "table_id": table_id,
            "as_of": as_of,
            "partition_path": partition_path,
            "after_partition": after[0],
            "after_file_id": after[1],
            "groups": groups,
        },
    )
    return [PublishedFile(*row) for row in rows]


async def changed_groups(
    connection: AsyncConnection, table_id: UUID, between: tuple[Micros, Micros], after: GroupKey, groups: int
) -> list[GroupKey]:
    """The first ``groups`` file groups behind ``after`` written to by completions in a range (from, to]."""
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
    connection: AsyncConnection, table_id: UUID, groups: Sequence[GroupKey], as_of: Micros
) -> list[PublishedFile]:
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
    return [PublishedFile(*row) for row in rows]
