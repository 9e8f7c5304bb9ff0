"""Columns of Python values in Arrow. Values that Arrow would change without an error are refused."""

from __future__ import annotations

import datetime
import reprlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa

from chronolake.slices import arrow_types, errors
from chronolake_model import column_types
from chronolake_model.tables import SchemaField

_LARGEST_DECIMAL: Final = pa.decimal128(38, 0)
"""The type of integers beyond 64 bits, which Arrow does not infer."""
_NO_COLUMNS: Final = (str, bytes, bytearray, memoryview, set, frozenset, Mapping)
"""Types of one value, or of values without an order, which Arrow would iterate over."""
_NO_TIMES: Final = frozenset({type(None), bool, int, float, str, bytes, Decimal})


def table_of(columns: Mapping[str, Any], schema: Iterable[SchemaField] = ()) -> pa.Table:
    """A table of these columns; those that are maps in ``schema`` are dicts or lists of pairs.

    Raises ``SchemaMismatch`` as ``refuse_changed_times``, and for what is no column; and ``InvalidText``.
    """
    for name, values in columns.items():
        _refuse_no_column(str(name), values)
    held = {name: list(of) if isinstance(of, Iterator) else of for name, of in columns.items()}
    refuse_changed_times(held.items())
    types = {field.name.lower(): arrow_types.of(column_types.parse(field.type)) for field in schema}
    return pa.table({name: _array(name, values, types.get(str(name).lower())) for name, values in held.items()})


def refuse_changed_times(columns: Iterable[tuple[Any, Any]]) -> None:
    """Raise ``SchemaMismatch`` for times that Arrow would change.

    Arrow cuts nanoseconds off. It gives one type to dates, times with a zone and times without one: a date
    loses the hours of the others, or a time is moved to another zone.
    """
    for name, values in columns:
        if isinstance(values, pa.Array | pa.ChunkedArray) or getattr(values, "dtype", "object") != "object":
            continue
        kinds: dict[str, str] = {}
        for place, value in _times(values, str(name)):
            if getattr(value, "nanosecond", 0):
                raise _refused(place, f"{value!r} has nanoseconds, and tables store microseconds")
            kind = _kind(value)
            if (other := kinds.setdefault(place, kind)) != kind:
                raise _refused(place, f"{value!r} is {kind}, and another value is {other}: give only one kind")


def _refuse_no_column(name: str, values: Any) -> None:
    """Raise ``SchemaMismatch`` for one value: Arrow would take each character of a text as a value."""
    if isinstance(values, _NO_COLUMNS) or not isinstance(values, Iterable):
        kind = type(values).__name__
        raise _refused(name, f"{reprlib.repr(values)} is a {kind}: give a list, with one value for each row")


def _array(name: str, values: Any, type_: pa.DataType | None) -> Any:
    if not isinstance(values, list):
        return values
    try:
        if type_ is not None and pa.types.is_map(type_):
            return _maps(name, values, type_)
        return pa.array(values)
    except OverflowError:
        return pa.array(values, _LARGEST_DECIMAL)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as exc:
        raise _refused(name, f"its values have no common type ({exc}): give values of one type") from exc
    except UnicodeError as exc:
        raise errors.InvalidText(f"column {name}: {exc}", {"column": name}) from exc


def _maps(name: str, values: Sequence[Any], type_: pa.MapType) -> pa.Array:
    """Maps, whose type Arrow does not infer. It would change a value of another type: 1.5 to 1 for an int."""
    pairs = [list(value.items()) if isinstance(value, Mapping) else value for value in values]
    maps = pa.array(pairs, type_)
    if maps.to_pylist() != pairs:
        raise _refused(name, f"a key or value in it is not of the type {type_}")
    return maps


def _times(values: Iterable[Any], place: str) -> Iterator[tuple[str, datetime.date]]:
    """Dates and times in the values, also within structs and lists, with the column or field."""
    if _NO_TIMES.issuperset(map(type, values)):
        return
    for value in values:
        if isinstance(value, datetime.date):
            if type(value).__name__ != "NaTType":  # the null of pandas, which is a datetime too
                yield place, value
        elif isinstance(value, Mapping):
            for name, part in value.items():
                yield from _times((part,), f"{place}.{name}")
        elif isinstance(value, list | tuple | np.ndarray):
            yield from _times(value, place)


def _kind(value: datetime.date) -> str:
    if not isinstance(value, datetime.datetime):
        return "a date"
    return "a time without a zone" if value.tzinfo is None else "a time with a zone"


def _refused(place: str, why: str) -> errors.SchemaMismatch:
    return errors.SchemaMismatch(f"column {place}: {why}", {"column": place})
