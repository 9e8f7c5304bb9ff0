"""The outcome of a request."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from chronolake_metastore import errors
from chronolake_metastore.domain.context import Context
from chronolake_metastore.store import outcomes
from chronolake_metastore.store.postgres.engine import Database
from chronolake_model import outcomes as wire
from chronolake_model.times import to_datetime


async def get(ctx: Context, database: Database, request_id: str) -> wire.Outcome:
    """The recorded outcome of a request; raises ``OutcomeNotFound`` when no request of this id was decided."""
    async with database.reading() as connection:
        recorded = await outcomes.get(connection, request_id)
    if recorded is None:
        raise errors.OutcomeNotFound(request_id)
    # The recorded bytes are returned as they are: decoding them would lose digits of totals beyond 64 bits.
    answer = cast("dict[str, Any] | None", msgspec.Raw(recorded.answer) if recorded.answer else None)
    return wire.Outcome(
        request_id=request_id,
        status=recorded.status,
        answer=answer,
        table=recorded.table,
        version=recorded.version,
        recorded_at=None if recorded.recorded_at is None else to_datetime(recorded.recorded_at),
    )
