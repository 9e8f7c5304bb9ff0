"""The chains of answers, read to prove them; ``clocks`` has the heads that a group of commands moves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final
from uuid import UUID

import msgspec

from chronolake_metastore.domain import logs
from chronolake_metastore.domain.logs import ChainHead, StoredAnswer
from chronolake_metastore.store import clocks, packed_results
from chronolake_metastore.store.postgres import statements
from chronolake_metastore.store.postgres.transaction import Statement, Transaction

_READ: Final = statements.load("answers/read")
_HEADS: Final = statements.load("answers/find_chain_heads")
_FIND_HASHES: Final = statements.load("answers/find_hashes")
_REFUSALS_WITHOUT_OUTCOME: Final = statements.load("answers/find_refusals_without_outcome")
_READ_PAGE: Final = 1_000
_OUTCOME_COLUMNS: Final = (
    "request_id",
    "fingerprint",
    "table_id",
    "version",
    "code",
    "result_digest",
    "dialect",
    "answer_digest",
    "recorded_at",
    "command",
    "actor",
    "address",
)
_REFUSAL_COLUMNS: Final = (
    "request_id",
    "refused_at",
    "actor",
    "address",
    "command",
    "table_name",
    "table_id",
    "version",
    "instant",
    "code",
    "detail",
    "transaction_id",
)
_PLACE_COLUMNS: Final = 3
_HAS_REFUSAL: Final = _PLACE_COLUMNS + len(_OUTCOME_COLUMNS)
_FIRST: Final = UUID(int=0)
_LAST: Final = UUID(int=(1 << 128) - 1)

AnswerKey = tuple[UUID, int]
"""A chain and a number, which name an outcome."""
BEGINNING: Final[AnswerKey] = (_FIRST, -(1 << 63))
"""Before every outcome of every chain."""


class StoredAnswersHead(msgspec.Struct, frozen=True):
    """The last outcome of a chain; ``table`` is empty unless the chain is that of a table."""

    table: str
    chain_id: UUID
    head: ChainHead


async def read(tx: Transaction, after: AnswerKey, *, only: UUID | None = None) -> Sequence[StoredAnswer]:
    """The next page of outcomes in the order of their chains, of all of them or of ``only`` one."""
    after_chain, after_number = after
    if only is not None and after_chain != only:
        after_chain, after_number = only, BEGINNING[1]
    rows = await tx.query(
        _READ,
        {
            "after_chain": after_chain,
            "after_number": after_number,
            "last_chain": only or _LAST,
            "limit": _READ_PAGE,
        },
    )
    return [_unpacked(packed, stored(row)) for packed, *row in rows]


def _unpacked(packed: bytes | None, answer: StoredAnswer) -> StoredAnswer:
    """The answer with the digest of the JSON of its result."""
    if packed is None:
        return answer
    outcome: Any = answer.outcome
    place = outcome["table_id"], outcome["version"], outcome["recorded_at"]
    digest = logs.digest_of_result(packed_results.unpack(bytes(packed), *place))
    return msgspec.structs.replace(answer, outcome={**outcome, "result_digest": digest})


async def heads(tx: Transaction, only: UUID | None = None) -> list[StoredAnswersHead]:
    """The last outcome of each chain, or of ``only`` one, in the order of the chains."""
    rows = await tx.query(_HEADS, {"chain_id": only})
    return [
        StoredAnswersHead(name or "", chain_id, ChainHead(number, bytes(digest)))
        for chain_id, number, digest, name in rows
    ]


def project(heads: Iterable[StoredAnswersHead]) -> Statement:
    """Save the heads that ``heads`` read."""
    return clocks.save_answer_heads({last.chain_id: last.head for last in heads})


async def hashes(tx: Transaction, keys: Sequence[AnswerKey]) -> dict[AnswerKey, bytes]:
    """The hash of each of the outcomes that is there."""
    parameters = {
        "chain_ids": [chain_id for chain_id, _ in keys],
        "numbers": [number for _, number in keys],
    }
    rows = await tx.query(_FIND_HASHES, parameters)
    return {(chain_id, number): bytes(digest) for chain_id, number, digest in rows}


async def refusals_without_outcome(
    tx: Transaction, table_id: UUID | None, limit: int
) -> list[tuple[UUID | None, str | None, int | None, str]]:
    """The first ``limit`` refusals without an outcome: table id, name, version and request id."""
    rows = await tx.query(_REFUSALS_WITHOUT_OUTCOME, {"table_id": table_id, "limit": limit})
    return [(of_table, name, version, request_id) for of_table, name, version, request_id in rows]


def stored(row: Sequence[Any]) -> StoredAnswer:
    """A row of the outcomes, with the digest of its result and the columns of its refusal."""
    chain_id, number, digest = row[:_PLACE_COLUMNS]
    outcome = dict(zip(_OUTCOME_COLUMNS, row[_PLACE_COLUMNS:_HAS_REFUSAL], strict=True))
    refusal = None
    if row[_HAS_REFUSAL]:
        *columns, context = row[_HAS_REFUSAL + 1 :]
        refusal = dict(zip(_REFUSAL_COLUMNS, columns, strict=True))
        refusal["context"] = msgspec.json.decode(context)
    return StoredAnswer(
        chain_id=chain_id,
        number=number,
        hash=bytes(digest),
        request_id=outcome["request_id"],
        version=outcome["version"],
        outcome=outcome,
        refusal=refusal,
    )
