"""Facts for the Iceberg catalog: the states of a table that base files alone have, and the files of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

import msgspec

from chronolake_metastore.domain.actions import COMPLETED_WRITES
from chronolake_metastore.domain.tables import Table
from chronolake_metastore.store import catalog
from chronolake_metastore.store.files import GroupKey
from chronolake_metastore.store.postgres import statements
from chronolake_metastore.store.postgres.pooled import Connection
from chronolake_model.names import split_table_name
from chronolake_model.times import Micros
from chronolake_model.vocabulary import Action, Operation, TableType

_HEAD: Final = statements.load("iceberg/head")
_VERSIONS: Final = "SELECT table_id, version FROM clock WHERE table_id = ANY (%(table_ids)s)"
_SAVEPOINTS: Final = statements.load("iceberg/savepoints")
_STATES: Final = statements.load("iceberg/states")
_CUTS: Final = statements.load("iceberg/cuts")
_COMPLETE_FROM: Final = statements.load("iceberg/complete_from")


def _of_states(statement: str) -> str:
    """A statement about a state and its parent, with the parts that it names."""
    periods = statements.load("iceberg/periods")
    is_in = statements.load("iceberg/is_in")
    parts = {
        "{periods_after}": periods.replace("{compares}", ">"),
        "{periods_of}": periods.replace("{compares}", "="),
        "{changed_groups}": statements.load("iceberg/changed_groups"),
        "{complete_from}": _COMPLETE_FROM,
        "{is_in_parent}": is_in.replace("{state}", "parent"),
        "{is_in_state}": is_in.replace("{state}", "state"),
    }
    for name, part in parts.items():
        statement = statement.replace(name, part)
    return statement


_FILES: Final = _of_states(statements.load("iceberg/files"))
_CHANGES: Final = _of_states(statements.load("iceberg/changes"))
_ACTIONS: Final = sorted(COMPLETED_WRITES | {Action.RESTORE})


class ServedState(msgspec.Struct, frozen=True):
    """A state of a table as of ``time``, which an instant made.

    ``time`` is the instant's completion time; of a compaction, it may also be its requested time. The state
    can be read from base files alone since ``completion_time``.
    """

    time: Micros
    completion_time: Micros
    requested_time: Micros
    operation: Operation


class BaseFileOfStates(msgspec.Struct, frozen=True):
    """A base file, and whether a state and its parent have it: one or both.

    ``column_stats`` are JSON, by field id.
    """

    partition_path: str
    file_id: str
    file_name: str
    size_bytes: int
    records: int
    requested_time: Micros
    completion_time: Micros
    schema_version: int
    has_field_ids: bool
    column_stats: str | None
    in_parent: bool
    in_state: bool

    @property
    def group(self) -> GroupKey:
        """The file group of the file."""
        return self.partition_path, self.file_id


class TableHead(msgspec.Struct, frozen=True):
    """A table, the last version of its log, and its last completion time.

    ``has_all_instants`` says whether none has left PostgreSQL.
    """

    table: Table
    version: int
    last_completion: Micros | None
    has_all_instants: bool


async def head(connection: Connection, name: str) -> TableHead | None:
    """The head of the live table of this name, if there is one."""
    namespace, table = split_table_name(name)
    rows = await connection.execute(_HEAD, {"namespace": namespace, "table": table})
    if (row := rows.one_or_none()) is None:
        return None
    *of_table, version, last_completion, has_all_instants = row
    return TableHead(catalog.table_of(*of_table), version, last_completion, has_all_instants)


async def versions(connection: Connection, table_ids: Sequence[UUID]) -> dict[UUID, int]:
    """The last versions of the logs of tables, of those that exist."""
    rows = await connection.execute(_VERSIONS, {"table_ids": list(table_ids)})
    return {table_id: int(version) for table_id, version in rows}


async def states(
    connection: Connection, table: Table, limit: int, savepoints_max: int
) -> tuple[list[ServedState], list[tuple[Micros, Micros]]]:
    """The newest ``limit`` states that the table serves, oldest first, and those that savepoints pin.

    And the newest savepoints that are not released: requested time, and completion of what each pins.
    """
    query = _STATES if table.definition.type is TableType.COPY_ON_WRITE else _CUTS
    named = {
        "table_id": table.table_id,
        "served_from": table.cleaned_before,
        "actions": _ACTIONS,
        "limit": limit,
    }
    of_savepoints = {"table_id": table.table_id, "limit": savepoints_max}
    found, savepoints = await connection.execute_together([(query, named), (_SAVEPOINTS, of_savepoints)])
    served = [
        ServedState(Micros(time), Micros(completed), Micros(requested), Operation(operation))
        for time, completed, requested, operation in found
    ]
    return served, [(Micros(requested), Micros(pinned)) for requested, pinned in savepoints]


async def complete_from(connection: Connection, table_id: UUID) -> Micros | None:
    """The first time since which all states have all of their files in PostgreSQL; None if all times do."""
    rows = await connection.execute(_COMPLETE_FROM, {"table_id": table_id})
    time: Micros | None = rows.scalar_one_or_none()
    return time


async def files(
    connection: Connection,
    table: Table,
    state: ServedState,
    parent: ServedState | None,
    after: GroupKey,
    limit: int,
) -> list[BaseFileOfStates]:
    """The first ``limit`` base files of a state and its parent in the file groups after one, in order."""
    partition_path, file_id = after
    of_group = {"partition_paths": [partition_path], "file_ids": [file_id]}
    named = {**_parameters(table, state, parent), **of_group, "rows": limit}
    return [BaseFileOfStates(*row) for row in await connection.execute(_FILES, named)]


class ChangedGroups(msgspec.Struct, frozen=True):
    """File groups that changed, and their files in a state or its parent, in order."""

    groups: list[GroupKey]
    files: list[BaseFileOfStates]


async def changes(
    connection: Connection,
    table: Table,
    state: ServedState,
    parent: ServedState,
    between: tuple[Micros, Micros],
    limits: tuple[int, int],
) -> ChangedGroups | None:
    """The file groups that changed in a range (from, to], with their files in a state or its parent.

    None if PostgreSQL does not have all of them, or if the groups, or the files, are more than their limit.
    """
    groups_max, files_max = limits
    named = {
        **_parameters(table, state, parent),
        "after": between[0],
        "until_change": between[1],
        "groups": groups_max + 1,
        "rows": files_max + 1,
    }
    rows = await connection.execute(_CHANGES, named)
    complete_from = rows[0][0]
    if len(rows) > files_max or (complete_from is not None and between[0] < complete_from):
        return None
    groups = list(dict.fromkeys((row[1], row[2]) for row in rows if row[1] is not None))
    files_ = [BaseFileOfStates(*row[1:]) for row in rows if row[3] is not None]
    return None if len(groups) > groups_max else ChangedGroups(groups, files_)


def _parameters(table: Table, state: ServedState, parent: ServedState | None) -> dict[str, Any]:
    times = [state.time] if parent is None else [state.time, parent.time]
    return {
        "table_id": table.table_id,
        "state": state.time,
        "parent": 0 if parent is None else parent.time,
        "since": min(times),
        "until": max([state.completion_time, *([] if parent is None else [parent.completion_time])]),
        "has_logs": table.definition.type is TableType.MERGE_ON_READ,
    }
