"""Record keys, partition paths and buckets of Arrow columns (docs/writing.md).

They are computed over whole columns with numpy: a million keys take about a second.
``chronolake_spark.write.keys`` has the same rules as Spark expressions; both are tested with the same vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from chronolake_model import partition_paths as partition_spelling
from chronolake_model.partition_paths import DEFAULT_SPELLING, EMPTY_KEY, HASH_SEED, NULL_KEY, Spelling

Hashes = npt.NDArray[np.uint64]

_PRIMES: Final = tuple(
    np.uint64(prime)
    for prime in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)
_BYTES_AT_ONCE: Final = 1_048_576
"""Bytes of text that are hashed at once; hashing takes about twenty bytes of memory for each."""
_DAY_MICROS: Final = 86_400_000_000
_FIRST_DAY: Final = date.min.toordinal() - date(1970, 1, 1).toordinal()
_LAST_DAY: Final = date.max.toordinal() - date(1970, 1, 1).toordinal()


def texts(column: pa.Array | pa.ChunkedArray, type_: str) -> pa.Array:
    """The values of a key field or partition field as text (``large_string``); ``type_`` is the table's type.

    Raises ``ValueError`` for a type that is not allowed for these fields.
    """
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    name = type_.strip().lower().partition("(")[0].rstrip()
    match name:
        case "boolean" | "tinyint" | "smallint" | "int" | "bigint" | "string":
            return array.cast(pa.large_string())
        case "decimal":
            # Arrow's own cast writes small values with an exponent.
            return _each(array, lambda value: format(value, "f"))
        case "date":
            return _dates(array.cast(pa.date32()).cast(pa.int32()).cast(pa.int64()))
        case "timestamp":
            return array.cast(pa.timestamp("us", "UTC")).cast(pa.int64()).cast(pa.large_string())
        case "timestamp_ntz":
            return _local_times(array.cast(pa.timestamp("us")).cast(pa.int64()))
        case _:
            raise ValueError(f"a column of type {type_!r} cannot be a key field or a partition field")


def partition_texts(column: pa.Array | pa.ChunkedArray, type_: str) -> pa.Array:
    """The values of a partition field as text: those of ``texts``, but a timestamp is in ISO 8601, in UTC.

    Raises as ``texts`` does.
    """
    if type_.strip().lower() != "timestamp":
        return texts(column, type_)
    return _each(texts(column, type_), _utc_time_text)


def record_keys(names: Sequence[str], fields: Sequence[pa.Array]) -> pa.Array:
    """The record keys of records with these texts in their key fields; null for records without a key.

    A record has no key if all fields are null or empty. With several fields, it also has none if a value would
    make the key ambiguous.
    """
    if len(fields) == 1:
        return pc.if_else(_is_missing(fields[0]), None, fields[0])
    pairs = []
    allowed = pc.invert(_all([_is_missing(field) for field in fields]))
    for name, field in zip(names, fields, strict=True):
        value = pc.fill_null(pc.if_else(pc.equal(field, ""), EMPTY_KEY, field), NULL_KEY)
        pairs.append(pc.binary_join_element_wise(_literal(f"{name}:"), value, _literal("")))
        allowed = pc.and_(allowed, pc.invert(_is_ambiguous(field, names)))
    return pc.if_else(allowed, pc.binary_join_element_wise(*pairs, _literal(",")), None)


def partition_paths(
    names: Sequence[str], fields: Sequence[pa.Array], spelling: Spelling = DEFAULT_SPELLING
) -> pa.Array:
    """The partition paths of partition fields with these texts, of which there is at least one.

    A value that no path of the spelling can have is spelled nevertheless.
    """
    parts = []
    for name, field in zip(names, fields, strict=True):
        encoded = field.dictionary_encode()
        spelled = [partition_spelling.spelled(value, spelling) for value in encoded.dictionary.to_pylist()]
        values = pa.array(spelled, pa.large_string()).take(encoded.indices)
        values = pc.fill_null(values, partition_spelling.spelled(None, spelling))
        before = _literal(partition_spelling.prefix(name, spelling))
        parts.append(pc.binary_join_element_wise(before, values, _literal("")))
    return pc.binary_join_element_wise(*parts, _literal("/"))


def buckets(fields: Sequence[pa.Array], count: int) -> npt.NDArray[np.int64]:
    """The bucket, 0 to ``count`` - 1, of each record with these texts in its key fields."""
    hashes = xxhash64(fields).view(np.int64)
    remainders: npt.NDArray[np.int64] = np.mod(hashes, np.int64(count))
    return remainders


def xxhash64(fields: Sequence[pa.Array]) -> Hashes:
    """Spark's xxhash64 of several texts per row: XXH64 of the UTF-8 bytes.

    The hash of each field is the seed of the next; a null does not change it. The hashes are unsigned; Spark's
    ``bigint`` has the same bits.
    """
    hashes = np.full(len(fields[0]), HASH_SEED, dtype=np.uint64)
    for field in fields:
        _hash_into(hashes, field.cast(pa.large_string()))
    return hashes


def _each(array: pa.Array, spell: Callable[[Any], str]) -> pa.Array:
    values = (None if value is None else spell(value) for value in array.to_pylist())
    return pa.array(values, pa.large_string())


def _dates(days: pa.Array) -> pa.Array:
    least_and_greatest = pc.min_max(days).as_py()
    least, greatest = least_and_greatest["min"], least_and_greatest["max"]
    if least is None or (least >= _FIRST_DAY and greatest <= _LAST_DAY):
        return days.cast(pa.int32()).cast(pa.date32()).cast(pa.large_string())
    return _each(days, _date_text)


def _local_times(micros: pa.Array) -> pa.Array:
    return _each(micros, _local_time_text)


def _utc_time_text(micros: str) -> str:
    return f"{_local_time_text(int(micros)).replace(' ', 'T')}Z"


def _local_time_text(micros: int) -> str:
    days, micros_of_day = divmod(micros, _DAY_MICROS)
    seconds, fraction = divmod(micros_of_day, 1_000_000)
    time = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{_date_text(days)} {time}" + (f".{fraction:06d}".rstrip("0") if fraction else "")


def _date_text(days: int) -> str:
    """``yyyy-MM-dd`` of the proleptic Gregorian calendar; years of five digits have a plus sign."""
    # The calendar repeats every 400 years, which are 146,097 days: compute in the range of Python's dates.
    cycles, day = divmod(days - _FIRST_DAY, 146_097)
    known = date.fromordinal(day + 1)
    year = known.year + 400 * cycles
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04d}-{known.month:02d}-{known.day:02d}"


def _literal(text: str) -> pa.Scalar:
    return pa.scalar(text, pa.large_string())


def _is_missing(field: pa.Array) -> pa.Array:
    return pc.fill_null(pc.equal(field, ""), True)


def _is_ambiguous(field: pa.Array, names: Sequence[str]) -> pa.Array:
    likenesses = [pc.is_in(field, value_set=pa.array([NULL_KEY, EMPTY_KEY], field.type))]
    likenesses += [pc.match_substring(field, f",{name}:") for name in names]
    return pc.fill_null(_any(likenesses), False)


def _all(masks: Sequence[pa.Array]) -> pa.Array:
    result = masks[0]
    for mask in masks[1:]:
        result = pc.and_(result, mask)
    return result


def _any(masks: Sequence[pa.Array]) -> pa.Array:
    return pc.invert(_all([pc.invert(mask) for mask in masks]))


# ---- XXH64 over columns: texts of one length at a time


def _hash_into(hashes: Hashes, field: pa.Array) -> None:
    """Replace each hash by that of the row's text, with the old hash as the seed; a null does not change it."""
    offsets = np.frombuffer(field.buffers()[1], dtype=np.int64)[field.offset : field.offset + len(field) + 1]
    body = field.buffers()[2]
    octets = np.frombuffer(body, dtype=np.uint8) if body is not None else np.empty(0, np.uint8)
    lengths = np.diff(offsets)
    valid = pc.is_valid(field).to_numpy(zero_copy_only=False)
    with np.errstate(over="ignore"):
        for length in np.unique(lengths[valid]).tolist():
            rows = np.flatnonzero(valid & (lengths == length))
            at_once = max(1, _BYTES_AT_ONCE // (length + 1))
            for start in range(0, len(rows), at_once):
                batch = rows[start : start + at_once]
                matrix = octets[offsets[batch][:, None] + np.arange(length)]
                hashes[batch] = _xxh64(matrix, hashes[batch])


def _xxh64(octets: npt.NDArray[np.uint8], seeds: Hashes) -> Hashes:
    """XXH64 of each row of ``octets`` (specification: github.com/Cyan4973/xxHash, doc/xxhash_spec.md)."""
    length = octets.shape[1]
    at = length - length % 32
    state = _stripes(octets[:, :at], seeds) if at else seeds + _PRIMES[4]
    state = state + np.uint64(length)
    while at + 8 <= length:
        state ^= _round(np.zeros_like(state), _words(octets[:, at : at + 8]))
        state = _rotated(state, 27) * _PRIMES[0] + _PRIMES[3]
        at += 8
    if at + 4 <= length:
        word = np.ascontiguousarray(octets[:, at : at + 4]).view("<u4")[:, 0].astype(np.uint64)
        state ^= word * _PRIMES[0]
        state = _rotated(state, 23) * _PRIMES[1] + _PRIMES[2]
        at += 4
    for index in range(at, length):
        state ^= octets[:, index].astype(np.uint64) * _PRIMES[4]
        state = _rotated(state, 11) * _PRIMES[0]
    return _avalanche(state)


def _stripes(octets: npt.NDArray[np.uint8], seeds: Hashes) -> Hashes:
    """The state after the whole stripes of 32 bytes."""
    lanes = [seeds + _PRIMES[0] + _PRIMES[1], seeds + _PRIMES[1], seeds.copy(), seeds - _PRIMES[0]]
    for start in range(0, octets.shape[1], 32):
        for lane in range(4):
            at = start + 8 * lane
            lanes[lane] = _round(lanes[lane], _words(octets[:, at : at + 8]))
    state = _rotated(lanes[0], 1) + _rotated(lanes[1], 7) + _rotated(lanes[2], 12) + _rotated(lanes[3], 18)
    for words in lanes:
        state ^= _round(np.zeros_like(words), words)
        state = state * _PRIMES[0] + _PRIMES[3]
    return state


def _words(octets: npt.NDArray[np.uint8]) -> Hashes:
    words: Hashes = np.ascontiguousarray(octets).view("<u8")[:, 0]
    return words


def _round(lane: Hashes, words: Hashes) -> Hashes:
    return _rotated(lane + words * _PRIMES[1], 31) * _PRIMES[0]


def _rotated(words: Hashes, bits: int) -> Hashes:
    return (words << np.uint64(bits)) | (words >> np.uint64(64 - bits))


def _avalanche(state: Hashes) -> Hashes:
    state = (state ^ (state >> np.uint64(33))) * _PRIMES[1]
    state = (state ^ (state >> np.uint64(29))) * _PRIMES[2]
    return state ^ (state >> np.uint64(32))
