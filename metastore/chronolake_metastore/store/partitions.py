"""Partitions: what the live files of a table add up to."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from chronolake_metastore.store import statements
from chronolake_model.slices import Partition
from chronolake_model.times import Micros

_PAGE: Final = text(statements.load("partition_totals"))


async def page(
    connection: AsyncConnection, table_id: UUID, as_of: Micros, after: str | None, partitions: int
) -> list[Partition]:
    """The first ``partitions`` behind ``after`` that had live files as of a completion time."""
    parameters = {"table_id": table_id, "as_of": as_of, "after": after, "partitions": partitions}
    return [Partition(*row) for row in await connection.execute(_PAGE, parameters)]
