"""Rows of the log that leave PostgreSQL now, and the files of an archive that hold them. No I/O."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from uuid import UUID

import msgspec

from chronolake_metastore.domain import archives
from chronolake_metastore.domain.archives import ArchivedFile, ArchiveRun, ChainSpan, RowBounds

RowRange = tuple[UUID, int, int]
"""The chain or the table of rows, and the first and the last of a range of their numbers or times."""
_Keys = tuple[tuple[UUID, int], tuple[UUID, int]]
"""The first and the last key of a range of rows."""


class RowRanges:
    """Ranges of rows, by chain or table."""

    def __init__(self, ranges: Iterable[RowRange] = ()) -> None:
        self._of_chains: dict[UUID, list[tuple[int, int]]] = {}
        for chain_id, first, last in sorted(ranges):
            of_chain = self._of_chains.setdefault(chain_id, [])
            if of_chain and first <= of_chain[-1][1]:
                of_chain[-1] = of_chain[-1][0], max(of_chain[-1][1], last)
            else:
                of_chain.append((first, last))

    def __bool__(self) -> bool:
        return bool(self._of_chains)

    def from_checkpoints(self) -> RowRanges:
        """The ranges of entries of chains with those before each from which its hashes are computed."""
        return RowRanges(
            (chain_id, archives.checkpoint(first - 1), last)
            for chain_id, ranges in self._of_chains.items()
            for first, last in ranges
        )

    def of(self, spans: Sequence[ChainSpan]) -> list[_Keys]:
        """The ranges of the chains of these spans, in their order."""
        return [
            ((span.chain_id, first), (span.chain_id, last))
            for span in spans
            for first, last in self._of_chains.get(span.chain_id, ())
        ]

    def within(self, spans: Sequence[ChainSpan]) -> list[_Keys]:
        """The parts of the ranges that lie in these spans, in their order."""
        return [
            ((span.chain_id, max(first, span.first)), (span.chain_id, min(last, span.last)))
            for span in spans
            for first, last in self._of_chains.get(span.chain_id, ())
            if first <= span.last and span.first <= last
        ]


class LeavingRows(msgspec.Struct, frozen=True):
    """The rows that leave: events by version, with all beside them; answers by number; instants by time.

    ``entries`` are those of lists whose events have left before. ``answers_of_events`` do not leave, but events
    cannot be read from the archive without them.
    """

    events: RowRanges = RowRanges()
    entries: RowRanges = RowRanges()
    answers: RowRanges = RowRanges()
    instants: RowRanges = RowRanges()
    answers_of_events: RowRanges = RowRanges()

    def __bool__(self) -> bool:
        return any((self.events, self.entries, self.answers, self.instants, self.answers_of_events))

    def files(self, run: ArchiveRun) -> Iterator[ArchivedFile]:
        """The files of a run that hold such rows or their hashes, or by which these rows are found."""
        events, answers = self.events.within(run.events), self.answers.within(run.outcomes)
        hashed = [
            ranges.from_checkpoints().within(run.outcomes) for ranges in (self.answers, self.answers_of_events)
        ]
        ranges: dict[str, list[list[_Keys]]] = {
            "event": [self.events.from_checkpoints().within(run.events)],
            "write_stat": [events],
            "deleted_file": [events],
            "event_entry": [events, self.entries.within(run.events)],
            "outcome": hashed,
            "refusal": hashed,
            # An instant has an entry in each run that has events of it.
            "instant": [self.instants.of(run.events)],
        }
        # Any part of an index may name a row, because its order is another one.
        indexes = {"event_order": bool(events), "outcome_key": bool(answers)}
        for file in run.files:
            if indexes.get(file.table) or any(_meet(keys, file.bounds) for keys in ranges.get(file.table, ())):
                yield file


def _meet(ranges: Sequence[_Keys], bounds: RowBounds) -> bool:
    """Whether rows of sorted ranges may lie between the bounds of a file."""
    place = bisect_left(ranges, bounds.first, key=lambda keys: keys[1])
    return place < len(ranges) and ranges[place][0] <= bounds.last
