"""The answers to commands."""

from __future__ import annotations

from uuid import UUID

import msgspec

from chronolake_metastore.domain import instants
from chronolake_metastore.domain.state import State
from chronolake_metastore.domain.tables import Table
from chronolake_model.times import Micros


class Answer(msgspec.Struct, frozen=True):
    """The answer to a command: an HTTP status, a JSON body, and the log that it concerned."""

    status: int
    body: bytes
    table_id: UUID


def answer(status: int, document: msgspec.Struct, table_id: UUID) -> Answer:
    """A document as it is."""
    return Answer(status, msgspec.json.encode(document), table_id)


def answer_instant(status: int, state: State, table: Table, requested_time: Micros) -> Answer:
    """An instant in its present state."""
    document = instants.document(table, state.instants[table.table_id, requested_time], state.wall_offset)
    return answer(status, document, table.table_id)
