"""All files of a table as one Arrow stream: the same answers as the pages of ``files.py``."""

from __future__ import annotations

import asyncio
import importlib
from typing import TYPE_CHECKING, Any, Final

import msgspec

from chronolake_metastore.domain.context import Context
from chronolake_metastore.domain.tables import Table
from chronolake_metastore.queries import files, tables
from chronolake_metastore.queries.cleans import BEFORE_ALL
from chronolake_metastore.queries.timeline import Answers, Timeline, across_border
from chronolake_metastore.store.files import FIRST
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.postgres.pooled import Connection
from chronolake_model.scans import Scan
from chronolake_model.times import Micros, ReadTime, format_time

if TYPE_CHECKING:
    from chronolake_metastore.store.postgres.arrow import ArrowStream

METADATA: Final = "chronolake."
"""The prefix of the keys in the schema's metadata, which describe the whole answer."""


async def snapshot(
    ctx: Context, database: Database, table_name: str, as_of: ReadTime | None, partition_path: str | None
) -> ArrowStream:
    """The files of the live slices; raises ``TableNotFound`` or ``HistoryCleaned``."""
    return await scan(
        ctx,
        database,
        table_name,
        Scan(partition_paths=None if partition_path is None else [partition_path]),
        as_of,
    )


@across_border
async def scan(
    answers: Answers, ctx: Context, database: Database, table_name: str, body: Scan, as_of: ReadTime | None
) -> ArrowStream:
    """The files of the live slices that could match.

    Raises ``TableNotFound``, ``InvalidFilter`` or ``HistoryCleaned``.
    """
    async with database.reading() as connection:
        table = await tables.find(ctx, connection, table_name)
        sets = await files.partition_sets_of(connection, table, body, FIRST[0])
        at, metadata = await _pinned(answers, connection, table, as_of)
    # In a thread: the text of the largest filters takes a second, in which no other request would be answered.
    return await asyncio.to_thread((await _stored()).snapshot, database, table.table_id, at, sets, metadata)


@across_border
async def published(answers: Answers, ctx: Context, database: Database, table_name: str) -> ArrowStream:
    """Every file that was ever published; raises ``TableNotFound``."""
    async with database.reading() as connection:
        table = await tables.find(ctx, connection, table_name)
        at, metadata = await _pinned(answers, connection, table, None)
    stream: ArrowStream = (await _stored()).published(database, table.table_id, at, metadata)
    return stream


@across_border
async def changes(
    answers: Answers,
    ctx: Context,
    database: Database,
    table_name: str,
    after: ReadTime | None,
    until: ReadTime | None,
) -> ArrowStream:
    """The slices of the file groups that changed in (after, until], as of both ends.

    Raises ``TableNotFound``, ``InvalidParameter`` or ``HistoryCleaned``.
    """
    async with database.reading() as connection:
        table = await tables.find(ctx, connection, table_name)
        timeline = Timeline(answers, connection, table.table_id)
        requested = await files.range_of(timeline, table, after, until)
        between, head = await files.changes_head(timeline, table, requested)
    metadata = {"table": table.name, "instants": _json(head.instants), "restores": _json(head.restores)}
    metadata |= {name: time for name, time in (("from", head.from_), ("to", head.to)) if time is not None}
    stream: ArrowStream = (await _stored()).changes(database, table.table_id, between, _metadata(metadata))
    return stream


async def _stored() -> Any:
    """``store.file_streams``."""
    # Arrow's libraries take a second to load, and most servers are never asked for it.
    return await asyncio.to_thread(importlib.import_module, "chronolake_metastore.store.file_streams")


async def _pinned(
    answers: Answers, connection: Connection, table: Table, as_of: ReadTime | None
) -> tuple[Micros, dict[str, str]]:
    """The last completion time up to ``as_of``, and the schema's metadata; raises ``HistoryCleaned``."""
    pinned = await tables.last_completion(answers, connection, table, as_of, None)
    if pinned is None:
        return BEFORE_ALL, _metadata({"table": table.name})
    return pinned, _metadata({"table": table.name, "as_of": format_time(pinned, table.definition.tick)})


def _json(document: object) -> str:
    return msgspec.json.encode(document).decode()


def _metadata(texts: dict[str, str]) -> dict[str, str]:
    return {METADATA + name: text for name, text in texts.items()}
