"""Events of a run with their hashes, which are computed from the nearest ones that the archive has."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NoReturn
from uuid import UUID

import msgspec

from chronolake_metastore.archive.rows import EVENT_ORDER, Row
from chronolake_metastore.archive.run_reading import RunReader
from chronolake_metastore.archive.run_rows import RunRows
from chronolake_metastore.domain import archives
from chronolake_metastore.domain.archives import ArchiveEnds, ChainPlaces
from chronolake_metastore.domain.logs import ChainHead, StoredAnswer
from chronolake_metastore.domain.proof import ProofFinding
from chronolake_metastore.domain.stored_events import StoredEvent
from chronolake_metastore.store.archived import ArchivedEvent
from chronolake_metastore.store.proof import EventKey

_HEADS_MAX: Final = 20_000
_ANSWERS: Final = 9
"""The column of an event's row that has the number of the last outcome before it."""
FindHash = Callable[[UUID, int], bytes | None]


class EventSpan(msgspec.Struct, frozen=True):
    """Consecutive events of a table."""

    table_id: UUID
    first: int
    last: int


def spans(run: RunReader, event_rows: Sequence[int]) -> Iterator[EventSpan]:
    """Rows of events as spans of their tables. Raises ``ArchiveDamaged``."""
    span: EventSpan | None = None
    for row in sorted(event_rows):
        try:
            table_id, version = run.events.entry(row)
        except IndexError as exc:
            raise run.damaged(EVENT_ORDER, "rows of the run", str(exc)) from exc
        if span is not None and (table_id, version) == (span.table_id, span.last + 1):
            span = EventSpan(table_id, span.first, version)
        else:
            if span is not None:
                yield span
            span = EventSpan(table_id, version, version)
    if span is not None:
        yield span


class ChainReading:
    """Computes hashes, and remembers those from which the next events follow."""

    def __init__(self) -> None:
        self._heads: OrderedDict[tuple[str, UUID, int], bytes] = OrderedDict()

    def events(self, run: RunReader, span: EventSpan, hash_of_outcome: FindHash) -> Iterator[ArchivedEvent]:
        """The events of a span of a run, by version.

        ``hash_of_outcome`` finds the hash of an outcome at the end of a chain in an earlier run. Raises
        ``ArchiveDamaged``.
        """
        first = span.first
        while first <= span.last:
            last = min(span.last, archives.checkpoint(first - 1) + archives.CHECKPOINT_EVERY)
            yield from self._part(run, EventSpan(span.table_id, first, last), hash_of_outcome)
            first = last + 1

    def _part(self, run: RunReader, span: EventSpan, hash_of_outcome: FindHash) -> list[ArchivedEvent]:
        table_id = span.table_id
        before = self._head(run, "event", table_id, span.first - 1)
        first_row = run.events.row(table_id, before.number + 1)
        events = list(run.rows("event", first_row, run.events.row(table_id, span.last) + 1))
        answers, outcomes = self._outcomes(run, table_id, events, hash_of_outcome)
        refusals: Sequence[Row] = ()
        if outcomes:
            low, high = outcomes[0][:2], outcomes[-1][:2]
            refusals = list(run.between("refusal", low, high))
        sources = {"event": events, "outcome": outcomes, "refusal": refusals}
        ends = ArchiveEnds({table_id: before}, {table_id: answers})
        refuse = _Refusal(run)
        rows = RunRows(
            lambda table: iter(sources.get(table, ())), ends, refuse.report_answer, refuse.report_row
        )
        stored = [event for page in rows.pages() for event in page]
        self._check(run, table_id, before.number + 1, stored)
        for kind, heads in (("event", rows.ends_of_rows.events), ("outcome", rows.ends_of_rows.outcomes)):
            self._remember(kind, table_id, heads[table_id])
        found = [ArchivedEvent(event, row[3]) for event, row in zip(stored, events, strict=True)]
        return found[span.first - before.number - 1 :]

    def _outcomes(
        self, run: RunReader, chain_id: UUID, events: Sequence[Row], hash_of_outcome: FindHash
    ) -> tuple[ChainHead, list[Row]]:
        """The outcomes that events carry and the next one, and the head before them."""
        numbers = [row[_ANSWERS] for row in events if row[_ANSWERS] is not None]
        if not numbers:
            return ChainHead(), []
        least, greatest = min(numbers), max(numbers) + 1
        span = run.outcomes.span(chain_id)
        if span is None or least < span.first - 1:
            digest = hash_of_outcome(chain_id, least) if least else b""
            if digest is None or greatest > least + 1:
                raise run.damaged("outcome", f"outcome {least} of the chain {chain_id}", "nothing")
            return ChainHead(least, digest), []
        before = self._head(run, "outcome", chain_id, min(least, span.last))
        last = min(greatest, span.last)
        if before.number == last:
            return before, []
        first_row = run.outcomes.row(chain_id, before.number + 1)
        return before, list(run.rows("outcome", first_row, run.outcomes.row(chain_id, last) + 1))

    def _head(self, run: RunReader, kind: str, chain_id: UUID, number: int) -> ChainHead:
        """The entry with this number, or the nearest before it whose hash is known."""
        places = _places(run, kind)
        span = places.span(chain_id)
        assert span is not None
        known = self._heads.get((kind, chain_id, number))
        if known is not None:
            return ChainHead(number, known)
        checkpoint = archives.checkpoint(number)
        if checkpoint < span.first:
            return ChainHead(span.first - 1, bytes.fromhex(span.before))
        digest = run.row(kind, places.row(chain_id, checkpoint))[-1]
        if digest is None:
            raise run.damaged(kind, f"the hash of {checkpoint} of the chain {chain_id}", "nothing")
        return ChainHead(checkpoint, digest)

    def _remember(self, kind: str, chain_id: UUID, head: ChainHead) -> None:
        self._heads[kind, chain_id, head.number] = head.hash
        if len(self._heads) > _HEADS_MAX:
            self._heads.popitem(last=False)

    def _check(self, run: RunReader, table_id: UUID, first: int, events: Sequence[StoredEvent]) -> None:
        """Raise ``ArchiveDamaged`` unless these are the events from ``first`` on, each with its outcomes."""
        span = run.events.span(table_id)
        assert span is not None
        for version, event in enumerate(events, first):
            name = f"version {version} of {table_id}"
            if (event.table_id, event.version) != (table_id, version):
                raise run.damaged("event", name, f"version {event.version} of {event.table_id}")
            if (event.answers and not event.answers_hash) or not event.request_id:
                raise run.damaged("outcome", f"the outcome of {name}", "nothing")
            if version == span.last and event.hash.hex() != span.hash:
                raise run.damaged("event", f"{name} with hash {span.hash}", event.hash.hex())


class _Refusal:
    """Raises ``ArchiveDamaged`` for what a verification would note."""

    def __init__(self, run: RunReader) -> None:
        self._run = run

    def report_answer(self, answer: StoredAnswer, findings: Sequence[ProofFinding]) -> None:
        for finding in findings:
            raise self._run.damaged(finding.what, finding.expected, finding.found)

    def report_row(self, what: str, key: EventKey) -> NoReturn:
        chain_id, number = key
        raise self._run.damaged(f"number {number} of the chain {chain_id}", "what its digests say", what)


def _places(run: RunReader, kind: str) -> ChainPlaces:
    return run.events if kind == "event" else run.outcomes
