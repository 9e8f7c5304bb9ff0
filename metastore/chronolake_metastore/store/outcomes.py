"""Outcomes: the answer to each request id, appended in the transaction that decided."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final
from uuid import UUID

import msgspec
from sqlalchemy.ext.asyncio import AsyncConnection

from chronolake_metastore.domain import answers
from chronolake_metastore.store.postgres import statements
from chronolake_metastore.store.postgres.transaction import Query, Rows, Statement
from chronolake_model.times import Micros

_FIND: Final = statements.load("outcomes/find")
_APPEND: Final = statements.load("outcomes/append")
_GET: Final = statements.load("outcomes/get")


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a request: an HTTP status and a JSON body, a refusal's too.

    ``version`` is that of the table's log right after it; a refusal may concern no table. ``chain_id``,
    ``number`` and ``hash`` are its place in a chain of answers. ``find`` does not read the fields after
    ``answer``.
    """

    request_id: str
    fingerprint: bytes
    table_id: UUID | None
    version: int | None
    status: int
    answer: bytes
    recorded_at: Micros | None = None
    command: str | None = None
    actor: str | None = None
    address: str | None = None
    chain_id: UUID | None = None
    number: int = 0
    hash: bytes = b""

    def columns(self) -> dict[str, object]:
        """The columns that its hash covers, with the digest of the answer's bytes."""
        return {
            "request_id": self.request_id,
            "fingerprint": self.fingerprint,
            "table_id": self.table_id,
            "version": self.version,
            "status": self.status,
            "answer_digest": answers.digest_of_answer(self.answer),
            "recorded_at": self.recorded_at,
            "command": self.command,
            "actor": self.actor,
            "address": self.address,
        }


class Recorded(msgspec.Struct, frozen=True):
    """An outcome as it is looked up, with the name of its table."""

    status: int
    answer: bytes
    table: str | None
    version: int | None
    recorded_at: Micros | None


def find(request_ids: Iterable[str]) -> Query[dict[str, Outcome]]:
    """The outcomes of requests that were decided before, by request id."""
    return Query(_FIND, {"request_ids": list(request_ids)}, _by_request_id)


def _by_request_id(rows: Rows) -> dict[str, Outcome]:
    return {
        request_id: Outcome(
            request_id=request_id,
            fingerprint=bytes(fingerprint),
            table_id=table_id,
            version=version,
            status=status,
            answer=bytes(answer),
        )
        for request_id, fingerprint, table_id, version, status, answer in rows
    }


def append(outcomes: Sequence[Outcome]) -> Statement:
    """Record outcomes. A request id that is there already fails the transaction (``OutcomeRaced``)."""
    ordered = sorted(outcomes, key=lambda outcome: outcome.request_id)
    return _APPEND, {
        name: [getattr(outcome, name) for outcome in ordered] for name in Outcome.__struct_fields__
    }


async def get(connection: AsyncConnection, request_id: str) -> Recorded | None:
    """The outcome of a request, if it was decided."""
    row = (await statements.execute(connection, _GET, {"request_id": request_id})).one_or_none()
    return None if row is None else Recorded(*row)
