"""Outcomes: what each request id was answered, appended in the transaction of the command."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final
from uuid import UUID

import msgspec

from chronolake_metastore.store import statements
from chronolake_metastore.store.transaction import Rows, Statement

_FIND: Final = statements.load("find_outcomes")
_APPEND: Final = statements.load("append_outcomes")


class Outcome(msgspec.Struct, frozen=True):
    """The answer to a request: an HTTP status and a JSON body. ``version`` is the table's right after it."""

    request_id: str
    fingerprint: bytes
    table_id: UUID
    version: int
    status: int
    answer: bytes


def find(request_ids: Iterable[str]) -> Statement:
    """Look for the outcomes of requests that were carried out before."""
    return _FIND, {"request_ids": list(request_ids)}


def found(rows: Rows) -> dict[str, Outcome]:
    """The outcomes that ``find`` found, by request id."""
    return {
        request_id: Outcome(request_id, bytes(fingerprint), table_id, version, status, bytes(answer))
        for request_id, fingerprint, table_id, version, status, answer in rows
    }


def append(outcomes: Sequence[Outcome]) -> Statement:
    """Record outcomes. A request id that is there already fails the transaction (``OutcomeRaced``)."""
    return _APPEND, {
        name: [getattr(outcome, name) for outcome in outcomes]
        for name in ("request_id", "fingerprint", "table_id", "version", "status", "answer")
    }
