"""Which of the keys of incoming rows a file slice has, on an executor. No Spark."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from chronolake_spark import key_footers
from chronolake_spark.slice_reader import SliceReader
from chronolake_spark.stored_slices import StoredSlice


def existing(reader: SliceReader, stored: StoredSlice, wanted: pa.Array, *, uses_filters: bool) -> pa.Array:
    """Those of the ``wanted`` keys that a slice has, also if its log files delete them; each once.

    With ``uses_filters`` the base file is read only for keys that its key range and bloom filter admit. The
    filters do not know the keys of log files, which are read.
    """
    in_base = wanted
    if uses_filters and stored.base is not None:
        in_base = key_footers.possible(reader.footer(stored.base), wanted)
    keys = reader.only(wanted).log_keys(stored)
    if len(in_base):
        keys += reader.only(in_base).base_keys(stored)
    return pc.unique(pa.chunked_array(keys, pa.string()))
