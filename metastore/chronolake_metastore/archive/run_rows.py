"""The rows of a run of an archive, as a database would give them: with the hashes that follow from them.

Each file is read once from its beginning to its end, because all are in the order of the events.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final
from uuid import UUID

import msgspec

from chronolake_metastore.archive import rows
from chronolake_metastore.archive.rows import Row
from chronolake_metastore.archive.storage import ArchiveStorage
from chronolake_metastore.domain import archives, logs
from chronolake_metastore.domain.archives import ArchiveEnds, ArchiveRun, ListedRun
from chronolake_metastore.domain.changes import ListKey
from chronolake_metastore.domain.lists import ListEntry, ListName
from chronolake_metastore.domain.logs import START, ChainHead, StoredAnswer
from chronolake_metastore.domain.proof import FollowedAnswers, ProofFinding
from chronolake_metastore.domain.stored_events import StoredEvent
from chronolake_metastore.store import answers, proof
from chronolake_metastore.store.answers import AnswerKey
from chronolake_metastore.store.event_lists import StoredEntry
from chronolake_metastore.store.proof import EventKey, StoredDeletedFile, StoredWriteStat
from chronolake_model.times import Micros

PAGE_EVENTS: Final = 1_000
ORPHAN: Final = "a row of {} that nothing names"
_BESIDE: Final = ("write_stat", "deleted_file", "event_entry")
ReportRow = Callable[[str, EventKey], None]
"""Takes what is wrong with a row, and its key."""
RowSource = Callable[[str], Iterator[Row]]
"""Gives the rows of a table of the log."""


def read(storage: ArchiveStorage, listed: ListedRun, run: ArchiveRun, table: str) -> Iterator[Row]:
    """The rows of a table or an index of a run; raises ``ArchiveDamaged`` at a file that is not as written."""
    for file in run.files:
        if file.table == table:
            yield from rows.read(table, storage.content(listed, file))


class RunRows:
    """The rows of one run, or of a part, as ``proof.log_checks.LogRows``, and its events and outcomes.

    ``ends`` are those before the rows. ``ends_of_rows`` are those after the rows that were read.
    """

    def __init__(
        self,
        source: RowSource,
        ends: ArchiveEnds,
        report_answer: Callable[[StoredAnswer, Sequence[ProofFinding]], None],
        report_row: ReportRow,
    ) -> None:
        self._events = source("event")
        self._beside = {table: _Beside(table, source(table), report_row) for table in _BESIDE}
        self._answers = _Answers(source("outcome"), source("refusal"), ends.outcomes, report_answer, report_row)
        self._report_row = report_row
        self._heads = dict(ends.events)
        self._hashes: dict[AnswerKey, bytes] = {}

    @property
    def ends_of_rows(self) -> ArchiveEnds:
        """The last event and outcome of each chain so far."""
        return ArchiveEnds(self._heads, self._answers.heads)

    def pages(self) -> Iterator[list[StoredEvent]]:
        """The events, by table and version."""
        while True:
            self._hashes = {}
            page = [self._event(row) for row in islice(self._events, PAGE_EVENTS)]
            if not page:
                return
            yield page

    def finish(self) -> None:
        """Read the rows after those of the last event."""
        self._answers.finish()
        for beside in self._beside.values():
            beside.finish()

    async def write_stats(self, events: Sequence[EventKey]) -> AsyncIterator[StoredWriteStat]:
        for row in self._beside["write_stat"].of(events):
            yield proof.stored_write_stat(row)

    async def deleted_files(self, events: Sequence[EventKey]) -> AsyncIterator[StoredDeletedFile]:
        for row in self._beside["deleted_file"].of(events):
            yield proof.stored_deleted_file(row)

    async def entries(self, lists: Sequence[ListKey]) -> AsyncIterator[StoredEntry]:
        for row in self._beside["event_entry"].of([(of.table_id, of.version) for of in lists]):
            table_id, version, name, ordinal, instant, partition_path, entry = row
            of = ListKey(table_id, Micros(instant), version, ListName(name))
            if of in lists:
                yield StoredEntry(of, ordinal, ListEntry(partition_path, entry))
            else:
                self._report_row(ORPHAN.format("event_entry"), (table_id, version))

    async def answer_hashes(self, keys: Sequence[AnswerKey]) -> Mapping[AnswerKey, bytes]:
        """The hashes that the events of the last page carry."""
        return self._hashes

    def _event(self, row: Row) -> StoredEvent:
        table_id, version, transaction_id, _, name, instant, time, actor, request_id, *others = row
        count, payload, checkpoint = others
        answers_hash = None
        if count is not None:
            answers_hash, next_request_id = self._answers.at(table_id, count)
            if answers_hash is not None:
                self._hashes[table_id, count] = answers_hash
            request_id = request_id or next_request_id
        event = StoredEvent(
            table_id=table_id,
            version=version,
            time=Micros(time),
            instant=None if instant is None else Micros(instant),
            actor=actor,
            request_id=request_id or "",
            type=name,
            payload=payload,
            previous_hash=self._heads.get(table_id, START).hash,
            hash=b"",
            answers=count,
            answers_hash=b"" if answers_hash is None and count is not None else answers_hash,
            transaction_id=transaction_id,
            payload_bytes=len(payload.encode()),
        )
        event = msgspec.structs.replace(event, hash=logs.hash_of(event))
        if checkpoint != (event.hash if version % archives.CHECKPOINT_EVERY == 0 else None):
            self._report_row("the hash beside an event", (table_id, version))
        self._heads[table_id] = ChainHead(version, event.hash)
        return event


class _Beside:
    """The rows of a table beside the events, which are asked for in the order of the events."""

    def __init__(self, table: str, rows_of_table: Iterator[Row], report_row: ReportRow) -> None:
        self._table = table
        self._rows = rows_of_table
        self._next = next(rows_of_table, None)
        self._report_row = report_row

    def of(self, events: Sequence[EventKey]) -> Iterator[Row]:
        """The rows of these events."""
        named = set(events)
        yield from self._until(max(named, default=None), named)

    def finish(self) -> None:
        """Read the remaining rows, which no event has."""
        while self._next is not None:
            self._report_row(ORPHAN.format(self._table), self._next[:2])
            self._next = next(self._rows, None)

    def _until(self, last: EventKey | None, named: set[EventKey]) -> Iterator[Row]:
        while last is not None and self._next is not None and self._next[:2] <= last:
            row, self._next = self._next, next(self._rows, None)
            if row[:2] in named:
                yield row
            else:
                self._report_row(ORPHAN.format(self._table), row[:2])


class _Answers:
    """The outcomes with their refusals, followed in the order of their chains."""

    def __init__(
        self,
        outcomes: Iterator[Row],
        refusals: Iterator[Row],
        heads: Mapping[UUID, ChainHead],
        report_answer: Callable[[StoredAnswer, Sequence[ProofFinding]], None],
        report_row: ReportRow,
    ) -> None:
        self._outcomes = outcomes
        self._next = next(outcomes, None)
        self._refusals = refusals
        self._refusal = next(refusals, None)
        self._followed = FollowedAnswers()
        self._followed.heads.update(heads)
        self._before: dict[UUID, ChainHead] = {}
        self._request_id = ""
        self._report_answer = report_answer
        self._report_row = report_row

    @property
    def heads(self) -> dict[UUID, ChainHead]:
        """The last outcome of each chain so far."""
        return self._followed.heads

    def at(self, chain_id: UUID, number: int) -> tuple[bytes | None, str | None]:
        """The hash of an outcome, and the request id of the one after it; None where the run has no such."""
        while self._next is not None and self._next[:2] <= (chain_id, number + 1):
            self._follow()
        head, before = self.heads.get(chain_id, START), self._before.get(chain_id, START)
        if head.number == number:
            return head.hash, None
        if (head.number, before.number) == (number + 1, number):
            return before.hash, self._request_id
        return None, None

    def finish(self) -> None:
        """Follow the outcomes after those of the last event."""
        while self._next is not None:
            self._follow()
        if self._refusal is not None:
            self._report_row(ORPHAN.format("refusal"), self._refusal[:2])

    def _follow(self) -> None:
        assert self._next is not None
        key = self._next[:2]
        refusal = None
        if self._refusal is not None and self._refusal[:2] == key:
            refusal, self._refusal = self._refusal, next(self._refusals, None)
        head = self.heads.get(key[0], START)
        answer = answer_of(self._next, refusal, head)
        if self._next[-1] != (answer.hash if answer.number % archives.CHECKPOINT_EVERY == 0 else None):
            self._report_row("the hash beside an outcome", key)
        self._before[key[0]], self._request_id = head, answer.request_id
        self._report_answer(answer, self._followed.follow(answer, str(key[0])))
        self._next = next(self._outcomes, None)


def answer_of(row: Row, refusal: Row | None, head: ChainHead) -> StoredAnswer:
    """The outcome of a row, with its refusal, after the ``head`` of its chain."""
    chain_id, number, request_id, fingerprint, table_id, version, code, result, *columns, _ = row
    refused: tuple[object, ...] = (None,) * 13
    if refusal is not None:
        _, _, transaction_id, _, *of_refusal, context = refusal
        refused = (request_id, *of_refusal, transaction_id, context)
    digest = logs.digest_of_result(result)
    outcome = request_id, fingerprint, table_id, version, code, digest, *columns
    answer = answers.stored((chain_id, number, b"", *outcome, refusal is not None, *refused))
    sealed = logs.seal_answer(head.hash, chain_id, number, answer.outcome, answer.refusal)
    return msgspec.structs.replace(answer, hash=sealed)
