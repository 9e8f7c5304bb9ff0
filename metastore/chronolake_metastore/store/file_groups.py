"""File groups as projections of the log: plans for them, replacements, the last change of each."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Final
from uuid import UUID

from chronolake_metastore.domain.actions import begun_as
from chronolake_metastore.domain.changes import PlannedGroups, ReplacingInstant, Restored
from chronolake_metastore.domain.conflicts import (
    GROUPS_NAMED_MAX,
    ConcurrentInstant,
    GroupChange,
    change_of,
    planned_change,
)
from chronolake_metastore.domain.files import FileGroup, kind_of
from chronolake_metastore.domain.plans import LeftOut, LostRecords, previous_group
from chronolake_metastore.store.postgres import statements
from chronolake_metastore.store.postgres.pooled import Connection
from chronolake_metastore.store.postgres.transaction import Query, Rows, Statement, read
from chronolake_model.files import FileGroupName, WriteStat
from chronolake_model.names import split_table_name
from chronolake_model.times import Micros
from chronolake_model.vocabulary import Action, Operation, State, Touch

_FIND_CONCURRENT: Final = statements.load("file_groups/find_concurrent")
_FIND_MARKED: Final = statements.load("markers/find_in_files")
_FIND_WRITTEN_SINCE: Final = statements.load("file_groups/find_written_since")
_FIND_LEFT_OUT: Final = statements.load("file_groups/find_left_out")
_FIND_LOST_RECORDS: Final = statements.load("file_groups/find_lost_records")
_INSERT_PLANNED: Final = statements.load("file_groups/insert_planned")
_DELETE_PLANNED: Final = """
    DELETE FROM planned_group p
    USING unnest(%(table_id)s::uuid[], %(requested_time)s::bigint[]) AS settled (table_id, requested_time)
    WHERE p.table_id = settled.table_id AND p.requested_time = moment(settled.requested_time)
