"""Values of keys as Arrow, unchanged: of another type than their field they are refused.

Needs ``chronolake[arrow]``.
"""

from __future__ import annotations

import datetime
import numbers
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, TypeAlias

import pyarrow as pa

from chronolake.slices import arrow_types, errors
from chronolake_model.tables import SchemaField, Table

_Test: TypeAlias = Callable[[Any], bool]


def _is_integer(value: Any) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _is_decimal(value: Any) -> bool:
    return isinstance(value, Decimal) or _is_integer(value)


def _is_date(value: Any) -> bool:
    return isinstance(value, datetime.date) and not isinstance(value, datetime.datetime)


def _is_time(value: Any) -> bool:
    return isinstance(value, datetime.datetime)


def _is_naive(value: Any) -> bool:
    return isinstance(value, datetime.datetime) and value.tzinfo is None


_VALUES: Final[Mapping[str, tuple[_Test, str]]] = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), (_is_integer, "an int")),
    "decimal": (_is_decimal, "a Decimal or an int"),
    "date": (_is_date, "a datetime.date"),
    "timestamp": (_is_time, "a datetime"),
    "timestamp_ntz": (_is_naive, "a datetime without a time zone"),
}
"""By type the values that are keys, and their name: Arrow would change others, 1.5 to 1 for example."""


def of(table: Table, field: SchemaField, values: Sequence[Any]) -> pa.Array:
    """Values of a field of keys as Arrow. Raises ``SchemaMismatch`` for one of another type than the field."""
    type_ = arrow_types.file_layout([field]).field(field.name).type
    test, name = _VALUES.get(field.type.strip().lower().partition("(")[0], (None, ""))
    wrong = [] if test is None else [value for value in values if value is not None and not test(value)]
    if wrong:
        raise _wrong_value(table, field, f"{wrong[0]!r} is not {name}")
    # A time of pandas may have nanoseconds, which Arrow would cut off: another key.
    if cut := [value for value in values if getattr(value, "nanosecond", 0)]:
        raise _wrong_value(table, field, f"{cut[0]!r} has nanoseconds, and tables store microseconds")
    if pa.types.is_timestamp(type_) and type_.tz is not None:
        for value in values:
            if _is_naive(value):
                raise _wrong_value(table, field, f"{value!r} has no time zone: add one, as tzinfo=datetime.UTC")
    try:
        return pa.array(values, type_)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, UnicodeError) as exc:
        raise _wrong_value(table, field, str(exc)) from exc


def _wrong_value(table: Table, field: SchemaField, why: str) -> errors.SchemaMismatch:
    return errors.SchemaMismatch(
        f"a value of {field.name} in the keys is not a {field.type}, as in {table.name}: {why}",
        {"column": field.name},
    )
