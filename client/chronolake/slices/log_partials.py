"""Partial updates in log files: records with some of the columns, laid over earlier versions.

Hudi's ``MERGE INTO`` writes them. Versions of a key in the log are laid over each other one by one, in the
order of their commits: the one with the larger ordering value is on top, at equal values the later one. The
result lies over the record of the base file, if it wins against it. A delete leaves nothing beneath it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chronolake.slices.lazy_compute import pc
from chronolake.slices.merge import Mask

_Rows = npt.NDArray[np.int64]
_LACKING: Final = -1
_NULL: Final = -2


@dataclass(frozen=True, slots=True)
class Parts:
    """The columns of each record: 0 in ``of_record`` means all, n means those of ``columns[n - 1]``."""

    of_record: _Rows
    columns: Sequence[frozenset[str]]

    def with_column(self, name: str) -> Mask:
        """The records that have a column."""
        known = np.array([True, *(name in columns for columns in self.columns)])
        return known[self.of_record]

    def filter(self, is_wanted: Mask) -> Parts:
        """The parts of some of the records."""
        return Parts(self.of_record[is_wanted], self.columns)


@dataclass(frozen=True, slots=True)
class Laid:
    """The latest record of each key, and by column which of them have to take its value from the base file.

    ``winners`` are, in the order of the keys, the positions of the versions that are on top. ``rows`` are, by
    position of a key, the rows of ``records``, or -1 for a delete.
    """

    winners: _Rows
    rows: _Rows
    records: pa.Table
    lacking: Mapping[str, Mask]


@dataclass(frozen=True, slots=True)
class _Round:
    """One version of each key that has as many: positions of keys, rows of records, and where each goes."""

    keys: _Rows
    rows: _Rows
    is_on_top: Mask
    is_beneath: Mask


def lay(keys: _Rows, levels: _Rows, rows: _Rows, records: pa.Table, parts: Parts) -> Laid:
    """Lay the versions of each key over each other.

    ``keys`` are the numbers of the keys of versions, ascending and from 0, and versions of a key are in the
    order of their commits. ``levels`` order versions by ordering value, ``rows`` has the row of each in
    ``records``, -1 for a delete.
    """
    winners, rounds = _rounds(keys, levels, rows)
    is_record = rows[winners] >= 0
    columns, lacking = [], {}
    for name in records.column_names:
        source = _source(rounds, parts.with_column(name), len(winners))[is_record]
        columns.append(records[name].take(pa.array(source, mask=source < 0)))
        if (source == _LACKING).any():
            lacking[name] = source == _LACKING
    numbers = np.where(is_record, np.cumsum(is_record) - 1, -1)
    return Laid(winners, numbers, pa.table(columns, schema=records.schema), lacking)


def filled(base: pa.Table, changes: pa.Table, lacking: Mapping[str, Mask]) -> pa.Table:
    """The records ``changes``; the values that they lack are those of the base file's records beside them."""
    columns = []
    for field in base.schema:
        own = changes[field.name].cast(field.type)
        if field.name in lacking:
            is_lacking = pa.array(lacking[field.name])
            own = pc.if_else(is_lacking, _plain(base[field.name]), _plain(own)).cast(field.type)
        columns.append(own)
    return pa.table(columns, schema=base.schema)


def _rounds(keys: _Rows, levels: _Rows, rows: _Rows) -> tuple[_Rows, list[_Round]]:
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    counts = np.diff(np.append(starts, len(keys)))
    winners, rounds = starts.copy(), []
    for number in range(int(counts.max(initial=0))):
        present = np.flatnonzero(counts > number)
        at = starts[present] + number
        before = winners[present]
        wins = levels[at] >= levels[before]
        is_beneath = ~wins & (rows[at] >= 0) & (rows[before] >= 0)
        winners[present[wins]] = at[wins]
        rounds.append(_Round(present, rows[at], wins, is_beneath))
    return winners, rounds


def _source(rounds: Sequence[_Round], has_column: Mask, count: int) -> _Rows:
    """For each key the row with the value of a column; that it is null, or is lacking."""
    source = np.full(count, _LACKING, np.int64)
    for round_ in rounds:
        # Of a delete, -1, the last record is read; it does not matter.
        is_known = (round_.rows >= 0) & (has_column[round_.rows] if len(has_column) else False)
        before = source[round_.keys]
        after = np.where(round_.is_on_top & is_known, round_.rows, before)
        after = np.where(round_.is_on_top & (round_.rows < 0), _NULL, after)
        after = np.where(round_.is_beneath & is_known & (before == _LACKING), round_.rows, after)
        source[round_.keys] = after
    return source


def _plain(values: pa.ChunkedArray) -> pa.ChunkedArray:
    return values.cast(values.type.value_type) if pa.types.is_dictionary(values.type) else values
