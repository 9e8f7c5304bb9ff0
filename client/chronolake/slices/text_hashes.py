"""Hashes of many texts at once, 64 bits each. Each process has its own use for them: nothing stores one."""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

Hashes: TypeAlias = "np.typing.NDArray[np.uint64]"

HASHED_LENGTH_MAX: Final = 64
"""Bytes of the longest text that is hashed."""
_WORD: Final = 8
_MASKS: Final = np.array([(1 << 8 * length) - 1 for length in range(_WORD + 1)], dtype=np.uint64)
"""For each number of bytes the bits of a word that they take."""
_MULTIPLIER: Final = np.uint64(0x9E3779B97F4A7C15)
_SHIFT: Final = np.uint64(32)


def of(texts: pa.LargeStringArray) -> Hashes | None:
    """The hash of each text; None if one is too long. None of them is null."""
    offsets = np.frombuffer(texts.buffers()[1], np.int64)[texts.offset : texts.offset + len(texts) + 1]
    lengths = np.diff(offsets)
    longest = int(lengths.max(initial=0))
    if longest > HASHED_LENGTH_MAX:
        return None
    hashes = lengths.astype(np.uint64)
    words = _words(texts, offsets)
    for start in range(0, longest, _WORD):
        # After the end of a text, the word that is read may be another text's, or the last one; the mask is 0.
        places = np.minimum(offsets[:-1] - offsets[0] + start, len(words) - 1)
        word = words[places] & _MASKS[np.clip(lengths - start, 0, _WORD)]
        mixed = (hashes ^ word) * _MULTIPLIER
        mixed ^= mixed >> _SHIFT
        # The hash of a text has as many steps as its own length needs, whatever the other texts are.
        hashes = np.where(lengths > start, mixed, hashes)
    return hashes


def are_distinct(hashes: Hashes) -> bool:
    """Whether no two of the hashes are the same. Sorts them."""
    hashes.sort()
    return not np.any(hashes[1:] == hashes[:-1])


def _words(texts: pa.LargeStringArray, offsets: np.typing.NDArray[np.int64]) -> Hashes:
    """At each byte of the texts the eight bytes from there on, as a number."""
    body = texts.buffers()[2] or b""
    used = np.frombuffer(body, np.uint8)[offsets[0] : offsets[-1]]
    padded = np.concatenate([used, np.zeros(_WORD, np.uint8)])
    return np.ndarray(len(used) + 1, np.dtype("<u8"), padded.data, strides=(1,))
