"""Which of the keys of incoming rows a file slice has, on an executor."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pyarrow.compute as pc

from chronolake_spark.common import columns
from chronolake_spark.index.keys import footers
from chronolake_spark.read.slices.slice_reader import SliceReader
from chronolake_spark.read.slices.stored_slices import StoredSlice


def existing(reader: SliceReader, stored: StoredSlice, wanted: pa.Array, *, uses_filters: bool) -> pa.Array:
    """Those of the ``wanted`` keys that a slice has, also if its log files delete them; each once.

    With ``uses_filters`` the base file is read only for keys that its key range and bloom filter admit. The
    filters do not know the keys of log files, which are read.
    """
    in_base = wanted
    if uses_filters and stored.base is not None:
        in_base = footers.possible(reader.footer(stored.base), wanted)
    keys = reader.only(wanted).log_keys(stored)
    if len(in_base):
        keys += reader.only(in_base).base_keys(stored)
    return pc.unique(pa.chunked_array(keys, pa.string()))


def by_partition(keys: pa.Table) -> dict[str, pa.Array]:
    """The distinct record keys of each partition path, in order."""
    by = [(columns.PARTITION_PATH, "ascending"), (columns.RECORD_KEY, "ascending")]
    ordered = keys.sort_by(by).combine_chunks()
    bounds = pc.run_end_encode(ordered[columns.PARTITION_PATH].combine_chunks())
    starts = [0, *bounds.run_ends.to_pylist()]
    return {
        path: ordered[columns.RECORD_KEY].slice(start, end - start).unique()
        for path, (start, end) in zip(bounds.values.to_pylist(), itertools.pairwise(starts), strict=True)
    }
