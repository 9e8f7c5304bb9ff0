"""Refusals: each refused command, for auditors, appended in the transaction that decided."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

import msgspec

from chronolake_metastore.store.postgres import statements
from chronolake_metastore.store.postgres.transaction import Statement
from chronolake_model.times import Micros

_APPEND: Final = statements.load("refusals/append")


class RefusedCommand(msgspec.Struct, frozen=True):
    """A refused command. ``table_id`` is that of the table meant, if there is one; ``version`` is its log's."""

    request_id: str
    refused_at: Micros
    actor: str
    address: str | None
    command: str
    table_name: str | None
    table_id: UUID | None
    version: int | None
    instant: Micros | None
    code: str
    detail: str
    context: dict[str, Any]
    transaction_id: int

    def columns(self) -> dict[str, object]:
        """The columns that the hash of its outcome covers: all but the position."""
        return msgspec.structs.asdict(self)


def append(refusals: Sequence[RefusedCommand]) -> Statement:
    """Record refusals, in their order."""
    parameters: dict[str, list[Any]] = {
        name: [getattr(refusal, name) for refusal in refusals] for name in RefusedCommand.__struct_fields__
    }
    # The database states it.
    del parameters["transaction_id"]
    parameters["context"] = [msgspec.json.encode(refusal.context).decode() for refusal in refusals]
    return _APPEND, parameters
