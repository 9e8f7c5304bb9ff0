"""The check for conflicts before a completion: a writer can learn early that its work is lost."""

from __future__ import annotations

import msgspec

from chronolake_metastore.domain import conflicts, plans, promised_files
from chronolake_metastore.domain.context import Context
from chronolake_metastore.domain.instants import in_the_way
from chronolake_metastore.queries import instants
from chronolake_metastore.queries.timeline import Answers, across_border
from chronolake_metastore.store import clocks, file_groups, streams
from chronolake_metastore.store.postgres.engine import Database
from chronolake_model import instants as wire
from chronolake_model.files import FileGroupName
from chronolake_model.times import Micros, format_time
from chronolake_model.vocabulary import Touch


@across_border
async def find(
    answers: Answers,
    ctx: Context,
    database: Database,
    table_name: str,
    requested_time: Micros,
    body: wire.FindConflicts,
) -> wire.Conflicts:
    """The conflict that would refuse a completion now; raises ``TableNotFound`` or ``InstantNotFound``."""
    async with database.reading() as connection:
        table, instant = await instants.find(answers, ctx, connection, table_name, requested_time)
        others = await file_groups.concurrent_in(connection, table_name, body.file_groups)
        now = (await clocks.now(connection)).steady
        promised = await streams.promised_in(connection, table.table_id, _replaced(body))
    touched = [
        (
            conflicts.change_of(instant.begun_as, touched.how),
            FileGroupName(touched.partition_path, touched.file_id),
        )
        for touched in body.file_groups
    ]
    conflict = (
        plans.find_later_resize(table, instant.begun_as, requested_time)
        or conflicts.find(table, requested_time, touched, in_the_way(instant, others), now)
        or promised_files.find(promised)
    )
    fields = None if conflict is None else msgspec.structs.asdict(conflicts.told(table, conflict))
    return wire.Conflicts(
        table=table.name,
        requested_time=format_time(requested_time, table.definition.tick),
        conflict=None if fields is None else wire.ConflictingInstant(**fields),
    )


def _replaced(body: wire.FindConflicts) -> list[FileGroupName]:
    return [
        FileGroupName(touched.partition_path, touched.file_id)
        for touched in body.file_groups
        if touched.how is Touch.REPLACED
    ]