"""
_INSERT_REPLACED: Final = statements.load("file_groups/insert_replaced")
_SUPERSEDE_REPLACED: Final = statements.load("file_groups/supersede_replaced")
_RESTORE: Final = tuple(
    statements.load(name)
    for name in ("file_groups/withdraw_files", "file_groups/withdraw_replaced", "file_groups/restore_files")
)
_PLANNED: Final = "planned"
_ACTIONS: Final = {action.value: action for action in Action}
_STATES: Final = {state.value: state for state in State}

Concurrent = dict[FileGroup, tuple[ConcurrentInstant, ...]]


def with_previous(groups: Iterable[tuple[str, FileGroupName]]) -> set[tuple[str, str, str]]:
    """File groups by table name, partition path and file id, and of each the one before it in its bucket."""
    return {
        (table, group.partition_path, group.file_id)
        for table, name in groups
        for group in (name, previous_group(name))
        if group is not None
    }


def find_concurrent(named: Iterable[tuple[str, str, str]]) -> Query[Concurrent]:
    """The concurrent instants of file groups, by table name, partition path and file id.

    Of each group the latest completed instant of each change, and all that are pending.
    """
    keys = [(*split_table_name(table), partition, file_id) for table, partition, file_id in sorted(named)]
    if not keys:
        return Query.known({})
    parameters = {
        "namespaces": [key[0] for key in keys],
        "tables": [key[1] for key in keys],
        "partition_paths": [key[2] for key in keys],
        "file_ids": [key[3] for key in keys],
    }
    return Query(_FIND_CONCURRENT, parameters, _concurrent)


def find_written_since(
    table_id: UUID, requested_time: Micros, groups: Iterable[FileGroupName]
) -> Query[Concurrent]:
    """The writes to file groups that have completed since an instant was requested, superseded ones too."""
    parameters = {**_columns(table_id, groups), "requested_time": requested_time}
    return Query(_FIND_WRITTEN_SINCE, parameters, _concurrent)


def find_marked(table_id: UUID, groups: Iterable[FileGroupName]) -> Query[Concurrent]:
    """The pending writes that have marked files of file groups."""
    return Query(_FIND_MARKED, _columns(table_id, groups), _concurrent)


def _columns(table_id: UUID, groups: Iterable[FileGroupName]) -> dict[str, object]:
    named = sorted({(group.partition_path, group.file_id) for group in groups})
    return {
        "table_id": table_id,
        "partition_paths": [partition_path for partition_path, _ in named],
        "file_ids": [file_id for _, file_id in named],
    }


def _concurrent(rows: Rows) -> Concurrent:
    by_group: dict[FileGroup, tuple[ConcurrentInstant, ...]] = {}
    for table_id, partition_path, file_id, touch, action, operation, state, requested, completed, lease in rows:
        change = _change(touch, action, operation)
        if change is None:
            continue
        group = FileGroup(table_id, partition_path, file_id)
        other = ConcurrentInstant(
            change=change,
            action=_ACTIONS[action],
            state=_STATES[state],
            requested_time=Micros(requested),
            completion_time=None if completed is None else Micros(completed),
            lease_expires_at=None if lease is None else Micros(lease),
        )
        by_group[group] = (*by_group.get(group, ()), other)
    return by_group


@functools.cache
def _change(touch: str, action: str, operation: str) -> GroupChange | None:
    """The change to a file group by a completed instant, or by one that has planned it."""
    begun = begun_as(Action(action), Operation(operation))
    return planned_change(begun) if touch == _PLANNED else change_of(begun, Touch(touch))


def find_left_out(table_id: UUID, named: Sequence[FileGroupName]) -> Query[LeftOut]:
    """Live file groups of a table that are not named: the first hundred, the one written last before others."""
    parameters = {
        "table_id": table_id,
        "partition_paths": [name.partition_path for name in named],
        "file_ids": [name.file_id for name in named],
        "limit": GROUPS_NAMED_MAX,
    }
    return Query(_FIND_LEFT_OUT, parameters, lambda rows: _left_out(table_id, rows))


def _left_out(table_id: UUID, rows: Rows) -> LeftOut:
    left_out: dict[FileGroup, ConcurrentInstant] = {}
    for partition_path, file_id, touch, action, operation, state, requested, completed in rows:
        change = _change(touch, action, operation)
        assert change is not None, "a live file was written"
        other = ConcurrentInstant(
            change=change,
            action=_ACTIONS[action],
            state=_STATES[state],
            requested_time=Micros(requested),
            completion_time=Micros(completed),
        )
        left_out.setdefault(FileGroup(table_id, partition_path, file_id), other)
    return list(left_out.items())


def find_lost_records(
    table_id: UUID, stats: Sequence[WriteStat], staged: Sequence[int], replaced: Sequence[FileGroupName]
) -> Query[LostRecords | None]:
    """The first partition in which a clustering loses records; None if there is none.

    It writes ``stats``, and those that it ``staged`` under these versions.
    """
    parameters = {
        "table_id": table_id,
        "partition_paths": [stat.partition_path for stat in stats],
        "file_ids": [stat.file_id for stat in stats],
        "kinds": [kind_of(stat).value for stat in stats],
        "records": [stat.records + stat.deletes for stat in stats],
        "versions": list(staged),
        "replaced_paths": [name.partition_path for name in replaced],
        "replaced_ids": [name.file_id for name in replaced],
    }
    return Query(_FIND_LOST_RECORDS, parameters, _lost_records)


def _lost_records(rows: Rows) -> LostRecords | None:
    for partition_path, stored, reported in rows:
        return LostRecords(partition_path, int(stored), int(reported))
    return None


async def concurrent_in(connection: Connection, table: str, groups: Iterable[FileGroupName]) -> Concurrent:
    """The same, of file groups of one table, for reading."""
    query = find_concurrent({(table, group.partition_path, group.file_id) for group in groups})
    return query.result if query.is_known else await read(connection, query)


def project_plans(plans: Sequence[PlannedGroups], settled: Sequence[tuple[UUID, Micros]]) -> list[Statement]:
    """Keep the file groups of plans as long as their instants are pending.

    The database refuses a file group in two plans of table services, so ended ones are removed first.
    """
    written: list[Statement] = []
    ended = set(settled)
    lasting = [plan for plan in plans if (plan.table_id, plan.requested_time) not in ended]
    if settled:
        keys = {
            "table_id": [table_id for table_id, _ in settled],
            "requested_time": [requested_time for _, requested_time in settled],
        }
        written.append((_DELETE_PLANNED, keys))
    if lasting:
        planned = {
            "table_id": [plan.table_id for plan in lasting],
            "requested_time": [plan.requested_time for plan in lasting],
            "is_service": [plan.is_service for plan in lasting],
        }
        written.append((_INSERT_PLANNED, planned))
    return written


def project_replacements(replacements: Sequence[ReplacingInstant]) -> list[Statement]:
    """Take replaced file groups out of the latest slices."""
    instants: dict[str, list[object]] = {
        "table_id": [replacement.table_id for replacement in replacements],
        "requested_time": [replacement.requested_time for replacement in replacements],
    }
    replaced_at: list[object] = [replacement.completion_time for replacement in replacements]
    return [(_INSERT_REPLACED, instants | {"replaced_at": replaced_at}), (_SUPERSEDE_REPLACED, instants)]


def restore(restored: Sequence[Restored]) -> list[Statement]:
    """Take out of the latest slices what restores undid, and bring back the files that were live before.

    Nothing that completed after a restore may be projected with it.
    """
    parameters = {
        "table_id": [key.table_id for key in restored],
        "requested_time": [key.requested_time for key in restored],
    }
    return [(statement, parameters) for statement in _RESTORE]
