"""The log of a table: its clock, the chain of its events, and the chain of the answers to its commands.

The clock gives time, version and hash of the next event (docs/architecture.md#time). The hash of each outcome
covers its refusal and the hash of its predecessor. Each table has a chain of answers, the catalog has one, and
each of the locks for names of missing tables has one. So a chain grows only under a lock that the command holds
anyway.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final, Protocol
from uuid import UUID

import msgspec

from chronolake_metastore import errors
from chronolake_metastore.domain import results
from chronolake_metastore.domain.context import Dialect
from chronolake_metastore.domain.events import (
    Event,
    ImpossibleEvent,
    InstantCompleted,
    InstantRequested,
    Origin,
    Payload,
)
from chronolake_metastore.domain.lists import ListName, PlannedWork, Sealed
from chronolake_metastore.domain.results import AnyRecorded
from chronolake_metastore.domain.stored_events import StoredEvent
from chronolake_model.times import Micros, Tick

CATALOG_ID: Final = UUID(int=0)
"""The log of the catalog: namespaces that are created and dropped."""
COMMIT_WAIT_SHARE: Final = 4
"""Groups that may run at the same time for one table: each waits for all of them."""
Columns = Mapping[str, object]
"""The columns of a row by name: numbers, texts, bytes, ids, JSON; moments in microseconds."""
ANSWER_DIGEST_BYTES: Final = 16
"""The part of the digest of an answer that is kept. Its result, which the hash covers, gives it again."""
_NAMELESS_MAX: Final = 1 << 16
"""Chains of names have ids below this; ids of tables are random."""


class Clock(msgspec.Struct, frozen=True):
    """The head of a table's log: the last time and version issued, and the last event's hash.

    Instants requested before ``instants_from`` have left the database; None if none have.
    """

    table_id: UUID
    tick: Tick
    last_time: Micros = Micros(0)
    version: int = 0
    head: bytes = b""
    instants_from: Micros | None = None


def next_time(clock: Clock, now: Micros) -> Micros:
    """The next time of a table: later than every earlier one, and not before the wall clock ``now``.

    If the wall clock stands still or steps back, the table's clock continues tick by tick until the wall clock
    has caught up.
    """
    tick = clock.tick.micros
    return Micros(max(clock.last_time + tick, now - now % tick))


def drift(clock: Clock, now: Micros) -> int:
    """How far the clock is ahead of the wall, in microseconds; 0 when it is not."""
    return max(0, clock.last_time - now)


def commit_wait(before: Clock, after: Clock, now: Micros, drift_max_us: int) -> int:
    """How long the answer to a command that moved the clock is delayed, in microseconds.

    This slows a clock down that runs ahead because it issues more times than its tick allows. After the wall
    clock was set back, the delay is bounded by the ticks of a few groups.
    """
    issued = after.last_time - max(before.last_time, now)
    return max(0, min(drift(after, now) - drift_max_us, COMMIT_WAIT_SHARE * issued))


class ChainHead(msgspec.Struct, frozen=True):
    """The end of a chain: the number and the hash of its last outcome. Numbers are dense from 1."""

    number: int = 0
    hash: bytes = b""


START: Final = ChainHead()
"""The head of a chain without outcomes."""


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
        clock = Clock(clock.table_id, clock.tick, time, event.version, event.hash, clock.instants_from)
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
    return Clock(clock.table_id, clock.tick, event.time, event.version, event.hash, clock.instants_from)


def encode_payload(payload: Payload) -> bytes:
    """The payload as canonical JSON: sorted names, no spaces, no floats. The hash is computed over it."""
    return msgspec.json.encode(payload, order="sorted")


def lists_of(payload: Payload) -> dict[ListName, Sealed[Any]]:
    """The lists of a payload that have entries: rows beside its event."""
    lists: dict[ListName, Sealed[Any]] = {}
    match payload:
        case InstantRequested(plan=None):
            return lists
        case InstantRequested(plan=PlannedWork() as plan):
            lists[ListName.PLAN_FILE_GROUPS] = plan.file_groups
            lists[ListName.PLAN_FILES] = plan.files_to_delete
            lists[ListName.PLAN_INSTANTS] = plan.instants
        case InstantCompleted():
            lists[ListName.REPLACED_FILE_GROUPS] = payload.replaced_file_groups
        case _:
            pass
    return {name: sealed for name, sealed in lists.items() if sealed.count}


def payload_bytes(event: StoredEvent) -> int:
    """The size of the stored payload."""
    return len(event.payload.encode())


def hash_of(event: Event | StoredEvent) -> bytes:
    """SHA-256 over the event, its predecessor's hash, the head of the answers and the transaction's id.

    For a stored event, it covers the text of the payload, including fields that this release does not know.
    """
    payload = event.payload if isinstance(event, Event) else msgspec.Raw(event.payload.encode())
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


class StoredAnswer(msgspec.Struct, frozen=True):
    """A row of the outcomes as it is stored, and the row of the refusals with the same request id.

    ``outcome`` and ``refusal`` are the columns that ``seal_answer`` covers.
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


def digest_of_result(answer: bytes) -> bytes:
    """The digest of the bytes of a result, so that a proof need not read large ones."""
    return hashlib.sha256(answer).digest()


def digest_of_body(body: bytes) -> bytes:
    """The digest of an answer that its outcome keeps."""
    return digest_of_result(body)[:ANSWER_DIGEST_BYTES]


def answer_again(kept: KeptAnswer, dialect: Dialect | None) -> tuple[AnyRecorded, bytes]:
    """The result or the refusal that was recorded, and the body of its answer.

    The body is the first one, byte for byte; in another dialect than the first it only says the same. Raises
    ``UnknownOutcome`` when this release cannot give it.
    """
    recorded = results.decode(kept.request_id, kept.result)
    if dialect is None:
        return recorded, b""
    body = dialect.render(recorded, kept.request_id)
    if (
        dialect.name == kept.dialect
        and digest_of_body(body) != (kept.answer_digest or b"")[:ANSWER_DIGEST_BYTES]
    ):
        raise errors.UnknownOutcome(kept.request_id)
    return recorded, body


def seal_answer(
    previous: bytes, chain_id: UUID, number: int, outcome: Columns, refusal: Columns | None
) -> bytes:
    """SHA-256 over the outcome, its refusal, its place and its predecessor's hash, in canonical JSON."""
    sealed = previous.hex(), chain_id, number, outcome, refusal
    return hashlib.sha256(msgspec.json.encode(sealed, order="sorted")).digest()


def grow(head: ChainHead, chain_id: UUID, outcome: Columns, refusal: Columns | None) -> ChainHead:
    """The head of a chain after one more outcome."""
    number = head.number + 1
    return ChainHead(number, seal_answer(head.hash, chain_id, number, outcome, refusal))
