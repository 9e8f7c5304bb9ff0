"""Events as rows of the log store them, and every type of event by its name there."""

from __future__ import annotations

from typing import Final
from uuid import UUID

import msgspec

from chronolake_metastore.domain.events import Event, Payload
from chronolake_model import decoding
from chronolake_model.times import Micros

PAYLOADS: Final[dict[str, type[Payload]]] = {payload.__name__: payload for payload in Payload.__subclasses__()}
"""Every type of event, by the name it has in the log."""


class StoredEvent(msgspec.Struct, frozen=True):
    """One row of the log as it is stored: ``payload`` is JSON that is not decoded yet."""

    table_id: UUID
    version: int
    time: Micros
    instant: Micros | None
    actor: str
    request_id: str
    type: str
    payload: str
    previous_hash: bytes
    hash: bytes
    answers: int | None = None
    answers_hash: bytes | None = None
    transaction_id: int = 0
    payload_bytes: int = 0


def decode(stored: StoredEvent) -> Event:
    """The event that a row of the log is; raises ``ValueError`` when it is none that this release knows."""
    form = PAYLOADS.get(stored.type)
    if form is None:
        raise ValueError(f"{stored.type!r} is not a type of event")
    try:
        payload = decoding.decode(stored.payload, form)
    except msgspec.ValidationError as exc:
        raise ValueError(f"the payload is not that of {stored.type}: {exc}") from exc
    return Event(
        table_id=stored.table_id,
        version=stored.version,
        time=stored.time,
        instant=stored.instant,
        actor=stored.actor,
        request_id=stored.request_id,
        payload=payload,
        previous_hash=stored.previous_hash,
        hash=stored.hash,
        answers=stored.answers,
        answers_hash=stored.answers_hash,
        transaction_id=stored.transaction_id,
    )
