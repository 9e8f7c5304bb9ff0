"""The decision which instants leave the published active timeline. A note, as the others of publication are."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import UNSET

from chronolake_metastore import errors
from chronolake_metastore.domain import active_window, publication as domain
from chronolake_metastore.domain.active_window import Blocker, Border, HeldBy, Window
from chronolake_metastore.domain.context import Context
from chronolake_metastore.domain.publication import Position
from chronolake_metastore.domain.tables import Table
from chronolake_metastore.queries import tables
from chronolake_metastore.store import clocks, publication as stored, published_history
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.postgres.pooled import Connection
from chronolake_model.publication import (
    HISTORY_MERGED,
    HISTORY_ROWS,
    HistoryPlan,
    HistoryRange,
    PlanHistory,
    PublishedHistory,
)
from chronolake_model.times import Micros, format_time, parse_time
from chronolake_model.vocabulary import TableType

FILE_BYTES_MAX: Final = 64 * 1024 * 1024
"""Approximate size of the metadata in one file of a history. A publisher holds them in memory."""


async def plan(ctx: Context, database: Database, table_name: str, body: PlanHistory) -> HistoryPlan:
    """Decide what the history of a published timeline is to have; the decision is recorded first.

    Raises ``TableNotFound``, and ``PublicationFenced`` for all but the publisher with the lease.
    """
    async with database.committing() as connection:
        table = await tables.find(ctx, connection, table_name)
        await stored.lock(connection, table.table_id, table.created_at)
        # A savepoint of an instant that leaves is refused: no command runs until this is decided.
        await stored.lock_clock(connection, table.table_id)
        position = (await stored.get(connection, table.table_id)).position
        assert position is not None
        if position.epoch != body.epoch or position.publisher != body.publisher:
            raise errors.PublicationFenced(table.name, body.publisher)
        border = await _moved(connection, table, position, body.former)
        await published_history.save(connection, table.table_id, border)
        return await _document(connection, table, border, position.published_completion)


async def _moved(
    connection: Connection, table: Table, position: Position, former: PublishedHistory | None
) -> Border:
    border = position.border
    if not domain.may_archive(table.definition, position):
        return border
    if table.definition.has_timeline_of_hudi and border.written is None:
        if former is None or former.former is None:
            blocker = Blocker(HeldBy.HUDI_HISTORY, border.before, None)
            return msgspec.structs.replace(border, looked_version=position.published_version, blocker=blocker)
        # Recorded before a publisher writes any file, so that none of ours is taken for one of Hudi.
        border = await _begun(connection, table, border, former)
    window, table_id = Window.of(table.definition.properties), table.table_id
    published, begin = position.published_completion, border.before
    looked = msgspec.structs.replace(border, looked_version=position.published_version, blocker=None)
    limit = max(window.max_commits, window.min_commits + active_window.MOVED_MAX) + 1
    total = await published_history.count_commits(connection, table_id, begin, published, limit)
    if total <= window.max_commits:
        return looked
    commits = await published_history.commits(
        connection, table_id, begin, published, min(total - window.min_commits, active_window.MOVED_MAX) + 1
    )
    has_logs = table.definition.type is TableType.MERGE_ON_READ
    blockers = await published_history.blockers(connection, table_id, begin, published, has_logs=has_logs)
    if position.foreign_files:
        blockers.append(Blocker(HeldBy.FOREIGN_FILES, begin, None))
    move = active_window.decide(window, commits, total, blockers, (await clocks.now(connection)).wall)
    if move.before is None:
        return msgspec.structs.replace(looked, blocker=move.blocker)
    last = await published_history.last_completion(connection, table_id, begin, move.before)
    return msgspec.structs.replace(
        looked,
        before=move.before,
        last_completion=Micros(max(border.last_completion, last or 0)),
        blocker=move.blocker,
    )


async def _begun(connection: Connection, table: Table, border: Border, former: PublishedHistory) -> Border:
    before = parse_time(former.before)
    last = await published_history.last_completion(connection, table.table_id, Micros(0), before)
    return msgspec.structs.replace(border, before=before, last_completion=last or Micros(0), written=former)


async def _document(connection: Connection, table: Table, border: Border, published: Micros) -> HistoryPlan:
    if not border.before:
        return HistoryPlan(table.name, None)
    written, before = border.written, format_time(border.before)
    kept, ranges = active_window.layout(written, before)
    copied = await _copied(connection, table, border, published)
    former = None if written is None or written.former is None else written.former.before
    ends = [former if copied is None else copied.end]
    ends += [*(file.end for file in kept), *(merged.end for merged in ranges)]
    begin = Micros(0) if ends[-1] is None else parse_time(ends[-1])
    for level in (2, 1):
        rows_max, bytes_max = HISTORY_ROWS[level], FILE_BYTES_MAX // HISTORY_MERGED ** (2 - level)
        while begin < border.before:
            end = await published_history.end_of_file(
                connection, table.table_id, begin, border.before, rows_max, bytes_max
            )
            if end is None:
                break
            ranges.append(HistoryRange(format_time(begin), format_time(end), level))
            begin = end
    if begin < border.before:
        ranges.append(HistoryRange(format_time(begin), before, 0))
    return HistoryPlan(table.name, before, written, kept, ranges, copied)


async def _copied(
    connection: Connection, table: Table, border: Border, published: Micros
) -> HistoryRange | None:
    """The instants of Hudi that leave the timeline: the log does not have them byte for byte.

    With them go later changes of the schema, if no commit follows: a file of the history has a commit.
    """
    adoption, written = table.definition.adoption, border.written
    if written is None or written.former is None or adoption is UNSET:
        return None
    begin = parse_time(written.former.before)
    if begin >= min(border.before, adoption.time):
        return None
    own = await published_history.commits(connection, table.table_id, adoption.time, published, 1)
    has_own = own and own[0].requested_time < border.before
    end = min(border.before, adoption.time) if has_own else border.before
    return HistoryRange(written.former.before, format_time(end), 2)
