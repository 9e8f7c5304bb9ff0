"""Column stats of a base file, collected while its rows are written. The server prunes files by them.

Literals have the forms of ``chronolake_model.filters``. An uncertain bound is left out: a file without bounds
is read, but reads would miss a file with wrong bounds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import UNSET, UnsetType

from chronolake_model.files import Bound, ColumnStats

COLUMNS_MAX: Final = 100
"""The number of columns with stats, the first ones of the table: each costs time, and space in the log."""
_CHARACTERS_MAX: Final = 64
_GREATEST_CHARACTER: Final = 0x10FFFF
_SURROGATES: Final = (0xD800, 0xDFFF)


class StatsCollector:
    """Collects stats of rows while they are written to a file. ``field_ids`` has the columns, by name."""

    def __init__(self, schema: pa.Schema, field_ids: Mapping[str, int]) -> None:
        names = [name for name in schema.names if name in field_ids][:COLUMNS_MAX]
        self._columns = {name: _Column(field_ids[name], schema.field(name).type) for name in names}

    def watch(self, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """The same tables; their values are added to the stats."""
        # A generator would hold a table while the next one is made.
        return map(self._seen, tables)

    def stats(self) -> list[ColumnStats]:
        """The stats of the rows so far."""
        return [column.stats() for column in self._columns.values()]

    def _seen(self, table: pa.Table) -> pa.Table:
        for name, column in self._columns.items():
            column.see(table[name])
        return table


class _Column:
    """The stats of one column: nulls, and bounds as long as they are certain."""

    def __init__(self, field_id: int, type_: pa.DataType) -> None:
        self._field_id = field_id
        self._is_bounded = _has_order(type_)
        self._is_floating = pa.types.is_floating(type_)
        self._nulls = 0
        self._bounds: tuple[Any, Any] | None = None

    def see(self, values: pa.ChunkedArray) -> None:
        self._nulls += values.null_count
        if not self._is_bounded or values.null_count == len(values):
            return
        bounds = _floating_bounds(values) if self._is_floating else _bounds(values)
        if bounds is None:
            self._is_bounded = False
            return
        least, greatest = self._bounds or bounds
        self._bounds = min(least, bounds[0]), max(greatest, bounds[1])

    def stats(self) -> ColumnStats:
        if not self._is_bounded or self._bounds is None:
            return ColumnStats(self._field_id, nulls=self._nulls)
        least, greatest = self._bounds
        return ColumnStats(self._field_id, _lower(least), _upper(greatest), self._nulls)


def _bounds(values: pa.ChunkedArray) -> tuple[Any, Any] | None:
    try:
        bounds = pc.min_max(values).as_py()
    except (ValueError, OverflowError):
        # A date that Python has none for.
        return None
    return bounds["min"], bounds["max"]


def _floating_bounds(values: pa.ChunkedArray) -> tuple[float, float] | None:
    """The bounds of numbers; None if one is NaN, the greatest of all numbers to Spark, which Arrow leaves out.

    NumPy's least number is NaN then, and it finds the bounds in a tenth of Arrow's time.
    """
    known = values.drop_null() if values.null_count else values
    numbers = [chunk.to_numpy() for chunk in known.chunks if len(chunk)]
    least = [part.min().item() for part in numbers]
    if any(map(math.isnan, least)):
        return None
    return min(least), max(part.max().item() for part in numbers)


def _has_order(type_: pa.DataType) -> bool:
    types = pa.types
    return any(
        of_type(type_)
        for of_type in (
            types.is_boolean,
            types.is_integer,
            types.is_floating,
            types.is_decimal,
            types.is_string,
            types.is_large_string,
            types.is_date,
            types.is_timestamp,
        )
    )


def _lower(value: Any) -> Bound | UnsetType:
    return literal(value[:_CHARACTERS_MAX] if isinstance(value, str) else value)


def _upper(value: Any) -> Bound | UnsetType:
    if not isinstance(value, str) or len(value) <= _CHARACTERS_MAX:
        return literal(value)
    return literal(_raised(value[:_CHARACTERS_MAX]))


def _raised(text: str) -> str | None:
    """A short text that is greater than all texts with the prefix ``text``; None if there is none."""
    for last in range(len(text) - 1, -1, -1):
        following = ord(text[last]) + 1
        if _SURROGATES[0] <= following <= _SURROGATES[1]:
            following = _SURROGATES[1] + 1
        if following <= _GREATEST_CHARACTER:
            return text[:last] + chr(following)
    return None


def literal(value: Any) -> Bound | UnsetType:
    """A value as a literal of filters; unset if no literal has this value."""
    match value:
        case float() if math.isinf(value):
            return "Infinity" if value > 0 else "-Infinity"
        case bool() | int() | float():
            return value
        case Decimal():
            return format(value, "f")
        case str():
            # PostgreSQL cannot store this character in text.
            return UNSET if "\0" in value else value
        case None:
            return UNSET
        case _:
            text: str = value.isoformat()
            return text
