"""Filters as Python expressions: ``(col("amount") > 10) & col("country").is_in(["DE", "FR"])``."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TypeAlias

from chronolake_model import filter_text
from chronolake_model.filters import Compare, ComparisonOperator, Filter, In, IsNull, Literal, Not, StartsWith
from chronolake_model.tables import Field

Value: TypeAlias = bool | int | float | str | Decimal | date | datetime
"""The types of values. A timestamp is compared with aware datetimes, a timestamp_ntz with naive ones."""


def col(name: str) -> Column:
    """A column for comparisons: ``col("amount") > 10`` is a filter; ``&``, ``|`` and ``~`` combine filters."""
    return Column(name)


def filter_of(where: Filter | str, fields: Iterable[Field]) -> Filter:
    """The filter of an expression, or of a text over columns of these fields.

    Raises ``ValueError`` for an invalid text, and ``TypeError``.
    """
    if isinstance(where, str):
        return filter_text.parse(where, {field.name: field.type for field in fields})
    if not isinstance(where, Filter):
        raise TypeError(f"a filter is an expression of chronolake.col or a text, not {type(where).__name__}")
    return where


class Column:
    """A column of a table; comparing it makes a filter."""

    __hash__ = None  # type: ignore[assignment]  # two columns that are compared make a filter, not a bool

    def __init__(self, name: str) -> None:
        self._name = name

    def __eq__(self, value: Value) -> Filter:  # type: ignore[override, explicit-override]
        return self._compared(ComparisonOperator.EQUAL, value)

    def __ne__(self, value: Value) -> Filter:  # type: ignore[override, explicit-override]
        return self._compared(ComparisonOperator.NOT_EQUAL, value)

    def __lt__(self, value: Value) -> Filter:
        return self._compared(ComparisonOperator.LESS, value)

    def __le__(self, value: Value) -> Filter:
        return self._compared(ComparisonOperator.LESS_OR_EQUAL, value)

    def __gt__(self, value: Value) -> Filter:
        return self._compared(ComparisonOperator.GREATER, value)

    def __ge__(self, value: Value) -> Filter:
        return self._compared(ComparisonOperator.GREATER_OR_EQUAL, value)

    def is_in(self, values: Iterable[Value]) -> Filter:
        """A filter: the value is one of ``values``."""
        return In(self._name, [_literal(value) for value in values])

    def is_null(self) -> Filter:
        """A filter: the value is null."""
        return IsNull(self._name)

    def is_not_null(self) -> Filter:
        """A filter: the value is not null."""
        return Not(IsNull(self._name))

    def starts_with(self, prefix: str) -> Filter:
        """A filter: the string begins with ``prefix``."""
        return StartsWith(self._name, prefix)

    def _compared(self, operator: ComparisonOperator, value: Value) -> Filter:
        return Compare(self._name, operator, _literal(value))


def _literal(value: Value) -> Literal:
    """The JSON form of ``value``; raises ``TypeError`` for a value of another type."""
    match value:
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case bool() | int() | float() | str():
            return value
        case Decimal():
            return format(value, "f")
        case datetime():
            return (value if value.tzinfo is None else value.astimezone(UTC)).isoformat().replace("+00:00", "Z")
        case date():
            return value.isoformat()
        case _:
            raise TypeError(f"a column cannot be compared with {value!r}; use is_null() for null")
