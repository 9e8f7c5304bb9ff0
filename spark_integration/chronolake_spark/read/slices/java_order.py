"""The order of floating-point ordering values, as Java compares them and so Hudi's readers do.

NaN is the largest value, and -0.0 is less than 0.0. Writes refuse both, but the logs of an adopted table may
have them. Arrow compares NaN with nothing, so values are compared as integers in this order.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_INTEGERS: Final[dict[pa.DataType, np.dtype[Any]]] = {
    pa.float32(): np.dtype(np.int32),
    pa.float64(): np.dtype(np.int64),
}


def comparable(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Values in Java's order: integers for floating-point values, others as they are. Null stays null."""
    integers = _INTEGERS.get(values.type)
    if integers is None:
        return values
    numbers: npt.NDArray[np.floating] = values.fill_null(0.0).to_numpy()
    # Java takes each NaN for one value.
    bits = np.where(np.isnan(numbers), np.array(np.nan, numbers.dtype), numbers).view(integers)
    return _masked(_flipped(bits), values)


def restored(values: pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray:
    """The values of ``type_`` from which ``comparable`` made these."""
    integers = _INTEGERS.get(type_)
    if integers is None:
        return values
    bits: npt.NDArray[np.signedinteger] = values.fill_null(0).to_numpy().astype(integers)
    return _masked(_flipped(bits).view(type_.to_pandas_dtype()), values)


def _flipped(bits: npt.NDArray[np.signedinteger]) -> npt.NDArray[np.signedinteger]:
    """Integers that ascend as the numbers do: bits of negative numbers turned around, but for the sign."""
    return np.where(bits < 0, bits ^ np.iinfo(bits.dtype).max, bits)


def _masked(numbers: npt.NDArray[np.number], values: pa.ChunkedArray) -> pa.ChunkedArray:
    is_null = values.is_null().to_numpy()
    return pa.chunked_array([pa.array(numbers, mask=is_null)])
