"""The checks that prove the log, and their findings (docs/architecture.md#proof)."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from uuid import UUID

import msgspec

from chronolake_metastore.domain import logs
from chronolake_metastore.domain.logs import ChainHead, StoredAnswer, hash_of, payload_bytes
from chronolake_metastore.domain.stored_events import StoredEvent
from chronolake_model.times import Micros, Tick, format_time

NOTHING = "nothing"
"""The expected or found value if there is no row."""


class Check(enum.StrEnum):
    """The kinds of findings."""

    HASH = "hash"
    """An event whose columns, payload or transaction do not match its hash."""
    CHAIN = "chain"
    """An event that carries another hash than its predecessor has."""
    VERSION = "version"
    """A missing event."""
    TIME = "time"
    """A time that is not later than the one before."""
    ORDER = "order"
    """Transactions in another order than versions."""
    PAYLOAD = "payload"
    """A type or a payload that no event of this release has."""
    REPLAY = "replay"
    """An event that cannot follow from those before it."""
    WRITE_STATS = "write-stats"
    """Write stats that were changed, added or removed, or that no event published."""
    DELETIONS = "deletions"
    """Deleted files that were changed, added or removed, or that no event reported."""
    LISTS = "lists"
    """Entries of ``event_entry`` that were changed, added or removed, or that no event names. The first hundred
    are named by their ordinals."""
    OUTCOME = "outcome"
    """An outcome or a refusal that was changed, added or removed; an event without the outcome of its request,
    or an outcome without its event; an event with another hash of the last outcome."""
    PROJECTION = "projection"
    """A row that differs from the replay, also of clocks."""
    HEAD = "head"
    """With ``--heads``: a head that the log does not contain, or a changed document."""
    ARCHIVE = "archive"
    """With ``archive verify``: a run or a file that is missing or changed, or does not fit its neighbours."""


class ProofFinding(msgspec.Struct, frozen=True):
    """A finding. ``table`` is a name, or an id if no name is known."""

    check: Check
    table: str
    version: int | None
    what: str
    expected: str
    found: str


class SharedBasePath(msgspec.Struct, frozen=True):
    """A live table in which nothing is deleted: its base path overlaps with that of ``other``.

    ``other`` is None when the base path cannot be compared. The table was created before base paths were
    checked.
    """

    table: str
    other: str | None


class _Head(msgspec.Struct, frozen=True):
    """The last event of a table that was followed."""

    version: int = 0
    time: Micros = Micros(0)
    hash: bytes = b""


_START = _Head()


class Chains:
    """The chain of each table, followed event by event in the order across tables.

    It holds a head per table and the missing versions, never the events.
    """

    def __init__(self) -> None:
        self._heads: dict[UUID, _Head] = {}
        self._missing: dict[UUID, list[range]] = {}
        self._late: dict[UUID, set[int]] = {}

    def begin_after(self, heads: Mapping[UUID, ChainHead]) -> None:
        """Go on after these events, where others were followed last."""
        for table_id, head in heads.items():
            followed = self._heads.get(table_id, _START)
            if (followed.version, followed.hash) != (head.number, head.hash):
                self._heads[table_id] = _Head(head.number, Micros(0), head.hash)

    @property
    def tables(self) -> int:
        """How many tables there were events of, the catalog among them."""
        return len(self._heads)

    def follow(self, event: StoredEvent, table: str) -> list[ProofFinding]:
        """The findings on the next event, by itself and after its predecessor."""
        if hash_of(event) == event.hash:
            findings = []
        else:
            findings = [_finding(Check.HASH, table, event, "its hash", hash_of(event).hex(), event.hash.hex())]
        if event.payload_bytes != (size := payload_bytes(event)):
            what = "the size of its payload in bytes"
            findings.append(_finding(Check.HASH, table, event, what, str(size), str(event.payload_bytes)))
        head = self._heads.get(event.table_id, _START)
        if event.version <= head.version:
            self._late.setdefault(event.table_id, set()).add(event.version)
            what = "its transaction, or its position, is after that of a later version"
            return [*findings, _finding(Check.ORDER, table, event, what, "before", f"version {head.version}")]
        if event.version > head.version + 1:
            self._missing.setdefault(event.table_id, []).append(range(head.version + 1, event.version))
        elif event.previous_hash != head.hash:
            what = f"the hash of version {head.version} that it carries"
            findings.append(
                _finding(Check.CHAIN, table, event, what, head.hash.hex(), event.previous_hash.hex())
            )
        if event.time <= head.time:
            expected = f"later than {format_time(head.time, Tick.MICROSECOND)}"
            actual = format_time(event.time, Tick.MICROSECOND)
            findings.append(_finding(Check.TIME, table, event, "its time", expected, actual))
        self._heads[event.table_id] = _Head(event.version, event.time, event.hash)
        return findings

    def missing(self) -> Iterator[tuple[UUID, int]]:
        """Each version that no event had, though a later one was there."""
        for table_id, gaps in self._missing.items():
            late = self._late.get(table_id, set())
            yield from ((table_id, version) for gap in gaps for version in gap if version not in late)

    def is_broken(self, table_id: UUID) -> bool:
        """Whether versions of the table are missing or misplaced."""
        return table_id in self._missing


class FollowedAnswers:
    """Each chain of answers, followed outcome by outcome; it holds a head per chain."""

    def __init__(self) -> None:
        self.heads: dict[UUID, ChainHead] = {}

    def follow(self, answer: StoredAnswer, table: str) -> list[ProofFinding]:
        """The findings on the next outcome of a chain, by itself and after its predecessor."""
        head = self.heads.get(answer.chain_id, logs.START)
        self.heads[answer.chain_id] = ChainHead(answer.number, answer.hash)
        named = f"the outcome of {answer.request_id!r}, number {answer.number} of its chain"
        if answer.number != head.number + 1:
            # The predecessor is not known, so nothing can be said of the hash.
            what = f"{named}: its predecessor"
            expected = f"number {answer.number - 1}"
            actual = f"number {head.number}" if head.number else NOTHING
            return [ProofFinding(Check.OUTCOME, table, answer.version, what, expected, actual)]
        sealed = logs.seal_answer(head.hash, answer.chain_id, answer.number, answer.outcome, answer.refusal)
        if sealed == answer.hash:
            return []
        what = f"{named}: its hash, over its columns and those of its refusal"
        return [ProofFinding(Check.OUTCOME, table, answer.version, what, sealed.hex(), answer.hash.hex())]


def _finding(
    check: Check, table: str, event: StoredEvent, what: str, expected: str, actual: str
) -> ProofFinding:
    return ProofFinding(check, table, event.version, f"{event.type}: {what}", expected, actual)
