"""The events and outcomes that a group of commands writes, and the answer to a repeated request."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

import msgspec

from chronolake_metastore import errors
from chronolake_metastore.commands.handler import Answer
from chronolake_metastore.domain.commands import Command
from chronolake_metastore.domain.context import Context
from chronolake_metastore.domain.logs import START, answer_again, digest_of_body, grow
from chronolake_metastore.domain.results import AnyRecorded, Refused
from chronolake_metastore.domain.state import State
from chronolake_metastore.projections import registry as projections
from chronolake_metastore.projections.instants import Instants
from chronolake_metastore.projections.logs import AnswerChains
from chronolake_metastore.store import deletions, event_lists, event_log
from chronolake_metastore.store.outcomes import StoredOutcome
from chronolake_metastore.store.postgres.transaction import Statement
from chronolake_metastore.store.refusals import RefusedCommand
from chronolake_model.times import Micros


class Request(msgspec.Struct, frozen=True):
    """A command with its caller."""

    ctx: Context
    command: Command
    fingerprint: bytes
    size_bytes: int
    """The length of the command in its canonical form."""
    records_refusal: bool = True
    """False for a worker that runs periodically: no client waits for the answer to a race that it lost."""


def outcome_of(
    state: State,
    request: Request,
    now: Micros,
    recorded: AnyRecorded,
    log_id: UUID | None,
    code: str | None,
) -> tuple[StoredOutcome, bytes]:
    """The outcome of a request, which has no place in a chain yet, and the body of its answer.

    A refusal has a ``code``.
    """
    ctx = request.ctx
    body, dialect, digest = b"", None, None
    if ctx.dialect is not None:
        body, dialect = ctx.dialect.render(recorded, ctx.request_id), ctx.dialect.name
        digest = digest_of_body(body)
    outcome = StoredOutcome(
        request_id=ctx.request_id,
        fingerprint=request.fingerprint,
        table_id=log_id,
        version=None if log_id is None else state.clocks[log_id].version,
        code=code,
        result=msgspec.json.encode(recorded),
        dialect=dialect,
        answer_digest=digest,
        recorded_at=now,
        command=type(request.command).__name__,
        actor=ctx.actor,
        address=ctx.address,
    )
    return outcome, body


def chained(
    state: State, chain_id: UUID, outcome: StoredOutcome, refusal: RefusedCommand | None
) -> StoredOutcome:
    """The outcome as the next of its chain."""
    columns = None if refusal is None else refusal.columns()
    head = grow(state.answer_heads.get(chain_id, START), chain_id, outcome.columns(), columns)
    state.evolution(AnswerChains).grow(chain_id, head)
    return msgspec.structs.replace(outcome, chain_id=chain_id, number=head.number, hash=head.hash)


def repeated(ctx: Context, outcome: StoredOutcome) -> Answer | errors.TimelineError:
    """The first answer of a request, for each repetition of it."""
    try:
        recorded, body = answer_again(outcome, ctx.dialect)
    except errors.UnknownOutcome as exc:
        return exc
    return refusal_of(recorded, body) if isinstance(recorded, Refused) else Answer(recorded, body)


def refusal_of(refused: Refused, body: bytes) -> errors.TimelineError:
    """A refusal as the error that its caller gets."""
    error = errors.of_code(refused.code, refused.detail, refused.context)
    error.answer = body
    return error


def write(state: State) -> Iterator[Statement]:
    """Append the events with their rows, and write their changes.

    Statements are made one by one: PostgreSQL runs the first while the next ones are made.
    """
    changes = state.changes
    yield from _append_events(state)
    if changes.written:
        yield event_log.append_write_stats(changes.written)
    if changes.lists:
        # Before the projections, which are made of them.
        yield event_lists.append(changes.lists)
    yield from projections.write(state, {of_event.key: of_event.entries for of_event in changes.lists})
    # After the instant's row, which a transaction that creates markers locks before it writes markers.
    for reported in changes.reported:
        yield deletions.append(reported)
    # After all that ends instants.
    if Instants in state.evolutions:
        yield from state.evolution(Instants).refuse_late_markers()
        yield from state.evolution(Instants).delete_markers()


def write_early(state: State) -> Iterator[Statement]:
    """Write the events and the new instants so far.

    No other transaction waits for these rows, so that their order need not be the fixed one of locks.
    """
    yield from _append_events(state)
    if Instants in state.evolutions:
        yield from state.evolution(Instants).add_begun()


def _append_events(state: State) -> Iterator[Statement]:
    """Append the events that were not appended before."""
    changes = state.changes
    if changes.events:
        yield event_log.append(changes.events)
        changes.events = []
