"""The outcome of a request."""

from __future__ import annotations

from chronolake_metastore import errors
from chronolake_metastore.domain.context import Context
from chronolake_metastore.store import outcomes
from chronolake_metastore.store.outcomes import FoundOutcome
from chronolake_metastore.store.postgres.engine import Database


async def get(ctx: Context, database: Database, request_id: str) -> FoundOutcome:
    """The recorded outcome of a request; raises ``OutcomeNotFound`` when no request of this id was decided."""
    async with database.reading() as connection:
        outcome = await outcomes.get(connection, request_id)
    if outcome is None:
        raise errors.OutcomeNotFound(request_id)
    return outcome
