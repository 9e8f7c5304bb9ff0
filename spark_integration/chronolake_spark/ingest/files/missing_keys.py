"""Finds rows without a record key in batches of Arrow."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc


def first_in(rows: pa.RecordBatch, key: Sequence[str]) -> int | None:
    """The index of the first row in which all columns of the record key are null or empty texts.

    None if there is none, or ``rows`` lacks a column of the key. The case of names does not count.
    """
    missing = rows_in(rows, key)
    return int(missing.argmax()) if missing.any() else None


def rows_in(rows: pa.RecordBatch, key: Sequence[str]) -> npt.NDArray[np.bool_]:
    """For each row whether ``first_in`` might find it."""
    names = {name.lower(): name for name in rows.schema.names}
    if not key or any(name.lower() not in names for name in key):
        return np.zeros(len(rows), np.bool_)
    missing = functools.reduce(pc.and_, (_is_missing(rows[names[name.lower()]]) for name in key))
    mask: npt.NDArray[np.bool_] = missing.to_numpy(zero_copy_only=False)
    return mask


def _is_missing(values: pa.Array) -> pa.Array:
    if not pa.types.is_string(values.type) and not pa.types.is_large_string(values.type):
        return values.is_null()
    return pc.fill_null(pc.equal(values, ""), True)
