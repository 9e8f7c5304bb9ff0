"""Rows of a Parquet file by key: row groups whose key range has none of the keys are not read."""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from chronolake.slices import columns


def rows(
    file: pq.ParquetFile, names: Sequence[str], keys: pa.Array, key_column: str = columns.RECORD_KEY
) -> Iterator[pa.Table]:
    """The rows whose key is one of ``keys`` (texts), with the columns ``names``.

    Of each row group the keys are read first, and the other columns only if it has one of them.
    """
    if not len(keys):
        return
    for index in _row_groups(file, keys, key_column):
        stored = file.read_row_group(index, columns=[key_column])
        is_wanted = pc.is_in(stored[key_column], value_set=keys.cast(stored[key_column].type))
        if pc.any(is_wanted).as_py():
            others = [name for name in names if name != key_column]
            yield (file.read_row_group(index, columns=list(names)) if others else stored).filter(is_wanted)


def _row_groups(file: pq.ParquetFile, keys: pa.Array, key_column: str) -> Iterator[int]:
    """The row groups that may have one of the keys, by the statistics of the footer."""
    metadata = file.metadata
    column = next(
        index for index in range(metadata.num_columns) if metadata.schema.column(index).path == key_column
    )
    ordered = sorted(keys.to_pylist())
    for index in range(metadata.num_row_groups):
        statistics = metadata.row_group(index).column(column).statistics
        if statistics is None or not statistics.has_min_max or _is_between(ordered, statistics):
            yield index


def _is_between(ordered: Sequence[str], statistics: pq.Statistics) -> bool:
    # The order of Python's strings is that of their UTF-8 bytes.
    least, greatest = statistics.min, statistics.max
    if not isinstance(least, str):
        return True
    at = bisect.bisect_left(ordered, least)
    return at < len(ordered) and ordered[at] <= greatest
