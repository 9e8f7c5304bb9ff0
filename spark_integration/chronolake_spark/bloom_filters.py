"""Bloom filters of record keys in the footers of base files, in Hudi's format. No Spark, no storage.

Hudi's BloomFilter is Hadoop's (org.apache.hadoop.util.bloom): a SIMPLE filter is a vector of bits, a DYNAMIC_V0
filter a list of them, to which one is added when the last is full. Each key sets the bits at so many murmur
hashes, each of which is the seed of the next one. The text in the footer is Base64 of Java's DataOutput.
"""

from __future__ import annotations

import base64
import binascii
import math
import struct
from collections.abc import Mapping, Sequence
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
"""Of a filter that is written: then a key has 29 bits and 20 hashes. Hudi's default is 1e-9."""

_HEADER: Final = struct.Struct(">iibi")
"""Version, number of hashes, kind of hash, number of bits."""
_VERSION: Final = -1
_MURMUR: Final = 1
_ROWS: Final = struct.Struct(">iii")
"""Of a dynamic filter: keys of a full row, keys of the last row, number of rows."""
_M: Final = np.uint32(0x5BD1E995)
Hashes = npt.NDArray[np.uint32]


class UnknownFilter(ValueError):
    """The filter has a form that is not known: then the file must be read."""


@dataclass(frozen=True, slots=True)
class Bits:
    """A vector of bits: a key is not in it if one of the bits of its hashes is not set."""

    hashes: int
    bits: npt.NDArray[np.bool_]

    def may_have(self, keys: pa.Array) -> npt.NDArray[np.bool_]:
        """For each key whether it may be in the filter."""
        possible = np.zeros(len(keys), dtype=np.bool_)
        for rows, part in _by_length(keys):
            possible[rows[self._possible_of(part, np.arange(len(rows)))]] = True
        return possible

    def _possible_of(self, keys: _KeysOfLength, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The ``rows`` of those keys that may be in the filter."""
        seeds = np.zeros(len(rows), dtype=np.uint32)
        for _ in range(self.hashes):
            seeds = keys.hash(seeds)
            is_set = self.bits[_positions(seeds, len(self.bits))]
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
    """Keys of the same length: their words, already mixed, and the bytes behind the last word as one number."""

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
    """The positions of hashes in a vector of so many bits: Java's remainder, without its sign."""
    positions: npt.NDArray[np.int64] = np.abs(np.fmod(hashes.view(np.int32).astype(np.int64), bits))
    return positions


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


def write(keys: pa.Array, *, entries: int | None = None, rate: float = FALSE_POSITIVE_RATE) -> bytes:
    """The text of a SIMPLE filter of keys, for so many ``entries`` at this rate of false positives."""
    count = max(1, len(keys) if entries is None else entries)
    # As BloomFilterUtils of Hudi.
    bits = math.ceil(count * (-math.log(rate) / (math.log(2) * math.log(2))))
    hashes = math.ceil(math.log(2) * bits / count)
    vector = np.zeros(bits, dtype=np.bool_)
    for rows, part in _by_length(keys):
        seeds = np.zeros(len(rows), dtype=np.uint32)
        for _ in range(hashes):
            seeds = part.hash(seeds)
            vector[_positions(seeds, bits)] = True
    packed = np.packbits(vector, bitorder="little").tobytes()
    return base64.b64encode(_HEADER.pack(_VERSION, hashes, _MURMUR, bits) + packed)


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
    vector = np.unpackbits(packed, bitorder="little")[:bits]
    if len(vector) != bits:
        raise UnknownFilter("a bloom filter is cut off")
    return [Bits(hashes, vector.astype(np.bool_))], end


def _header(content: memoryview, start: int) -> tuple[int, int]:
    version, hashes, kind, bits = _HEADER.unpack_from(content, start)
    if version != _VERSION or kind != _MURMUR or hashes < 1 or bits < 1:
        raise UnknownFilter(f"a bloom filter has the version {version} and the hash {kind}")
    return hashes, bits
