"""Completing what was staged: what is looked up before the table is locked, and what is when it is."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from chronolake_metastore.commands import needs
from chronolake_metastore.commands.lake import Lake
from chronolake_metastore.domain.commands import Command
from chronolake_metastore.domain.files import NOTHING_STAGED, Staged
from chronolake_metastore.domain.instants import CompleteInstant
from chronolake_metastore.store import file_groups, staging
from chronolake_metastore.store.transaction import Transaction


def completes_staged(command: Command) -> bool:
    """Whether a command publishes what was staged; it has a transaction to itself."""
    return isinstance(command, CompleteInstant) and bool(command.request.staged)


async def look_ahead(tx: Transaction, commands: Sequence[Command]) -> Staged:
    """What never changes of what the command publishes, if it was staged; nothing is locked yet."""
    versions = _versions_named(commands)
    if versions is None:
        return NOTHING_STAGED
    return Staged(chunks=await staging.chunks(tx, versions), repeated=await staging.repeated(tx, versions))


async def load(tx: Transaction, lake: Lake, commands: Sequence[Command], ahead: Staged) -> None:
    """Have ``lake`` know what was staged, and what others have done to its file groups since."""
    versions = _versions_named(commands)
    if versions is None:
        return
    [command] = commands
    assert isinstance(command, CompleteInstant)
    touched = await staging.groups_to_look_at(tx, versions, command.request.replaced_file_groups)
    lake.staged = msgspec.structs.replace(ahead, touched=touched)
    named = needs.with_previous(command.table, [name for _, name in touched])
    [found] = await tx.batch([file_groups.find_concurrent(named)])
    lake.concurrent |= file_groups.found_concurrent(found)


def _versions_named(commands: Sequence[Command]) -> staging.StagedVersions | None:
    match commands:
        case [CompleteInstant() as command] if completes_staged(command):
            return staging.StagedVersions(command.table, command.requested_time, command.request.staged)
        case _:
            return None
