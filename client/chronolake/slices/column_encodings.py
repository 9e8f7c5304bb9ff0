"""The encodings of the columns of a Parquet file: dictionaries, compression, and bounds in the footer.

They are chosen by the first rows of the file. Columns have Parquet's paths, in which a nested one has several.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa

from chronolake.slices import arrow_types, columns
from chronolake.slices.lazy_compute import pc

CODEC: Final = "zstd"
_SAMPLE_ROWS: Final = 20_000
_FIRST_ROWS: Final = 1_000
_DICTIONARY_SHARE_MAX: Final = 0.25
_COMPRESSED_SHARE_MAX: Final = 0.8
_PARTS: Final = 3
_PART_ROWS: Final = 2_048


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


def codecs(table: pa.Table, dictionaries: Sequence[str]) -> dict[str, str]:
    """The compression of each column, of which ``dictionaries`` are encoded as dictionaries.

    Values that hardly become smaller, as random numbers do, are stored as they are: compression takes half of
    the time to write them, and much of that to read them (measured).
    """
    return {
        path: CODEC if field.name in dictionaries or _is_compressible(table[field.name]) else "none"
        for field in table.schema
        for path in _leaf_paths(field)
    }


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


def _is_compressible(values: pa.ChunkedArray) -> bool:
    """Whether some values from the beginning, the middle and the end become smaller by compression."""
    if not _is_stored_as_in_memory(values.type):
        return True
    starts = [part * max(0, len(values) - _PART_ROWS) // (_PARTS - 1) for part in range(_PARTS)]
    sample = pa.concat_arrays(
        [chunk for start in dict.fromkeys(starts) for chunk in values.slice(start, _PART_ROWS).chunks]
        or [pa.array([], values.type)]
    ).drop_null()
    content = sample.buffers()[-1]
    if not len(sample) or content is None:
        return True
    return bool(len(pa.compress(content, CODEC, asbytes=True)) <= content.size * _COMPRESSED_SHARE_MAX)


def _is_stored_as_in_memory(type_: pa.DataType) -> bool:
    """Whether Parquet's plain encoding has the bytes that memory has; some other types have fewer or more."""
    if pa.types.is_integer(type_) or pa.types.is_floating(type_):
        return bool(type_.bit_width >= 32)
    tests = (pa.types.is_timestamp, pa.types.is_string, pa.types.is_binary)
    return any(test(type_) for test in tests)
