"""The outcome of a request."""

from __future__ import annotations

import msgspec

from chronolake_metastore import errors
from chronolake_metastore.domain.context import Context
from chronolake_metastore.domain.rights import Rights
from chronolake_metastore.domain.subjects import request_id_of
from chronolake_metastore.store import archived, outcomes
from chronolake_metastore.store.archived import LogBorder
from chronolake_metastore.store.outcomes import FoundOutcome
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.postgres.transaction import read


async def get(ctx: Context, database: Database, key: str) -> FoundOutcome:
    """The recorded outcome of the caller's request under a key.

    Raises ``OutcomeNotFound`` when no such request was decided.
    """
    request_id = request_id_of(ctx.subject, key)
    # A first read that waits while an era leaves finds the outcome neither in its partition nor in another.
    for _ in range(2):
        async with database.reading() as connection:
            outcome = await outcomes.get(connection, request_id)
            border = await archived.border_of_answers(connection) if outcome is None else None
        if border is not None:
            outcome = await _archived(database, border, request_id)
        if outcome is not None:
            return _without_hidden(outcome, ctx.rights)
    raise errors.OutcomeNotFound(key)


def _without_hidden(outcome: FoundOutcome, rights: Rights) -> FoundOutcome:
    """The outcome without the present name of its table, if the caller may not know it."""
    if outcome.table is None or rights.may_read(outcome.table, outcome.table_id):
        return outcome
    return msgspec.structs.replace(outcome, table=None)


async def _archived(database: Database, border: LogBorder, request_id: str) -> FoundOutcome | None:
    found = await archived.ask(database, border, lambda log: log.outcome(request_id), of_outcomes=True)
    if found is None:
        return None
    async with database.reading() as connection:
        if not await read(connection, archived.find_left([found])):
            return None
        names = await archived.names(connection, [] if found.table_id is None else [found.table_id])
    return FoundOutcome(
        request_id=found.request_id,
        result=found.result,
        dialect=found.dialect,
        answer_digest=found.answer_digest,
        table=None if found.table_id is None else names.get(found.table_id),
        version=found.version,
        recorded_at=found.recorded_at,
        table_id=found.table_id,
    )
