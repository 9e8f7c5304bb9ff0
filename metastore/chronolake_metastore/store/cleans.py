"""What cleans go by: when the files of a table changed, and which of its past a savepoint holds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from chronolake_metastore.domain.cleans import Past
from chronolake_metastore.store import statements
from chronolake_metastore.store.transaction import Rows, Statement
from chronolake_model.names import split_table_name
from chronolake_model.times import Micros

_FIND_PASTS: Final = statements.load("find_pasts")
_IS_SAVED: Final = text(statements.load("is_saved"))


def find_pasts(named: Iterable[tuple[str, Micros]]) -> Statement | None:
    """Look for what happened in tables by a time each."""
    keys = [(*split_table_name(table), time) for table, time in sorted(set(named))]
    if not keys:
        return None
    return _FIND_PASTS, {
        "namespaces": [namespace for namespace, _, _ in keys],
        "tables": [table for _, table, _ in keys],
        "times": [time for _, _, time in keys],
    }


def found_pasts(rows: Rows) -> dict[tuple[UUID, Micros], Past]:
    """What ``find_pasts`` found, by table and time."""
    return {(table_id, Micros(time)): Past(changed, completed) for table_id, time, changed, completed in rows}


async def is_saved(connection: AsyncConnection, table_id: UUID, time: Micros) -> bool:
    """Whether an instant that a savepoint pins completed at this very time."""
    return bool((await connection.execute(_IS_SAVED, {"table_id": table_id, "time": time})).scalar_one())
