"""Deleted files: rows of the log, under the events that reported them (docs/decisions/0016)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final
from uuid import UUID

import msgspec

from chronolake_metastore.domain.changes import ReportedFiles
from chronolake_metastore.store.markers import InstantRef
from chronolake_metastore.store.postgres import statements
from chronolake_metastore.store.postgres.pooled import Connection
from chronolake_metastore.store.postgres.transaction import Query, Rows, Statement
from chronolake_model.file_names import parse_file_name
from chronolake_model.marker_names import DeletedFile
from chronolake_model.names import split_table_name
from chronolake_model.times import Micros

_FIND_UNMARKED: Final = statements.load("deletions/find_unmarked_files")
_FIND_PUBLISHED: Final = statements.load("deletions/find_published_files")
_APPEND: Final = statements.load("deletions/append")
_PAGE: Final = statements.load("deletions/page")
_REPORTED: Final = statements.load("deletions/find_reported_files")
_UNSWEPT: Final = statements.load("deletions/page_of_unpublished")
_HAS_LEFT: Final = """
    SELECT NOT EXISTS (SELECT FROM event WHERE table_id = %(table_id)s::uuid AND version = %(version)s)
"""

FIRST: Final = DeletedFile("", "")
"""Before all files of an instant."""


def unmarked(table: str, requested_time: Micros, files: Sequence[DeletedFile]) -> Query[list[DeletedFile]]:
    """The files of ``files`` that were never marked by the instant, or by the target of a rollback."""
    namespace, name = split_table_name(table)
    named = {"namespace": namespace, "name": name, "requested_time": requested_time}
    return Query(_FIND_UNMARKED, named | _columns(files), _files)


def published(
    of: InstantRef, files: Sequence[DeletedFile], *, withdrawn: bool = True
) -> Query[list[DeletedFile]]:
    """The files of ``files`` that the instant has published; files that are not data files never are.

    With ``withdrawn``, those of an instant that a restore has undone too.
    """
    named = [(file, file_id) for file in files if (file_id := _file_id(file)) is not None]
    columns = _columns([file for file, _ in named]) | {
        "file_ids": [file_id for _, file_id in named],
        "withdrawn": withdrawn,
    }
    return Query(_FIND_PUBLISHED, msgspec.structs.asdict(of) | columns, _files)


def has_left(table_id: UUID, version: int) -> Query[bool]:
    """Whether the event that ended an instant is in the archive of the log alone."""
    return Query(_HAS_LEFT, {"table_id": table_id, "version": version}, lambda rows: bool(rows[0][0]))


def _files(rows: Rows) -> list[DeletedFile]:
    return [DeletedFile(*row) for row in rows]


async def reported(connection: Connection, of: InstantRef, files: Collection[DeletedFile]) -> list[DeletedFile]:
    """The files of ``files`` that were reported deleted of an instant."""
    rows = await connection.execute(_REPORTED, msgspec.structs.asdict(of) | _columns(list(files)))
    return [DeletedFile(*row) for row in rows]


def append(deleted: ReportedFiles) -> Statement:
    """Append the files of one report; their markers go."""
    return _APPEND, {
        "table_id": deleted.table_id,
        "version": deleted.version,
        "requested_time": deleted.marked_by,
        **_columns(deleted.files),
    }


async def page(
    connection: Connection, of: InstantRef, after: DeletedFile, files: int, *, unpublished: bool = False
) -> list[DeletedFile]:
    """The first ``files`` after ``after`` of the files that were reported deleted of an instant.

    If ``unpublished``, without those that it has published after all.
    """
    behind = {"after_partition": after.partition_path, "after_file": after.file_name, "files": files}
    rows = await connection.execute(_UNSWEPT if unpublished else _PAGE, msgspec.structs.asdict(of) | behind)
    return [DeletedFile(*row) for row in rows]


def _file_id(file: DeletedFile) -> str | None:
    """The file group that a file belongs to by its name; none when the name is not a data file's."""
    try:
        return parse_file_name(file.file_name).file_id
    except ValueError:
        return None


def _columns(files: Sequence[DeletedFile]) -> dict[str, object]:
    return {
        "partition_paths": [file.partition_path for file in files],
        "file_names": [file.file_name for file in files],
    }
