"""The indexes of a run that name its rows: the order across tables, outcomes by hash of the request id.

A merge makes them from those of the merged runs: the chain and the number of an entry give its new row.
"""

from __future__ import annotations

import hashlib
import heapq
import struct
from collections.abc import Iterator, Sequence
from typing import Final

from chronolake_metastore.archive.rows import EVENT_ORDER, OUTCOME_KEY, Row
from chronolake_metastore.domain.archives import ArchiveRun, ChainPlaces, ChainSpan

_KEY_BYTES: Final = 5
"""Ten million outcomes and a key that is not among them have the same hash once in a hundred thousand."""
_DIGEST_BYTES: Final = 32
SOURCE: Final = {EVENT_ORDER: "event", OUTCOME_KEY: "outcome"}
"""The table of the log whose rows an index names."""


def key_of(request_id: str) -> int:
    """The hash of a request id by which its outcome is found. Others may have the same."""
    return int.from_bytes(hashlib.blake2b(request_id.encode(), digest_size=_KEY_BYTES).digest())


def of_table(table: str) -> list[str]:
    """The indexes that name rows of this table of the log."""
    return [index for index, source in SOURCE.items() if source == table]


def entry(index: str, row: Row, number: int) -> Row:
    """The entry of an index for a row of its table, which has this number in the run."""
    if index == EVENT_ORDER:
        return (row[2], row[3], number)
    return (key_of(row[2]), number)


def spans(index: str, run: ArchiveRun) -> Sequence[ChainSpan]:
    """The chains whose entries an index names."""
    return run.events if index == EVENT_ORDER else run.outcomes


def merged(
    index: str, runs: Sequence[ArchiveRun], into: ArchiveRun, entries: Sequence[Iterator[Row]]
) -> Iterator[Row]:
    """The entries of an index of ``into``, from those of the ``runs`` that are merged into it."""
    new = ChainPlaces(spans(index, into))
    return heapq.merge(
        *(
            _moved(of_run, ChainPlaces(spans(index, run)), new)
            for run, of_run in zip(runs, entries, strict=True)
        )
    )


def _moved(entries: Iterator[Row], old: ChainPlaces, new: ChainPlaces) -> Iterator[Row]:
    for *key, row in entries:
        yield (*key, new.row(*old.entry(row)))


class IndexCheck:
    """Compares the entries of an index with the rows that it names, in any order, without holding them.

    Both sides are sums of digests.
    """

    def __init__(self, index: str, entries: Iterator[Row]) -> None:
        self._index = index
        self._entries = entries
        self._number = 0
        self._difference = 0

    def watch(self, table_rows: Iterator[Row]) -> Iterator[Row]:
        """The rows of the table, each of which must be in the index."""
        for row in table_rows:
            self._difference += _digest(entry(self._index, row, self._number))
            self._number += 1
            yield row

    def fits(self) -> bool:
        """Whether the entries are those of the rows, in order. The rows must have been read before."""
        before: Row = ()
        difference = self._difference
        for of_index in self._entries:
            if of_index <= before:
                return False
            before = of_index
            difference -= _digest(of_index)
        return difference % (1 << 8 * _DIGEST_BYTES) == 0


def _digest(of_index: Row) -> int:
    packed = struct.pack(f">{len(of_index)}q", *of_index)
    return int.from_bytes(hashlib.blake2b(packed, digest_size=_DIGEST_BYTES).digest())
