"""Outcomes: the result of each command by its request id, appended in the transaction that decided."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Final
from uuid import UUID

import msgspec

from chronolake_metastore.domain import logs
from chronolake_metastore.store import packed_results
from chronolake_metastore.store.postgres import statements
from chronolake_metastore.store.postgres.pooled import Connection
from chronolake_metastore.store.postgres.transaction import Query, Rows, Statement
from chronolake_model.times import Micros

_FIND: Final = statements.load("outcomes/find")
_APPEND: Final = statements.load("outcomes/append")
_GET: Final = statements.load("outcomes/get")
_BY_REQUEST_ID: Final = operator.attrgetter("request_id")


class StoredOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a command, or its refusal, which has a ``code``. Both are JSON here.

    ``version`` is that of the table's log right after it; a refusal may concern no table. ``dialect`` and
    ``answer_digest`` are of the first answer. ``chain_id``, ``number`` and ``hash`` are its place in a chain of
    answers. ``find`` does not read the fields after ``recorded_at``.
    """

    request_id: str
    fingerprint: bytes
    table_id: UUID | None
    version: int | None
    code: str | None
    result: bytes
    dialect: str | None
    answer_digest: bytes | None
    recorded_at: Micros | None = None
    command: str | None = None
    actor: str | None = None
    address: str | None = None
    chain_id: UUID | None = None
    number: int = 0
    hash: bytes = b""

    def columns(self) -> dict[str, object]:
        """The columns that its hash covers, with the digest of the result's bytes."""
        return {
            "request_id": self.request_id,
            "fingerprint": self.fingerprint,
            "table_id": self.table_id,
            "version": self.version,
            "code": self.code,
            "result_digest": logs.digest_of_result(self.result),
            "dialect": self.dialect,
            "answer_digest": self.answer_digest,
            "recorded_at": self.recorded_at,
            "command": self.command,
            "actor": self.actor,
            "address": self.address,
        }


class FoundOutcome(msgspec.Struct, frozen=True):
    """An outcome as it is looked up, with the name of its table."""

    request_id: str
    result: bytes
    dialect: str | None
    answer_digest: bytes | None
    table: str | None
    version: int | None
    recorded_at: Micros | None
    table_id: UUID | None


def find(request_ids: Iterable[str]) -> Query[dict[str, StoredOutcome]]:
    """The outcomes of requests that were decided before, by request id."""
    return Query(_FIND, {"request_ids": list(request_ids)}, _by_request_id)


def _by_request_id(rows: Rows) -> dict[str, StoredOutcome]:
    return {
        request_id: StoredOutcome(
            request_id=request_id,
            fingerprint=bytes(fingerprint),
            table_id=table_id,
            version=version,
            code=code,
            result=packed_results.unpack(bytes(result), table_id, version, recorded_at),
            dialect=dialect,
            answer_digest=None if answer_digest is None else bytes(answer_digest),
            recorded_at=recorded_at,
        )
        for request_id, fingerprint, table_id, version, code, result, *answered, recorded_at in rows
        for dialect, answer_digest in [answered]
    }


def append(outcomes: Sequence[StoredOutcome]) -> Statement:
    """Record outcomes. A request id that is there already fails the transaction (``OutcomeRaced``)."""
    ordered = sorted(outcomes, key=_BY_REQUEST_ID)
    columns = zip(*map(msgspec.structs.astuple, ordered), strict=True)
    parameters = dict(zip(StoredOutcome.__struct_fields__, map(list, columns), strict=True))
    return _APPEND, parameters | {"result": [_stored_result(outcome) for outcome in ordered]}


def _stored_result(outcome: StoredOutcome) -> bytes:
    if outcome.code is not None:
        return outcome.result
    return packed_results.pack(outcome.result, outcome.table_id, outcome.version, outcome.recorded_at)


async def get(connection: Connection, request_id: str) -> FoundOutcome | None:
    """The outcome of a request, if it was decided."""
    row = (await connection.execute(_GET, {"request_id": request_id})).one_or_none()
    if row is None:
        return None
    table_id, _, result, dialect, answer_digest, table, version, recorded_at = row
    unpacked = packed_results.unpack(bytes(result), table_id, version, recorded_at)
    return FoundOutcome(request_id, unpacked, dialect, answer_digest, table, version, recorded_at, table_id)
