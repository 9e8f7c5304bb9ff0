"""Bloom filters of record keys in the footers of base files, in Hudi's format. No storage.

Hudi's BloomFilter is Hadoop's (org.apache.hadoop.util.bloom): a SIMPLE filter is a vector of bits, a DYNAMIC_V0
filter a list of them, to which one is added when the last is full. Each key sets the bits at a fixed number of
murmur hashes, each of which is the seed of the next one. The text in the footer is Base64 of Java's DataOutput.
"""

from __future__ import annotations

import base64
import binascii
import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

FILTER: Final = b"org.apache.hudi.bloomfilter"
TYPE: Final = b"hoodie_bloom_filter_type_code"
SIMPLE: Final = "SIMPLE"
DYNAMIC: Final = "DYNAMIC_V0"
FALSE_POSITIVE_RATE: Final = 1e-6
"""The rate of a filter of less than ``BITS_MAX``: a key has 29 bits and 20 hashes. Hudi's default is 1e-9."""
BITS_MAX: Final = 8 * 2**23
"""Bits of a filter that is written (decision 0050). Every reader of the file reads its text, then 11.2 MB."""
BITS_PER_KEY_MIN: Final = 5.0
"""With fewer, more than a tenth of all keys would be false positives: then no filter is written."""

_HEADER: Final = struct.Struct(">iibi")
"""Version, number of hashes, kind of hash, number of bits."""
_VERSION: Final = -1
_MURMUR: Final = 1
_ROWS: Final = struct.Struct(">iii")
"""Header of a dynamic filter: keys of a full row, keys of the last row, number of rows."""
_M: Final = np.uint32(0x5BD1E995)
_PORTION_BYTES: Final = 4 * 2**20
"""Bytes of keys that are hashed at once: memory holds some ten times as much meanwhile."""
Hashes = npt.NDArray[np.uint32]


class UnknownFilter(ValueError):
    """The filter has a form that is not known: then the file must be read."""


