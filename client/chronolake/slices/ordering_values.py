"""The values of ordering fields, and their order.

Of several fields the first that differs decides (Hudi: ``ArrayComparable``). Null is the smallest value, but
where there are several fields, null in an integer of 32 bits is 0, as in Hudi (``OrderingValues``), which fails
at null in fields of other types.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chronolake.slices.lazy_compute import pc

Mask: TypeAlias = npt.NDArray[np.bool_]
Values: TypeAlias = Sequence[pa.ChunkedArray]
"""The values of rows, one array for each ordering field."""

_INTEGERS: Final[dict[pa.DataType, np.dtype[Any]]] = {
    pa.float32(): np.dtype(np.int32),
    pa.float64(): np.dtype(np.int64),
}


def of(table: pa.Table | Mapping[str, pa.ChunkedArray], ordering_fields: Sequence[str]) -> Values:
    """The ordering values of rows. NaN is null.

    NaN compares with nothing, not even itself: the outcome would depend on the order of arrival.
    """
    return _filled([_without_nan(table[name]) for name in ordering_fields])


def missing(table: pa.Table | Mapping[str, pa.ChunkedArray], ordering_fields: Sequence[str]) -> Mask:
    """The rows without any ordering value."""
    masks = [_mask(pc.is_null(_without_nan(table[name]))) for name in ordering_fields]
    without: Mask = np.logical_and.reduce(masks)
    return without


def in_java(table: pa.Table | Mapping[str, pa.ChunkedArray], ordering_fields: Sequence[str]) -> Values:
    """The ordering values of rows in Java's order, see ``comparable``."""
    return [comparable(array) for array in _filled([table[name] for name in ordering_fields])]


def is_zero_for_null(type_: pa.DataType) -> bool:
    """Whether null is 0 in one of several ordering fields of this type."""
    return bool(pa.types.is_date32(type_) or (pa.types.is_signed_integer(type_) and type_.bit_width <= 32))


def signs(left: Values, right: Values) -> npt.NDArray[np.int8]:
    """Row by row: 1 if the left values are larger, -1 if the right ones are, 0 if they are equal."""
    signs = np.zeros(len(left[0]), np.int8)
    for own, other in zip(left, right, strict=True):
        signs = np.where(signs == 0, _signs(own, other), signs)
    return signs


def levels(values: Values) -> npt.NDArray[np.int64]:
    """Numbers in the order of the values, the same for equal ones."""
    rows = pa.table(list(values), names=[str(number) for number in range(len(values))])
    keys = [(name, "ascending", "at_start") for name in rows.column_names]
    order = pc.sort_indices(rows, sort_keys=keys).to_numpy()
    ordered = rows.take(pa.array(order))
    is_larger = signs(ordered.slice(1).columns, ordered.slice(0, max(len(rows) - 1, 0)).columns) != 0
    numbers = np.zeros(len(rows), np.int64)
    numbers[order[1:]] = np.cumsum(is_larger)
    return numbers


def comparable(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Values in Java's order: integers for floating-point values, others as they are. Null stays null.

    In Java, and so for Hudi's readers, NaN is the largest value, and -0.0 is less than 0.0. Writes refuse both,
    but the logs of an adopted table may have them. Arrow compares NaN with nothing.
    """
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


def _filled(values: Values) -> Values:
    if len(values) < 2:
        return values
    return [
        array.fill_null(pa.scalar(0, array.type)) if is_zero_for_null(array.type) else array for array in values
    ]


def _without_nan(values: pa.ChunkedArray) -> pa.ChunkedArray:
    if not pa.types.is_floating(values.type):
        return values
    return pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)


def _signs(left: pa.ChunkedArray, right: pa.ChunkedArray) -> npt.NDArray[np.int8]:
    is_larger = _mask(pc.fill_null(pc.greater(left, right), False))
    is_smaller = _mask(pc.fill_null(pc.less(left, right), False))
    of_nulls = _mask(pc.is_null(right)).astype(np.int8) - _mask(pc.is_null(left))
    return (is_larger.astype(np.int8) - is_smaller + of_nulls).astype(np.int8)


def _mask(booleans: pa.ChunkedArray) -> Mask:
    mask: Mask = booleans.to_numpy()
    return mask


def _flipped(bits: npt.NDArray[np.signedinteger]) -> npt.NDArray[np.signedinteger]:
    """Integers that ascend as the numbers do: bits of negative numbers turned around, but for the sign."""
    return np.where(bits < 0, bits ^ np.iinfo(bits.dtype).max, bits)


def _masked(numbers: npt.NDArray[np.number], values: pa.ChunkedArray) -> pa.ChunkedArray:
    is_null = values.is_null().to_numpy()
    return pa.chunked_array([pa.array(numbers, mask=is_null)])
