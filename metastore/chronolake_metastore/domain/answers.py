"""The chains of answers: the hash of each outcome covers its refusal and the hash of its predecessor.

Each table has a chain, the catalog has one, and each of the locks for names of missing tables has one. So a
chain grows only under a lock that the command holds anyway.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final, Protocol
from uuid import UUID

import msgspec

from chronolake_metastore import errors
from chronolake_metastore.domain import results
from chronolake_metastore.domain.context import Dialect
from chronolake_metastore.domain.results import AnyRecorded

Columns = Mapping[str, object]
"""The columns of a row by name: numbers, texts, bytes, ids, JSON; moments in microseconds."""
_NAMELESS_MAX: Final = 1 << 16
"""Chains of names have ids below this; ids of tables are random."""


class ChainHead(msgspec.Struct, frozen=True):
    """The end of a chain: the number and the hash of its last outcome. Numbers are dense from 1."""

    number: int = 0
    hash: bytes = b""


START: Final = ChainHead()
"""The head of a chain without outcomes."""


class StoredAnswer(msgspec.Struct, frozen=True):
    """A row of the outcomes as it is stored, and the row of the refusals with the same request id.

    ``outcome`` and ``refusal`` are the columns that ``seal`` covers.
    """

    chain_id: UUID
    number: int
    hash: bytes
    request_id: str
    version: int | None
    outcome: Columns
    refusal: Columns | None


class KeptAnswer(Protocol):
    """The answer as an outcome keeps it: the result, the dialect, and the digest of the bytes that were sent.

    An outcome without a dialect was never rendered.
    """

    @property
    def request_id(self) -> str: ...
    @property
    def result(self) -> bytes: ...
    @property
    def dialect(self) -> str | None: ...
    @property
    def answer_digest(self) -> bytes | None: ...


def chain_of_name(turn: int) -> UUID:
    """The id of the chain of outcomes that concern no table, of the names that share the lock ``turn``."""
    chain_id = UUID(int=turn + 1)
    assert is_nameless(chain_id)
    return chain_id


def is_nameless(chain_id: UUID) -> bool:
    """Whether the chain is of outcomes that concern no table."""
    return 0 < chain_id.int < _NAMELESS_MAX


def digest_of_answer(answer: bytes) -> bytes:
    """The digest of the bytes of a result or an answer, so that a proof need not read large ones."""
    return hashlib.sha256(answer).digest()


def answer_again(kept: KeptAnswer, dialect: Dialect | None) -> tuple[AnyRecorded, bytes]:
    """The result or the refusal that was recorded, and the body of its answer.

    The body is the first one, byte for byte; in another dialect than the first it only says the same. Raises
    ``UnknownOutcome`` when this release cannot give it.
    """
    recorded = results.decode(kept.request_id, kept.result)
    if dialect is None:
        return recorded, b""
    body = dialect.render(recorded, kept.request_id)
    if dialect.name == kept.dialect and digest_of_answer(body) != kept.answer_digest:
        raise errors.UnknownOutcome(kept.request_id)
    return recorded, body


def seal(previous: bytes, chain_id: UUID, number: int, outcome: Columns, refusal: Columns | None) -> bytes:
    """SHA-256 over the outcome, its refusal, its place and its predecessor's hash, in canonical JSON."""
    sealed = previous.hex(), chain_id, number, outcome, refusal
    return hashlib.sha256(msgspec.json.encode(sealed, order="sorted")).digest()


def grow(head: ChainHead, chain_id: UUID, outcome: Columns, refusal: Columns | None) -> ChainHead:
    """The head of a chain after one more outcome."""
    number = head.number + 1
    return ChainHead(number, seal(head.hash, chain_id, number, outcome, refusal))