@dataclass(frozen=True, slots=True)
class Bits:
    """A vector of bits, eight in a byte: a key is not in it if one of the bits of its hashes is not set."""

    hashes: int
    bits: int
    packed: npt.NDArray[np.uint8]

    def may_have(self, keys: pa.Array) -> npt.NDArray[np.bool_]:
        """For each key whether it may be in the filter."""
        possible = [np.zeros(0, dtype=np.bool_)]
        for portion in _portions(keys):
            of_portion = np.zeros(len(portion), dtype=np.bool_)
            for rows, part in _by_length(portion):
                of_portion[rows[self._possible_of(part, np.arange(len(rows)))]] = True
            possible.append(of_portion)
        return np.concatenate(possible)

    def _possible_of(self, keys: _KeysOfLength, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The ``rows`` of those keys that may be in the filter."""
        seeds = np.zeros(len(rows), dtype=np.uint32)
        for _ in range(self.hashes):
            seeds = keys.hash(seeds)
            positions = _positions(seeds, self.bits)
            is_set = (self.packed[positions >> 3] >> (positions & 7).astype(np.uint8) & 1).astype(np.bool_)
            if not is_set.all():
                # Of keys that are not in the filter, half are out after each hash.
                rows, keys, seeds = rows[is_set], keys.only(is_set), seeds[is_set]
        return rows


@dataclass(frozen=True, slots=True)
class BloomFilter:
    """A filter that has been read: a key may be in it if it may be in one of its rows."""

    rows: Sequence[Bits]

    def may_have(self, keys: pa.Array) -> npt.NDArray[np.bool_]:
        """For each key whether it may be in the filter."""
        possible = np.zeros(len(keys), dtype=np.bool_)
        for row in self.rows:
            possible |= row.may_have(keys)
        return possible


@dataclass(frozen=True, slots=True)
class _KeysOfLength:
    """Keys of the same length: their words, already mixed, and the bytes after the last word as one number."""

    length: int
    words: Sequence[Hashes]
    tail: Hashes | None

    def hash(self, seeds: Hashes) -> Hashes:
        """Hadoop's MurmurHash of each key, with a seed for each."""
        state = seeds ^ np.uint32(self.length)
        for word in self.words:
            state = (state * _M) ^ word
        if self.tail is not None:
            state = (state ^ self.tail) * _M
        state ^= state >> np.uint32(13)
        state *= _M
        state ^= state >> np.uint32(15)
        return state

    def only(self, chosen: npt.NDArray[np.bool_]) -> _KeysOfLength:
        """The chosen keys."""
        tail = None if self.tail is None else self.tail[chosen]
        return _KeysOfLength(self.length, [word[chosen] for word in self.words], tail)


def _positions(hashes: Hashes, bits: int) -> npt.NDArray[np.int64]:
    """The positions of hashes in a vector of ``bits`` bits: Java's remainder, without its sign."""
    positions: npt.NDArray[np.int64] = np.abs(np.fmod(hashes.view(np.int32).astype(np.int64), bits))
    return positions


def _portions(keys: pa.Array) -> Iterator[pa.Array]:
    """The keys in portions of about ``_PORTION_BYTES``."""
    rows = max(1, _PORTION_BYTES * len(keys) // max(1, keys.nbytes))
    for start in range(0, len(keys), rows):
        yield keys.slice(start, rows)


def _by_length(keys: pa.Array) -> list[tuple[npt.NDArray[np.int64], _KeysOfLength]]:
    """The keys by length, each with its row."""
    array = keys.cast(pa.large_binary())
    _, ends, data = array.buffers()
    offsets = np.frombuffer(ends, dtype=np.int64)[array.offset : array.offset + len(array) + 1]
    values = np.frombuffer(b"" if data is None else data, dtype=np.uint8)
    lengths = np.diff(offsets)
    parts = []
    for length in np.unique(lengths):
        rows = np.flatnonzero(lengths == length)
        parts.append((rows, _prepared(values[offsets[rows][:, np.newaxis] + np.arange(length)])))
    return parts


def _prepared(matrix: npt.NDArray[np.uint8]) -> _KeysOfLength:
    """Keys of one length, a row each."""
    length = matrix.shape[1]
    whole = length // 4 * 4
    words = []
    for start in range(0, whole, 4):
        word = np.ascontiguousarray(matrix[:, start : start + 4]).view("<u4").ravel().astype(np.uint32)
        word *= _M
        word ^= word >> np.uint32(24)
        word *= _M
        words.append(word)
    tail = None
    if whole < length:
        # Java's bytes have signs: one above 127 sets all higher bits.
        signed = matrix[:, whole:].astype(np.int8).astype(np.int32)
        number = np.zeros(len(matrix), dtype=np.int32)
        for place in range(length - whole):
            # The last byte is the lowest.
            number ^= signed[:, length - whole - 1 - place] << np.int32(8 * place)
        tail = number.view(np.uint32)
    return _KeysOfLength(length, words, tail)


class Writer:
    """Makes a SIMPLE filter of at most ``entries`` entries.

    The rate of false positives is ``rate``, and larger if the filter would have more than ``BITS_MAX``.
    """

    def __init__(self, entries: int, *, rate: float = FALSE_POSITIVE_RATE) -> None:
        entries = max(1, entries)
        # As BloomFilterUtils of Hudi.
        wanted = math.ceil(entries * (-math.log(rate) / (math.log(2) * math.log(2))))
        self._bits = np.zeros(min(wanted, BITS_MAX), dtype=np.bool_)
        self._hashes = math.ceil(math.log(2) * len(self._bits) / entries)

    def add(self, keys: pa.Array) -> None:
        """Add keys."""
        for portion in _portions(keys):
            for rows, part in _by_length(portion):
                seeds = np.zeros(len(rows), dtype=np.uint32)
                for _ in range(self._hashes):
                    seeds = part.hash(seeds)
                    self._bits[_positions(seeds, len(self._bits))] = True

    def text(self) -> bytes:
        """The text of the filter."""
        packed = np.packbits(self._bits, bitorder="little").tobytes()
        return base64.b64encode(_HEADER.pack(_VERSION, self._hashes, _MURMUR, len(self._bits)) + packed)


def is_useful(entries: int) -> bool:
    """Whether a filter of ``entries`` keys rules enough of the other keys out."""
    return entries * BITS_PER_KEY_MIN <= BITS_MAX


def read(metadata: Mapping[bytes, bytes]) -> BloomFilter | None:
    """The filter in the metadata of a footer, None if there is none. Raises ``UnknownFilter``."""
    text = metadata.get(FILTER)
    if text is None:
        return None
    # Hudi wrote no type before it had two.
    type_ = metadata.get(TYPE, SIMPLE.encode()).decode()
    if type_ not in (SIMPLE, DYNAMIC):
        raise UnknownFilter(f"the type of a bloom filter is {type_!r}")
    try:
        content = memoryview(base64.b64decode(text, validate=True))
        rows, end = _rows(content) if type_ == DYNAMIC else _row(content, 0)
    except (binascii.Error, struct.error, ValueError) as exc:
        raise UnknownFilter(f"a bloom filter is damaged: {exc}") from exc
    if end != len(content):
        raise UnknownFilter("a bloom filter has more bytes than it should")
    return BloomFilter(rows)


def _rows(content: memoryview) -> tuple[list[Bits], int]:
    _header(content, 0)
    _, _, count = _ROWS.unpack_from(content, _HEADER.size)
    rows: list[Bits] = []
    end = _HEADER.size + _ROWS.size
    for _ in range(count):
        row, end = _row(content, end)
        rows += row
    return rows, end


def _row(content: memoryview, start: int) -> tuple[list[Bits], int]:
    hashes, bits = _header(content, start)
    first = start + _HEADER.size
    end = first + (bits + 7) // 8
    packed = np.frombuffer(content[first:end], dtype=np.uint8)
    if len(packed) != end - first:
        raise UnknownFilter("a bloom filter is cut off")
    return [Bits(hashes, bits, packed)], end


def _header(content: memoryview, start: int) -> tuple[int, int]:
    version, hashes, kind, bits = _HEADER.unpack_from(content, start)
    if version != _VERSION or kind != _MURMUR or hashes < 1 or bits < 1:
        raise UnknownFilter(f"a bloom filter has the version {version} and the hash {kind}")
    return hashes, bits
