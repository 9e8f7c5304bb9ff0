"""Rows of a Parquet file by key: row groups whose key range has none of the keys are not read."""

from __future__ import annotations

import bisect
import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from typing_extensions import override

from chronolake.slices import columns, text_hashes
from chronolake.slices.lazy_compute import pc

_HASHED_MIN: Final = 10_000
"""The number of keys from which on Arrow's hash table, which each search makes again, is the larger cost."""
_BITS_MAX: Final = 27


class KeySet:
    """Record keys (texts) that are looked for, in any number of files. Threads may share it."""

    def __init__(self, keys: pa.Array) -> None:
        self.keys = keys
        self._hashed = _HashedKeys.of(keys) if len(keys) >= _HASHED_MIN else None

    def __len__(self) -> int:
        return len(self.keys)

    @override
    def __reduce__(self) -> tuple[type[KeySet], tuple[pa.Array]]:
        # An executor gets the keys alone.
        return KeySet, (self.keys,)

    def has(self, stored: pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
        """For each stored key, whether it is one of these."""
        found = None if self._hashed is None else self._hashed.has(stored)
        return pc.is_in(stored, value_set=self.keys.cast(stored.type)) if found is None else found

    def has_between(self, least: str, greatest: str) -> bool:
        """Whether one of the keys is in this range."""
        at = bisect.bisect_left(self._ordered, least)
        return at < len(self._ordered) and self._ordered[at] <= greatest

    @functools.cached_property
    def _ordered(self) -> Sequence[str]:
        return _Texts(self.keys.sort())


@dataclass(frozen=True, slots=True)
class _Texts(Sequence[str]):
    """Texts of Arrow, of which few become texts of Python. Both order them by their bytes in UTF-8."""

    array: pa.Array

    @override
    def __len__(self) -> int:
        return len(self.array)

    @override
    def __getitem__(self, index: int) -> str:  # type: ignore[override]  # no slices
        text: str = self.array[index].as_py()
        return text


@dataclass(frozen=True, slots=True)
class _HashedKeys:
    """The keys, their hashes in order, and which first bits of hashes there are.

    Most stored keys are ruled out by the first bits of their hashes, which is one access to memory.
    """

    keys: pa.LargeStringArray
    hashes: text_hashes.Hashes
    places: np.typing.NDArray[np.int64]
    beginnings: np.typing.NDArray[np.bool_]
    shift: np.uint64

    @classmethod
    def of(cls, keys: pa.Array) -> _HashedKeys | None:
        """None if keys are too long, or two have the same hash."""
        texts = keys.cast(pa.large_string())
        hashes = text_hashes.of(texts)
        if hashes is None:
            return None
        places = np.argsort(hashes)
        ordered = hashes[places]
        if np.any(ordered[1:] == ordered[:-1]):
            return None
        bits = min(len(keys).bit_length() + 3, _BITS_MAX)
        shift = np.uint64(64 - bits)
        beginnings = np.zeros(1 << bits, np.bool_)
        beginnings[hashes >> shift] = True
        return cls(texts, ordered, places, beginnings, shift)

    def has(self, stored: pa.ChunkedArray) -> pa.Array | None:
        """For each stored key, whether it is one of these; None if one is too long, or null."""
        texts = stored.cast(pa.large_string()).combine_chunks()
        hashes = None if texts.null_count else text_hashes.of(texts)
        if hashes is None:
            return None
        rows = np.flatnonzero(self.beginnings[hashes >> self.shift])
        at = np.minimum(np.searchsorted(self.hashes, hashes[rows]), len(self.hashes) - 1)
        is_equal = self.hashes[at] == hashes[rows]
        rows, at = rows[is_equal], at[is_equal]
        # Keys with the same hash may differ.
        is_same = pc.equal(texts.take(pa.array(rows)), self.keys.take(pa.array(self.places[at])))
        found = np.zeros(len(texts), np.bool_)
        found[rows] = is_same.to_numpy(zero_copy_only=False)
        return pa.array(found)


def rows(
    file: pq.ParquetFile, names: Sequence[str], keys: KeySet, key_column: str = columns.RECORD_KEY
) -> Iterator[pa.Table]:
    """The rows whose key is one of ``keys``, with the columns ``names``.

    Of each row group the keys are read first, and the other columns only if it has one of them.
    """
    if not len(keys):
        return
    for index in _row_groups(file, keys, key_column):
        stored = file.read_row_group(index, columns=[key_column])
        is_wanted = keys.has(stored[key_column])
        if pc.any(is_wanted).as_py():
            others = [name for name in names if name != key_column]
            yield (file.read_row_group(index, columns=list(names)) if others else stored).filter(is_wanted)


def _row_groups(file: pq.ParquetFile, keys: KeySet, key_column: str) -> Iterator[int]:
    """The row groups that may have one of the keys, by the statistics of the footer."""
    metadata = file.metadata
    column = next(
        index for index in range(metadata.num_columns) if metadata.schema.column(index).path == key_column
    )
    for index in range(metadata.num_row_groups):
        statistics = metadata.row_group(index).column(column).statistics
        if statistics is None or not statistics.has_min_max or _is_between(keys, statistics):
            yield index


def _is_between(keys: KeySet, statistics: pq.Statistics) -> bool:
    least, greatest = statistics.min, statistics.max
    return not isinstance(least, str) or keys.has_between(least, greatest)
