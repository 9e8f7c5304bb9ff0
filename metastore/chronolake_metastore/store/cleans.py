"""Facts for cleans: when the files of a table changed, which may be deleted, and which are held."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from chronolake_metastore.domain.changes import CleanedFiles
from chronolake_metastore.domain.cleans import (
    MICROS_PER_HOUR,
    CleanBounds,
    CleanHistory,
    CleanScope,
    FileToClean,
    Retention,
    Undeleted,
    retained_until,
)
from chronolake_metastore.domain.events import Now
from chronolake_metastore.domain.lists import ListEntry
from chronolake_metastore.store import clocks, instants
from chronolake_metastore.store.instants import FoundInstants
from chronolake_metastore.store.postgres import statements
from chronolake_metastore.store.postgres.pooled import Connection
from chronolake_metastore.store.postgres.transaction import Query, Rows, Statement, read
from chronolake_model.file_names import parse_file_name, relative_path
from chronolake_model.names import split_table_name
from chronolake_model.times import Micros, parse_time

_FIND_CLEAN_HISTORY: Final = statements.load("cleans/find_clean_history")
_IS_HELD: Final = statements.load("cleans/is_time_held")
_FIND_PENDING: Final = statements.load("cleans/find_pending")
_FIND_BOUNDS: Final = statements.load("cleans/find_bounds")
_FIND_DELETABLE: Final = statements.load("cleans/find_deletable_files")
_FIND_RETAINED: Final = statements.load("cleans/find_retained")
_COUNT_UNDELETED: Final = statements.load("cleans/count_undeleted_files")
_PROJECT: Final = statements.load("cleans/mark_files_cleaned")


def find_clean_history(table_id: UUID, time: Micros) -> Query[CleanHistory]:
    """When the files of a table last changed by a time, and when anything last completed in it."""
    return Query(_FIND_CLEAN_HISTORY, {"table_id": table_id, "time": time}, lambda rows: CleanHistory(*rows[0]))


async def is_held(connection: Connection, table_id: UUID, time: Micros) -> bool:
    """Whether a savepoint pins an instant that completed at this very time, or a reader reads as of it."""
    named = {"table_id": table_id, "time": time, "now": (await clocks.now(connection)).steady}
    return bool((await connection.execute(_IS_HELD, named)).scalar_one())


def find_pending(table: str) -> Query[FoundInstants]:
    """The server's plan of a clean that is pending, with the id of its table; none, or one."""
    namespace, name = split_table_name(table)
    return Query(_FIND_PENDING, {"namespace": namespace, "name": name}, instants.decode)


def find_bounds(table_id: UUID, retention: Retention, now: Micros) -> Query[CleanBounds]:
    """The bounds of a clean at ``now``, by the steady clock."""
    hours = retention.hours
    parameters = {
        "table_id": table_id,
        "skip": (retention.commits_kept or 1) - 1,
        "now": now,
        "hours_began_at": None if hours is None else now - hours * MICROS_PER_HOUR,
    }
    return Query(_FIND_BOUNDS, parameters, _bounds)


def _bounds(rows: Rows) -> CleanBounds:
    [[nth_newest, oldest_pending, protected_times, published, followed, jumped_ahead_us, last_clean]] = rows
    protected = [Micros(time) for time in protected_times]
    return CleanBounds(
        nth_newest, oldest_pending, protected, published, followed, int(jumped_ahead_us), last_clean
    )


def find_deletable(table_id: UUID, scope: CleanScope, files: int) -> Query[list[FileToClean]]:
    """The first ``files`` files that a clean may delete, in the order in which they left the slices."""
    parameters = {
        "table_id": table_id,
        "until": scope.until,
        "versions": scope.versions,
        "protected_times": list(scope.protected_times),
        "files": files,
    }
    return Query(_FIND_DELETABLE, parameters, _deletable)


def _deletable(rows: Rows) -> list[FileToClean]:
    return [FileToClean(relative_path(partition, name), size, at) for partition, name, size, at in rows]


def find_retained(
    table_id: UUID, scope: CleanScope, files: Sequence[FileToClean], now: Micros
) -> Query[tuple[Micros | None, Micros | None]]:
    """``retained`` and ``retained_by_files`` of a clean of these files at ``now``, by the steady clock."""
    parameters = {
        "table_id": table_id,
        "until": None if scope.versions is not None else retained_until(scope, files),
        "cleaned_before": max((file.left_at for file in files), default=None),
        "now": now,
    }
    return Query(_FIND_RETAINED, parameters, lambda rows: (rows[0][0], rows[0][1]))


def count_undeleted(table_id: UUID, requested_time: Micros) -> Query[Undeleted]:
    """How many files of a clean's plan were not reported as deleted, and one of them."""
    parameters = {"table_id": table_id, "requested_time": requested_time}
    return Query(_COUNT_UNDELETED, parameters, lambda rows: Undeleted(*rows[0]))


def project(cleaned: Sequence[tuple[CleanedFiles, Sequence[ListEntry]]]) -> Statement:
    """Mark files with the clean whose plan deletes them. Each plan comes with the entries of its list."""
    rows = [
        (cleaned_files, *entry.name.rpartition("/")[::2])
        for cleaned_files, entries in cleaned
        for entry in entries
    ]
    names = [parse_file_name(file_name) for _, _, file_name in rows]
    return _PROJECT, {
        "table_id": [cleaned_files.table_id for cleaned_files, _, _ in rows],
        "cleaned_by": [cleaned_files.requested_time for cleaned_files, _, _ in rows],
        "partition_path": [partition_path for _, partition_path, _ in rows],
        "file_id": [name.file_id for name in names],
        "requested_time": [parse_time(name.requested_time) for name in names],
        "file_name": [file_name for _, _, file_name in rows],
    }


async def read_bounds(connection: Connection, table_id: UUID, retention: Retention) -> tuple[CleanBounds, Now]:
    """The bounds of a clean now, and the present time, for reading."""
    now = await clocks.now(connection)
    return await read(connection, find_bounds(table_id, retention, now.steady)), now


async def read_deletable(
    connection: Connection, table_id: UUID, scope: CleanScope, files: int
) -> list[FileToClean]:
    """The first ``files`` files that a clean may delete, for reading."""
    return await read(connection, find_deletable(table_id, scope, files))


async def read_retained(
    connection: Connection, table_id: UUID, scope: CleanScope, files: Sequence[FileToClean], now: Micros
) -> tuple[Micros | None, Micros | None]:
    """``find_retained``, for reading."""
    return await read(connection, find_retained(table_id, scope, files, now))
