"""What cleans go by: when the files of a table changed, what may be deleted, and what somebody holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final
from uuid import UUID

import msgspec
from sqlalchemy.ext.asyncio import AsyncConnection

from chronolake_metastore.domain.cleans import Bounds, CleanHistory, Deletable, Wanted
from chronolake_metastore.domain.lists import Entry, ListName
from chronolake_metastore.store import clocks, statements
from chronolake_metastore.store.event_lists import OfEvent
from chronolake_metastore.store.transaction import Rows, Statement
from chronolake_model.file_names import parse_file_name, relative_path
from chronolake_model.names import split_table_name
from chronolake_model.times import Micros, parse_time

_FIND_CLEAN_HISTORIES: Final = statements.load("cleans/find_clean_history")
_IS_HELD: Final = statements.load("cleans/is_time_held")
_FIND_PENDING: Final = statements.load("cleans/find_pending")
_FIND_BOUNDS: Final = statements.load("cleans/find_bounds")
_FIND_DELETABLE: Final = statements.load("cleans/find_deletable_files")
_COUNT_UNDELETED: Final = statements.load("cleans/count_undeleted_files")
_PROJECT: Final = statements.load("cleans/mark_files_cleaned")


class CleanedFiles(msgspec.Struct, frozen=True):
    """The files that the plan of a clean names, requested by the event of this version."""

    table_id: UUID
    requested_time: Micros
    version: int

    @property
    def files(self) -> OfEvent:
        """The list of the files."""
        return OfEvent(self.table_id, self.requested_time, self.version, ListName.PLAN_FILES)


class Undeleted(msgspec.Struct, frozen=True):
    """How many files of a plan were not reported as deleted, and one of them."""

    files: int
    path: str | None


def find_clean_histories(named: Iterable[tuple[str, Micros]]) -> Statement | None:
    """Look for what happened in tables by a time each."""
    keys = [(*split_table_name(table), time) for table, time in sorted(set(named))]
    if not keys:
        return None
    return _FIND_CLEAN_HISTORIES, {
        "namespaces": [namespace for namespace, _, _ in keys],
        "tables": [table for _, table, _ in keys],
        "times": [time for _, _, time in keys],
    }


def found_clean_histories(rows: Rows) -> dict[tuple[UUID, Micros], CleanHistory]:
    """What ``find_clean_histories`` found, by table and time."""
    return {
        (table_id, Micros(time)): CleanHistory(changed, completed)
        for table_id, time, changed, completed in rows
    }


async def is_held(connection: AsyncConnection, table_id: UUID, time: Micros) -> bool:
    """Whether a savepoint pins an instant that completed at this very time, or a reader reads as of it."""
    named = {"table_id": table_id, "time": time, "now": await clocks.now(connection)}
    return bool((await statements.execute(connection, _IS_HELD, named)).scalar_one())


def find_pending(table_id: UUID) -> Statement:
    """Look for the server's plan of a clean that is pending; ``instants.found`` reads it."""
    return _FIND_PENDING, {"table_id": table_id}


def find_bounds(table_id: UUID, retain_commits: int | None, now: Micros) -> Statement:
    """Look for what bounds a clean at ``now``."""
    return _FIND_BOUNDS, {"table_id": table_id, "skip": (retain_commits or 1) - 1, "now": now}


def found_bounds(rows: Rows) -> Bounds:
    """What ``find_bounds`` found."""
    [[nth_newest, oldest_pending, held]] = rows
    return Bounds(nth_newest, oldest_pending, [Micros(time) for time in held])


def find_deletable(table_id: UUID, wanted: Wanted, files: int) -> Statement:
    """Look for the first so many files that a clean may delete, those that left the slices first."""
    return _FIND_DELETABLE, {
        "table_id": table_id,
        "until": wanted.until,
        "versions": wanted.versions,
        "held": list(wanted.held),
        "files": files,
    }


def found_deletable(rows: Rows) -> list[Deletable]:
    """What ``find_deletable`` found."""
    return [Deletable(relative_path(partition, name), size, at) for partition, name, size, at in rows]


def count_undeleted(table_id: UUID, requested_time: Micros) -> Statement:
    """Count the files of a clean's plan that were not reported as deleted."""
    return _COUNT_UNDELETED, {"table_id": table_id, "requested_time": requested_time}


def counted_undeleted(rows: Rows) -> Undeleted:
    """What ``count_undeleted`` counted."""
    [[files, path]] = rows
    return Undeleted(files, path)


def project(cleaned: Sequence[tuple[CleanedFiles, Sequence[Entry]]]) -> Statement:
    """Say of files whose plan deletes them; each plan comes with the entries of its list."""
    rows = [(one, *entry.name.rpartition("/")[::2]) for one, entries in cleaned for entry in entries]
    names = [parse_file_name(file_name) for _, _, file_name in rows]
    return _PROJECT, {
        "table_id": [one.table_id for one, _, _ in rows],
        "cleaned_by": [one.requested_time for one, _, _ in rows],
        "partition_path": [partition_path for _, partition_path, _ in rows],
        "file_id": [name.file_id for name in names],
        "requested_time": [parse_time(name.requested_time) for name in names],
        "file_name": [file_name for _, _, file_name in rows],
    }


async def look(
    connection: AsyncConnection, table_id: UUID, retain_commits: int | None
) -> tuple[Bounds, Micros]:
    """What bounds a clean now, and now, for reading."""
    now = await clocks.now(connection)
    return found_bounds(await _rows(connection, find_bounds(table_id, retain_commits, now))), now


async def deletable(connection: AsyncConnection, table_id: UUID, wanted: Wanted, files: int) -> list[Deletable]:
    """The first so many files that a clean may delete, for reading."""
    return found_deletable(await _rows(connection, find_deletable(table_id, wanted, files)))


async def _rows(connection: AsyncConnection, statement: Statement) -> Rows:
    sql, parameters = statement
    return [tuple(row) for row in await statements.execute(connection, sql, dict(parameters))]
