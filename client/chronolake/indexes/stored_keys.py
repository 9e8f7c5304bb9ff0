"""The keys of stored files: those that a slice has, and the key range and bloom filter in Hudi's footers.

Hudi compares keys in Java's order of strings, by UTF-16 code units. It is the order of the UTF-8 bytes, which
Arrow has, unless a character beyond U+FFFF is in one of the strings.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from chronolake.indexes import bloom_filters
from chronolake.indexes.bloom_filters import UnknownFilter
from chronolake.slices import columns
from chronolake.slices.key_search import KeySet
from chronolake.slices.slice_reader import SliceReader
from chronolake.slices.stored_slices import StoredSlice

LEAST: Final = b"hoodie_min_record_key"
GREATEST: Final = b"hoodie_max_record_key"
_BEYOND: Final = r"[\x{10000}-\x{10FFFF}]"


class KeyCollector:
    """Takes the record keys of the rows of a file while they are written, for its footer.

    ``records`` is the number of rows, or more.
    """

    def __init__(self, records: int) -> None:
        self._filter = bloom_filters.Writer(records) if bloom_filters.is_useful(records) else None
        self._bounds: list[str] = []

    def watch(self, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """The same tables."""
        # A generator would hold a table while the next one is made.
        return map(self._seen, tables)

    def metadata(self) -> dict[bytes, bytes]:
        """The metadata of the footer; none for a file without rows."""
        if not self._bounds:
            return {}
        least, greatest = self._bounds
        metadata = {LEAST: least.encode(), GREATEST: greatest.encode()}
        if self._filter is not None:
            metadata |= {
                bloom_filters.FILTER: self._filter.text(),
                bloom_filters.TYPE: bloom_filters.SIMPLE.encode(),
            }
        return metadata

    def _seen(self, table: pa.Table) -> pa.Table:
        for keys in table[columns.RECORD_KEY].chunks:
            self._add(keys)
        return table

    def _add(self, keys: pa.Array) -> None:
        if not len(keys):
            return
        if self._filter is not None:
            self._filter.add(keys)
        texts = sorted([*self._bounds, *_range(keys)], key=_in_java)
        self._bounds = [texts[0], texts[-1]]


def possible(metadata: Mapping[bytes, bytes] | None, keys: pa.Array) -> pa.Array:
    """The keys that a file with this metadata may have: all if it has no range and no filter."""
    metadata = metadata or {}
    keys = keys.filter(_in_range(metadata, keys))
    if not len(keys):
        return keys
    try:
        filter_ = bloom_filters.read(metadata)
    except UnknownFilter:
        return keys
    return keys if filter_ is None else keys.filter(pa.array(filter_.may_have(keys)))


def _in_range(metadata: Mapping[bytes, bytes], keys: pa.Array) -> pa.Array:
    least, greatest = metadata.get(LEAST), metadata.get(GREATEST)
    bounds = pa.array([least, greatest]).cast(pa.string()) if least and greatest else None
    if bounds is None or pc.any(_is_beyond(bounds)).as_py():
        return pa.repeat(pa.scalar(True), len(keys))
    in_range = pc.and_(pc.greater_equal(keys, bounds[0]), pc.less_equal(keys, bounds[1]))
    return pc.or_(in_range, _is_beyond(keys))


def _is_beyond(keys: pa.Array) -> pa.Array:
    """Whether a key has a character beyond U+FFFF, so that Java orders it otherwise."""
    return pc.match_substring_regex(keys, _BEYOND)


def _range(keys: pa.Array) -> tuple[str, str]:
    if pc.any(_is_beyond(keys)).as_py():
        texts = sorted(keys.unique().to_pylist(), key=_in_java)
        return texts[0], texts[-1]
    bounds = pc.min_max(keys)
    return bounds["min"].as_py(), bounds["max"].as_py()


def _in_java(text: str) -> bytes:
    """The bytes by which Java orders strings."""
    return text.encode("utf-16-be")


def existing(reader: SliceReader, stored: StoredSlice, wanted: KeySet, *, uses_filters: bool) -> pa.Array:
    """The ``wanted`` keys that a slice has, also if its log files delete them; each once.

    With ``uses_filters`` the base file is read only for keys that its key range and bloom filter admit. The
    filters do not know the keys of log files, which are read.
    """
    in_base = wanted
    if uses_filters and stored.base is not None:
        in_base = KeySet(possible(reader.footer(stored.base), wanted.keys))
    keys = reader.only(wanted).log_keys(stored)
    if len(in_base):
        keys += reader.only(in_base).base_keys(stored)
    return pc.unique(pa.chunked_array(keys, pa.string()))


def by_partition(keys: pa.Table) -> dict[str, KeySet]:
    """The distinct record keys of each partition path, in order."""
    by = [(columns.PARTITION_PATH, "ascending"), (columns.RECORD_KEY, "ascending")]
    ordered = keys.sort_by(by).combine_chunks()
    bounds = pc.run_end_encode(ordered[columns.PARTITION_PATH].combine_chunks())
    starts = [0, *bounds.run_ends.to_pylist()]
    return {
        path: KeySet(ordered[columns.RECORD_KEY].slice(start, end - start).unique())
        for path, (start, end) in zip(bounds.values.to_pylist(), itertools.pairwise(starts), strict=True)
    }
