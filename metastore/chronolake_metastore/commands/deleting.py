"""Reports of deletions: what is looked up before the table is locked, and what is when it is."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from chronolake_metastore.commands.lake import Lake
from chronolake_metastore.domain import deletions, sweeps
from chronolake_metastore.domain.commands import Command
from chronolake_metastore.domain.deletions import NOTHING_CONTRADICTED, Contradicted, ReportDeletions
from chronolake_metastore.domain.sweeps import RecordSweep
from chronolake_metastore.store import deletions as stored, event_lists
from chronolake_metastore.store.markers import OfInstant
from chronolake_metastore.store.transaction import Transaction
from chronolake_model.markers import DeletedFile

_Report = ReportDeletions | RecordSweep


def reports(command: Command) -> bool:
    """Whether a command reports deletions; it has a transaction to itself."""
    return isinstance(command, _Report)


async def look_ahead(tx: Transaction, commands: Sequence[Command]) -> Contradicted:
    """Which of the files were never marked; nothing is locked yet. A file that was marked stays so."""
    match commands:
        case [ReportDeletions() | RecordSweep() as command] if files := _files_of(command):
            unmarked = await stored.unmarked(tx, command.table, command.requested_time, files)
            return Contradicted(unmarked=unmarked)
        case _:
            return NOTHING_CONTRADICTED


async def load(tx: Transaction, lake: Lake, commands: Sequence[Command], ahead: Contradicted) -> None:
    """Have ``lake`` know what of the report cannot be: what was published must not be deleted."""
    match commands:
        case [ReportDeletions() | RecordSweep() as command]:
            lake.contradicted = ahead
        case _:
            return
    table = lake.tables.get(command.table)
    instant = None if table is None else lake.instants.get((table.table_id, command.requested_time))
    files = _files_of(command)
    if table is None or instant is None or not files:
        return
    if deletions.goes_by_plan(instant):
        unplanned = await event_lists.unplanned_files(tx, table.table_id, instant.requested_time, files)
        lake.contradicted = msgspec.structs.replace(lake.contradicted, unplanned=unplanned)
    # What a restore has undone was published too, and is read as of before.
    if instant.state in sweeps.ENDED:
        of = OfInstant(table.table_id, deletions.marked_by(instant))
        published = await stored.published(tx, of, files)
        lake.contradicted = msgspec.structs.replace(lake.contradicted, published=published)


def _files_of(command: _Report) -> list[DeletedFile]:
    match command:
        case ReportDeletions():
            return deletions.named(command.request.files)
        case RecordSweep():
            return deletions.named(command.request.found)
