"""The check before a deletion: clients and the server's workers ask which files they may delete."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import msgspec

from chronolake_metastore import errors
from chronolake_metastore.domain import deletable as domain
from chronolake_metastore.domain.context import Context
from chronolake_metastore.domain.deletable import AsOrphans, FileFacts, ForInstant, Question
from chronolake_metastore.domain.tables import Table
from chronolake_metastore.queries import identity, tables
from chronolake_metastore.queries.timeline import Answers, Timeline, across_border
from chronolake_metastore.store import catalog, clocks, deletable as stored
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.postgres.pooled import Connection
from chronolake_model.deletable import Deletable, FindDeletable, FindDeletableOrphans, Refusal, RefusedDeletion
from chronolake_model.markers import DeletedFile
from chronolake_model.times import Micros


@across_border
async def find_deletable(
    answers: Answers,
    ctx: Context,
    database: Database,
    table_name: str,
    requested_time: Micros,
    body: FindDeletable,
) -> Deletable:
    """The files that may not be deleted for an instant; raises as ``refusals``.

    The client has read the claim in the storage, which a server may not have done yet.
    """
    async with database.reading() as connection:
        table = await tables.find(ctx, connection, table_name)
        refused = await refusals(answers, connection, table.table_id, requested_time, body.files, body.writer)
        answer = await _answer(connection, table, refused)
    await identity.refuse_earlier_state(database, table.table_id, body.recorded)
    return answer


@across_border
async def find_deletable_orphans(
    answers: Answers, ctx: Context, database: Database, table_name: str, body: FindDeletableOrphans
) -> Deletable:
    """The files that may not be deleted as orphans; raises as ``orphan_refusals``."""
    async with database.reading() as connection:
        table = await tables.find(ctx, connection, table_name)
        refused = await orphan_refusals(
            answers, connection, table.table_id, body.files, unknown_instants=body.unknown_instants
        )
        answer = await _answer(connection, table, refused)
    await identity.refuse_earlier_state(database, table.table_id, body.recorded)
    return answer


async def refusals(
    answers: Answers,
    connection: Connection,
    table_id: UUID,
    requested_time: Micros,
    files: Sequence[DeletedFile],
    writer: str | None = None,
) -> list[RefusedDeletion]:
    """The files that ``writer`` may not delete for an instant.

    Raises ``MetastoreMoved``, ``TableNotFound``, ``BasePathShared``, ``InstantNotFound``, or
    ``IllegalTransition`` while the table is being adopted: then no file may be deleted.
    """
    table = await _own(connection, table_id)
    timeline = Timeline(answers, connection, table_id)
    instant = await timeline.get(requested_time)
    if instant is None:
        raise await tables.instant_not_found(connection, table, requested_time)
    return await _refusals(timeline, table, files, ForInstant(instant, writer))


async def orphan_refusals(
    answers: Answers,
    connection: Connection,
    table_id: UUID,
    files: Sequence[DeletedFile],
    *,
    unknown_instants: bool = False,
) -> list[RefusedDeletion]:
    """The files that may not be deleted as orphans; raises as ``refusals``, without ``InstantNotFound``."""
    table = await _own(connection, table_id)
    last_time = await clocks.last_time(connection, table_id)
    timeline = Timeline(answers, connection, table_id)
    return await _refusals(timeline, table, files, AsOrphans(last_time, unknown_instants))


async def _refusals(
    timeline: Timeline, table: Table, files: Sequence[DeletedFile], question: Question
) -> list[RefusedDeletion]:
    times = [(file, domain.requested_time_of(file)) for file in files]
    named = [(file, time) for file, time in times if time is not None]
    known = await stored.known(timeline.connection, table.table_id, named)
    if isinstance(question, AsOrphans):
        known = await _with_archived(timeline, known)
    judged = [(file, domain.refusal(question, facts)) for (file, _), facts in zip(named, known, strict=True)]
    not_data_files = [(file, Refusal.NOT_A_DATA_FILE) for file, time in times if time is None]
    return [
        RefusedDeletion(file.partition_path, file.file_name, reason)
        for file, reason in [*not_data_files, *judged]
        if reason is not None
    ]


async def _with_archived(timeline: Timeline, known: Sequence[FileFacts]) -> list[FileFacts]:
    """The facts with the states of instants that are only in the archive."""
    found = await timeline.archived({facts.requested_time for facts in known if facts.state is None})
    return [
        facts if instant is None else msgspec.structs.replace(facts, state=instant.state)
        for facts, instant in ((facts, found.get(facts.requested_time)) for facts in known)
    ]


async def _own(connection: Connection, table_id: UUID) -> Table:
    """The table, if it is live and no other table shares its base path."""
    await identity.refuse_foreign_database(connection)
    state = await stored.base_path(connection, table_id)
    if state is None or state.is_dropped:
        raise errors.TableNotFound(str(table_id) if state is None else state.table)
    if not state.is_comparable:
        raise errors.BasePathShared(
            f"files of table {state.table!r} are not deleted: its base path cannot be compared with those of "
            "other tables; create the table anew at an absolute path or a URI",
            table=state.table,
        )
    other = state.taken_by or state.overlaps_with
    if other is not None:
        raise errors.BasePathShared(
            f"files of table {state.table!r} are not deleted: its base path overlaps with that of table "
            f"{other!r}; drop one of the two tables, or create it anew elsewhere",
            table=state.table,
            other_table=other,
        )
    table = await catalog.get_table(connection, state.table)
    assert table is not None, "the transaction sees one moment"
    # Until the adoption is finished, Hudi may complete the instants of such files.
    table.refuse_unfinished()
    return table


async def _answer(connection: Connection, table: Table, refusals: list[RefusedDeletion]) -> Deletable:
    metastore_id = await identity.refuse_foreign_database(connection)
    return Deletable(table.name, str(table.table_id), str(metastore_id), refusals)
