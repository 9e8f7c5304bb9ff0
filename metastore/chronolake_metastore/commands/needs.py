"""What commands name: what has to be locked and loaded before they can be decided."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from uuid import UUID

from chronolake_metastore.domain import (
    instants,
    namespaces,
    plans,
    restores,
    rollbacks,
    savepoints,
    staging,
    tables,
    transactions,
)
from chronolake_metastore.domain.clock import CATALOG_ID
from chronolake_metastore.domain.commands import CatalogCommand, Command, InstantCommand
from chronolake_model.files import FileGroupName, WriteStat
from chronolake_model.names import split_table_name
from chronolake_model.times import Micros, parse_time

InstantName = tuple[str, Micros]
"""The name of a table, and the requested time of one of its instants."""


def tables_of(command: Command) -> list[str]:
    """The tables that a command names, in its order; none when it is about a namespace."""
    match command:
        case namespaces.CreateNamespace() | namespaces.DropNamespace():
            return []
        case tables.CreateTable():
            return [command.request.name]
        case tables.DropTable():
            return [command.name]
        case transactions.CompleteTogether():
            return [member.table for member in command.members]
        case _:
            return [command.table]


def tables_named(commands: Iterable[Command]) -> set[str]:
    """All tables that are named."""
    return {name for command in commands for name in tables_of(command)}


def tables_made(commands: Iterable[Command]) -> set[str]:
    """The tables that are to be made."""
    return {command.request.name for command in commands if isinstance(command, tables.CreateTable)}


def catalog_if_named(commands: Iterable[Command]) -> list[UUID]:
    """The catalog's id, when a command changes it."""
    return [CATALOG_ID] if any(isinstance(command, CatalogCommand) for command in commands) else []


def namespaces_named(commands: Iterable[Command]) -> set[str]:
    """All namespaces that are named."""
    names = set()
    for command in commands:
        match command:
            case namespaces.CreateNamespace():
                names.add(command.request.name)
            case namespaces.DropNamespace():
                names.add(command.name)
            case tables.CreateTable():
                names.add(split_table_name(command.request.name)[0])
            case _:
                pass
    return names


def instants_named(commands: Iterable[Command]) -> set[InstantName]:
    """All instants that are named."""
    return {name for command in commands for name in _instants_of(command)}


def instants_undone(commands: Iterable[Command]) -> set[InstantName]:
    """The instants that are to be rolled back: whose rollbacks are wanted too."""
    return {
        (command.table, command.requested_time)
        for command in commands
        if isinstance(command, rollbacks.RollbackInstant)
    }


def instants_ended(commands: Iterable[Command]) -> set[InstantName]:
    """The instants that are to complete or to be rolled back: whether they have markers is wanted too."""
    ending = instants.CompleteInstant | transactions.CompleteTogether | rollbacks.RollbackInstant
    return {name for command in commands if isinstance(command, ending) for name in _instants_of(command)}


def tables_saved(commands: Iterable[Command]) -> set[str]:
    """The tables whose savepoints are wanted."""
    return {
        command.table
        for command in commands
        if isinstance(command, savepoints.CreateSavepoint | restores.RestoreTable)
    }


def savepoints_restored(commands: Iterable[Command]) -> set[InstantName]:
    """The savepoints that tables are to go back to: what is to be undone then is wanted too."""
    return {
        (command.table, command.savepoint) for command in commands if isinstance(command, restores.RestoreTable)
    }


def cleans_of(commands: Iterable[Command]) -> set[tuple[str, Micros]]:
    """The tables that say to have been cleaned, each with the time before which."""
    return {
        (one.table, parse_time(one.request.cleaned_before))
        for command in commands
        for one in (command.members if isinstance(command, transactions.CompleteTogether) else [command])
        if isinstance(one, instants.CompleteInstant) and one.request.cleaned_before is not None
    }


def file_groups_named(commands: Iterable[Command]) -> set[tuple[str, str, str]]:
    """The file groups that commands touch or plan for, by table, partition path and file id."""
    return {
        key
        for command in commands
        for table, touched in _touched_by(command)
        for key in with_previous(table, touched)
    }


def with_previous(table: str, names: Iterable[FileGroupName]) -> set[tuple[str, str, str]]:
    """File groups of a table, and of each the one before it in its bucket."""
    return {
        (table, group.partition_path, group.file_id)
        for name in names
        for group in (name, plans.previous_group(name))
        if group is not None
    }


def _instants_of(command: Command) -> Iterator[InstantName]:
    match command:
        case transactions.CompleteTogether():
            for member in command.members:
                yield member.table, member.requested_time
        case savepoints.CreateSavepoint(target=target) if target is not None:
            yield command.table, target
        case _ if isinstance(command, InstantCommand):
            yield command.table, command.requested_time
        case _:
            pass


def _touched_by(command: Command) -> Iterator[tuple[str, Sequence[FileGroupName]]]:
    match command:
        case instants.BeginInstant():
            if command.request.plan is not None:
                yield command.table, command.request.plan.file_groups
        case staging.StageWriteStats():
            yield command.table, _written(command.request.write_stats)
        case instants.CompleteInstant():
            yield command.table, _written(command.request.write_stats)
            yield command.table, command.request.replaced_file_groups
        case transactions.CompleteTogether():
            for member in command.members:
                yield from _touched_by(member)
        case _:
            pass


def _written(stats: Sequence[WriteStat]) -> list[FileGroupName]:
    return [FileGroupName(stat.partition_path, stat.file_id) for stat in stats]
