"""The encodings of the columns of a Parquet file: dictionaries, differences, compression, bounds in the footer.

They are chosen by the first rows of the file. Columns have Parquet's paths, in which a nested one has several.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from chronolake.slices import arrow_types, columns
from chronolake.slices.lazy_compute import pc

CODEC: Final = "zstd"
_FAST_CODEC: Final = "snappy"
"""Values of files on a local disk are compressed by it: upserts take a seventh less CPU (measured)."""
_SAMPLE_ROWS: Final = 20_000
_FIRST_ROWS: Final = 1_000
_DICTIONARY_SHARE_MAX: Final = 0.25
_COMPRESSED_SHARE_MAX: Final = 0.8
_FAST_SHARE_MIN: Final = 0.25
"""Values for which ``CODEC`` needs this share of the bytes, or less, are compressed by that."""
_PARTS: Final = 3
_PART_ROWS: Final = 2_048
_DIFFERENCES: Final = "DELTA_BINARY_PACKED"
_BLOCK, _MINIBLOCK = 128, 32
"""Values of this encoding whose differences are stored from their smallest one on, and with the same bits."""


def with_statistics(schema: pa.Schema) -> list[str]:
    """The paths of the columns that get bounds in the footer: all but floating-point ones, lists and maps.

    The texts of three of Hudi's columns rule no row group out, and comparing them takes time.

    Arrow leaves NaN out of the bounds, as the format wants it. Spark, for which NaN is the largest value, skips
    such row groups and would lose the records. The server's bounds, which prune files, know of NaN.
    """
    without = {columns.COMMIT_SEQNO, columns.FILE_NAME, columns.PARTITION_PATH}
    return [path for field in schema if field.name not in without for path in _paths_with_statistics(field)]


def _paths_with_statistics(field: pa.Field) -> Iterator[str]:
    if pa.types.is_struct(field.type):
        for inner in field.type:
            yield from (f"{field.name}.{path}" for path in _paths_with_statistics(inner))
    elif not pa.types.is_floating(field.type) and not pa.types.is_nested(field.type):
        yield field.name


def dictionary_columns(table: pa.Table) -> list[str]:
    """The columns whose first rows repeat enough for dictionary encoding to pay off.

    On other columns it costs 2.4 times the writing time and makes the file larger (measured).
    """
    sample = table.slice(0, _SAMPLE_ROWS)
    return [
        field.name
        for field in sample.schema
        if not pa.types.is_nested(field.type)
        and not pa.types.is_boolean(field.type)
        and (pa.types.is_dictionary(field.type) or _repeats(sample[field.name]))
    ]


def _repeats(sample: pa.ChunkedArray) -> bool:
    first = sample.slice(0, _FIRST_ROWS)
    if len(sample) > len(first) and pc.count_distinct(first, mode="all").as_py() == len(first):
        # If a column repeats enough, some of the first _FIRST_ROWS values are the same.
        return False
    return bool(pc.count_distinct(sample, mode="all").as_py() <= len(sample) * _DICTIONARY_SHARE_MAX)


def differences(table: pa.Table, dictionaries: Sequence[str]) -> dict[str, str]:
    """The encoding of the columns of integers whose differences from one row to the next take fewer bits.

    So are keys in order, and small numbers in a wide type. They become smaller than by compression, and are
    written in a quarter of the time and read in a seventh (measured).
    """
    return {
        field.name: _DIFFERENCES
        for field in table.schema
        if pa.types.is_signed_integer(field.type)
        and field.type.bit_width >= 32
        and field.name not in dictionaries
        and _has_small_differences(table[field.name])
    }


def _has_small_differences(values: pa.ChunkedArray) -> bool:
    width = values.type.bit_width
    bits = [_bits_of_differences(part) for part in _parts(values) if len(part) > _BLOCK]
    return bool(bits) and float(np.mean(np.concatenate(bits))) <= width * _COMPRESSED_SHARE_MAX


def _bits_of_differences(part: pa.Array) -> np.typing.NDArray[np.float64]:
    """The bits of a value in each miniblock; differences beyond 64 bits wrap around, as in the encoding."""
    steps = np.diff(part.to_numpy().astype(np.int64))
    blocks = steps[: len(steps) // _BLOCK * _BLOCK].reshape(-1, _BLOCK)
    above = (blocks - blocks.min(axis=1, keepdims=True)).view(np.uint64).reshape(-1, _MINIBLOCK)
    bits: np.typing.NDArray[np.float64] = np.ceil(np.log2(above.max(axis=1).astype(np.float64) + 1))
    return bits


def codecs(
    table: pa.Table, dictionaries: Sequence[str], differences: Collection[str], *, is_local: bool = False
) -> dict[str, str]:
    """The compression of each column, of which some are encoded as dictionaries or by differences.

    Values that hardly become smaller, as random numbers do, are stored as they are: compression takes half of
    the time to write them, and much of that to read them (measured). Differences are small as they are.
    """
    return {
        path: _codec(field.name, table, dictionaries, differences, is_local=is_local)
        for field in table.schema
        for path in _leaf_paths(field)
    }


def _codec(
    name: str, table: pa.Table, dictionaries: Sequence[str], differences: Collection[str], *, is_local: bool
) -> str:
    if name in differences:
        return "none"
    if name in dictionaries or (sample := _sample(table[name])) is None:
        return CODEC
    size_max = sample.size * _COMPRESSED_SHARE_MAX
    size = _compressed_size(sample, CODEC)
    if is_local and size / _FAST_SHARE_MIN > _compressed_size(sample, _FAST_CODEC) <= size_max:
        return _FAST_CODEC
    return CODEC if size <= size_max else "none"


def _leaf_paths(field: pa.Field, prefix: str = "") -> Iterator[str]:
    path, type_ = f"{prefix}{field.name}", field.type
    if pa.types.is_struct(type_):
        for inner in type_:
            yield from _leaf_paths(inner, f"{path}.")
    elif pa.types.is_map(type_):
        yield from _leaf_paths(type_.key_field.with_name("key"), f"{path}.key_value.")
        yield from _leaf_paths(type_.item_field.with_name("value"), f"{path}.key_value.")
    elif arrow_types.is_list(type_):
        yield from _leaf_paths(type_.value_field.with_name("element"), f"{path}.list.")
    else:
        yield path


def _compressed_size(content: pa.Buffer, codec: str) -> int:
    return len(pa.compress(content, codec, asbytes=True))


def _sample(values: pa.ChunkedArray) -> pa.Buffer | None:
    """The bytes of some values from the beginning, the middle and the end, if Parquet stores such bytes."""
    if not _is_stored_as_in_memory(values.type):
        return None
    sample = pa.concat_arrays(_parts(values) or [pa.array([], values.type)])
    return sample.buffers()[-1] if len(sample) else None


def _parts(values: pa.ChunkedArray) -> list[pa.Array]:
    """Some values from the beginning, the middle and the end, without nulls."""
    starts = [part * max(0, len(values) - _PART_ROWS) // (_PARTS - 1) for part in range(_PARTS)]
    parts = (values.slice(start, _PART_ROWS).drop_null() for start in dict.fromkeys(starts))
    return [chunk for part in parts for chunk in part.chunks]


def _is_stored_as_in_memory(type_: pa.DataType) -> bool:
    """Whether Parquet's plain encoding has the bytes that memory has; some other types have fewer or more."""
    if pa.types.is_integer(type_) or pa.types.is_floating(type_):
        return bool(type_.bit_width >= 32)
    tests = (pa.types.is_timestamp, pa.types.is_string, pa.types.is_binary)
    return any(test(type_) for test in tests)
