"""The chain of a table's events: time, version and hash of the next ones."""

from __future__ import annotations

import hashlib
from uuid import UUID

import msgspec

from chronolake_metastore.domain.answers import START, ChainHead
from chronolake_metastore.domain.clock import Clock, next_time
from chronolake_metastore.domain.events import (
    Event,
    ImpossibleEvent,
    InstantRequested,
    Origin,
    Payload,
    StoredEvent,
)
from chronolake_model.times import Micros


def next_event(
    clock: Clock,
    origin: Origin,
    payload: Payload,
    instant: Micros | None = None,
    answers: ChainHead = START,
) -> Event:
    """The event with the next time, version and hash of ``clock``.

    A request of an instant is itself the instant: its time is the instant's requested time. ``answers`` is the
    head of the table's chain of answers, which the event's hash covers.
    """
    if isinstance(payload, InstantRequested):
        [event] = next_requests(clock, origin, payload, 1, answers)
        return event
    time = next_time(clock, origin.now.wall)
    return _next_event(clock, origin, payload, encode_payload(payload), time, instant, answers)


def next_requests(
    clock: Clock, origin: Origin, payload: InstantRequested, count: int, answers: ChainHead = START
) -> list[Event]:
    """The next ``count`` events of ``clock``, each of which requests an instant; see ``next_event``."""
    encoded = encode_payload(payload)
    requests = []
    for _ in range(count):
        time = next_time(clock, origin.now.wall)
        event = _next_event(clock, origin, payload, encoded, time, time, answers)
        clock = Clock(clock.table_id, clock.tick, time, event.version, event.hash)
        requests.append(event)
    return requests


def _next_event(
    clock: Clock,
    origin: Origin,
    payload: Payload,
    encoded: bytes,
    time: Micros,
    instant: Micros | None,
    answers: ChainHead,
) -> Event:
    """The event; ``encoded`` is its payload as canonical JSON."""
    version, name = clock.version + 1, type(payload).__name__
    identity = version, name, instant, time, origin.actor, origin.request_id
    table_id, transaction_id = clock.table_id, origin.now.transaction_id
    hashed = msgspec.Raw(encoded)
    digest = _seal(clock.head, table_id, identity, hashed, answers.number, answers.hash, transaction_id)
    return Event(
        table_id=table_id,
        version=version,
        time=time,
        instant=instant,
        actor=origin.actor,
        request_id=origin.request_id,
        payload=payload,
        previous_hash=clock.head,
        hash=digest,
        answers=answers.number,
        answers_hash=answers.hash,
        transaction_id=transaction_id,
        encoded=encoded,
    )


def advance(clock: Clock, event: Event) -> Clock:
    """The clock after ``event``; raises ``ImpossibleEvent``."""
    if event.version != clock.version + 1:
        raise ImpossibleEvent("versions are dense")
    if event.time <= clock.last_time:
        raise ImpossibleEvent("times increase")
    if event.previous_hash != clock.head:
        raise ImpossibleEvent("each event carries the hash of its predecessor")
    return Clock(clock.table_id, clock.tick, event.time, event.version, event.hash)


def encode_payload(payload: Payload) -> bytes:
    """The payload as canonical JSON: sorted names, no spaces, no floats. The hash is computed over it."""
    return msgspec.json.encode(payload, order="sorted")


def payload_bytes(event: StoredEvent) -> int:
    """The size of the stored payload as canonical JSON."""
    return len(msgspec.json.encode(msgspec.json.decode(event.payload)))


def hash_of(event: Event | StoredEvent) -> bytes:
    """SHA-256 over the event, its predecessor's hash, the head of the answers and the transaction's id.

    For a stored event, it covers the stored payload, including fields that this release does not know.
    """
    payload = event.payload if isinstance(event, Event) else msgspec.json.decode(event.payload)
    identity = event.version, event.type, event.instant, event.time, event.actor, event.request_id
    previous, answers_hash = event.previous_hash, event.answers_hash
    return _seal(previous, event.table_id, identity, payload, event.answers, answers_hash, event.transaction_id)


def _seal(
    previous: bytes,
    table_id: UUID,
    identity: tuple[object, ...],
    payload: object,
    answers: int | None,
    answers_hash: bytes | None,
    transaction_id: int,
) -> bytes:
    head_of_answers = None if answers_hash is None else answers_hash.hex()
    # Lists of plain values and sorted objects: the same bytes come out when the event is read back.
    sealed = previous.hex(), table_id, *identity, payload, answers, head_of_answers, transaction_id
    return hashlib.sha256(msgspec.json.encode(sealed, order="sorted")).digest()
