"""Positions on space-filling curves: rows that are near in several columns come near each other in files.

The values of each column become numbers of few bits, by their ranks in a sample: so a column whose values are
large, or all begin alike, counts as much as the others. Null comes first, and NaN last, as in Spark.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Numbers = npt.NDArray[np.uint64]
_BITS: Final = 64
_BITS_OF_COLUMN_MAX: Final = 16


class Curve(enum.Enum):
    """A space-filling curve (Hudi: hoodie.layout.optimize.strategy)."""

    Z_ORDER = enum.auto()
    HILBERT = enum.auto()


class Ranks:
    """The ranks of the values of a column, in a number of bits, by a sample of its values; without NaN."""

    def __init__(self, sample: pa.ChunkedArray, bits: int) -> None:
        values = pc.drop_null(sample)
        in_order = values.take(pc.sort_indices(values)).combine_chunks()
        # The rank of null is 0, and of a value that is less than all bounds 1.
        count = min(len(in_order), (1 << bits) - 2)
        places = np.linspace(0, len(in_order), count + 2)[1:-1].astype(np.int64)
        self._bounds = pc.unique(in_order.take(pa.array(places)))

    def of(self, values: pa.ChunkedArray) -> Numbers:
        """The ranks of values of the column."""
        together = pa.chunked_array([self._bounds, *values.chunks], self._bounds.type)
        # The sort is stable, so a bound comes before an equal value.
        order = pc.sort_indices(together).to_numpy()
        is_bound = order < len(self._bounds)
        counts = np.empty(len(together), np.uint64)
        counts[order] = np.cumsum(is_bound)
        is_null = values.is_null().to_numpy(zero_copy_only=False)
        return np.where(is_null, np.uint64(0), counts[len(self._bounds) :] + np.uint64(1))


def bits_of_column(columns: int) -> int:
    """The bits of a rank on a curve through a number of columns."""
    return min(_BITS_OF_COLUMN_MAX, _BITS // columns)


def positions(curve: Curve, ranks: Sequence[Numbers], bits: int) -> Numbers:
    """The positions on a curve of points, whose coordinates are ``ranks`` of ``bits`` bits."""
    transform: Callable[[Sequence[Numbers], int], Sequence[Numbers]] = {
        Curve.Z_ORDER: lambda axes, _: axes,
        Curve.HILBERT: _transposed,
    }[curve]
    return _interleaved(transform(ranks, bits), bits)


def _interleaved(axes: Sequence[Numbers], bits: int) -> Numbers:
    """The bits of the axes, the highest ones of all first."""
    position = np.zeros_like(axes[0])
    for bit in range(bits - 1, -1, -1):
        for axis in axes:
            position = position << np.uint64(1) | (axis >> np.uint64(bit) & np.uint64(1))
    return position


def _transposed(axes: Sequence[Numbers], bits: int) -> Sequence[Numbers]:
    """The Hilbert index of points, its bits spread over the axes.

    The algorithm is that of J. Skilling, Programming the Hilbert curve (AIP Conference Proceedings 707, 2004).
    """
    x = [axis.copy() for axis in axes]
    zero = np.uint64(0)
    for bit in range(bits - 1, 0, -1):
        high, low = np.uint64(1 << bit), np.uint64((1 << bit) - 1)
        for index, axis in enumerate(x):
            is_high = axis & high != zero
            exchanged = np.where(is_high, zero, (x[0] ^ axis) & low)
            x[0] = x[0] ^ np.where(is_high, low, exchanged)
            if index:
                x[index] = axis ^ exchanged
    for index in range(1, len(x)):
        x[index] = x[index] ^ x[index - 1]
    flips = np.zeros_like(x[0])
    for bit in range(bits - 1, 0, -1):
        flips ^= np.where(x[-1] & np.uint64(1 << bit) != zero, np.uint64((1 << bit) - 1), zero)
    return [axis ^ flips for axis in x]
