"""Plans of file groups: which groups of a request the plan of its instant does not name.

A plan never changes, and it may be long: it is asked, when the table is locked, and not read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from chronolake_metastore.commands.lake import Lake
from chronolake_metastore.domain import plans
from chronolake_metastore.domain.commands import Command
from chronolake_metastore.domain.instants import CompleteInstant
from chronolake_metastore.domain.staging import StageWriteStats
from chronolake_metastore.domain.transactions import CompleteTogether
from chronolake_metastore.store import event_lists
from chronolake_metastore.store.transaction import Statement, Transaction
from chronolake_model.files import FileGroupName

_Asked = tuple[CompleteInstant | StageWriteStats, Statement]


async def load(tx: Transaction, lake: Lake, commands: Sequence[Command]) -> None:
    """Have ``lake`` know, of instants that go by a plan, the file groups that are not in it."""
    asked = list(_asked(lake, commands))
    if asked:
        found = await tx.batch([statement for _, statement in asked])
        for (command, _), rows in zip(asked, found, strict=True):
            lake.unplanned[id(command)] = event_lists.found_unplanned_groups(rows)


def _asked(lake: Lake, commands: Sequence[Command]) -> Iterator[_Asked]:
    for command in commands:
        match command:
            case CompleteTogether():
                yield from _asked(lake, command.members)
            case CompleteInstant():
                yield from _of_one(lake, command, command.request.replaced_file_groups)
            case StageWriteStats():
                yield from _of_one(lake, command, [])
            case _:
                pass


def _of_one(
    lake: Lake, command: CompleteInstant | StageWriteStats, replaced: Sequence[FileGroupName]
) -> Iterator[_Asked]:
    table = lake.tables.get(command.table)
    instant = None if table is None else lake.instants.get((table.table_id, command.requested_time))
    if table is None or instant is None:
        return
    groups = plans.asked_of_plan(instant.begun_as, command.request.write_stats, replaced)
    if groups:
        yield command, event_lists.find_unplanned_groups(table.table_id, instant.requested_time, groups)
