"""Chains of answers: outcomes and refusals are sealed, those that there were too."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import msgspec
import psycopg
from alembic import op

from chronolake_migrations.sql import execute, read

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

_OUTCOME = (
    "request_id",
    "fingerprint",
    "table_id",
    "version",
    "status",
    "answer_digest",
    "recorded_at",
    "command",
    "actor",
    "address",
)
_REFUSAL = (
    "request_id",
    "refused_at",
    "actor",
    "address",
    "command",
    "table_name",
    "table_id",
    "version",
    "instant",
    "status",
    "code",
    "detail",
)
_ROWS = 10_000


def upgrade() -> None:
    """Add the columns, put what is there into the chains, and close them."""
    execute("0018_answer_chains.sql")
    connection = op.get_bind().connection.driver_connection
    assert isinstance(connection, psycopg.Connection)
    connection.execute("ALTER TABLE chronolake.outcome DISABLE TRIGGER outcome_append_only")
    _chain(connection)
    connection.execute("ALTER TABLE chronolake.outcome ENABLE ALWAYS TRIGGER outcome_append_only")
    execute("0018_close_answers.sql")


def _chain(connection: psycopg.Connection) -> None:
    heads: dict[UUID, tuple[int, bytes]] = {}
    with connection.cursor(name="answers") as cursor:
        cursor.execute(read("0018_answers_without_chain.sql"))
        while rows := cursor.fetchmany(_ROWS):
            chained = [_next(heads, row) for row in rows]
            names = "request_id", "chain_id", "number", "hash"
            columns = dict(zip(names, map(list, zip(*chained, strict=True)), strict=True))
            connection.execute(read("0018_chain_answers.sql"), columns)


def _next(heads: dict[UUID, tuple[int, bytes]], row: Sequence[Any]) -> tuple[str, UUID, int, bytes]:
    """The place of an outcome, by a copy of the servers' rule: this revision must not change with them."""
    outcome = dict(zip(_OUTCOME, row, strict=False))
    refusal: dict[str, Any] | None = None
    if row[len(_OUTCOME)]:
        *columns, context = row[len(_OUTCOME) + 1 :]
        refusal = {**dict(zip(_REFUSAL, columns, strict=True)), "context": json.loads(context)}
    chain_id = outcome["table_id"] or _chain_of_name(refusal)
    number, previous = heads.get(chain_id, (0, b""))
    sealed = previous.hex(), chain_id, number + 1, outcome, refusal
    digest = hashlib.sha256(msgspec.json.encode(sealed, order="sorted")).digest()
    heads[chain_id] = number + 1, digest
    return outcome["request_id"], chain_id, number + 1, digest


def _chain_of_name(refusal: Mapping[str, Any] | None) -> UUID:
    name = "" if refusal is None else refusal["table_name"] or ""
    return UUID(int=1 + zlib.crc32(name.encode()) % 1_024)
