"""The filter language: which records a reader wants, so that files without such records are left out.

A filter is a tree of JSON objects, distinguished by their ``type``:

    {"type": "and", "filters": [
        {"type": "compare", "column": "amount", "operator": ">", "value": 10},
        {"type": "not", "filter": {"type": "is_null", "column": "country"}}]}

Literals have the form of their column's type: booleans and numbers are JSON's; a decimal is an integer or a
string (``"12.50"``), a float may also be ``"NaN"``, ``"Infinity"`` and ``"-Infinity"``; a date is
``"2026-01-31"``, a timestamp ``"2026-01-31T12:00:00.5Z"`` (or with an offset), a timestamp_ntz the same
without zone. A filter means what SQL means by it: a comparison with null is neither true nor false. NaN equals
itself and is greater than any other number, as in Spark; strings are ordered by their UTF-8 bytes.
"""

from __future__ import annotations

import enum
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

from chronolake_model.tables import ColumnName

DEPTH_MAX = 16
"""How deep filters may nest."""
PARTS_MAX = 1_000
"""The largest number of filters in a filter, including the values of an ``in``."""

TEXT_CHARACTERS_MAX = 4_096
"""The characters of a text that a column is compared with, at most."""

Text = Annotated[str, Meta(max_length=TEXT_CHARACTERS_MAX)]
Literal: TypeAlias = bool | int | float | Text


class ComparisonOperator(enum.StrEnum):
    """How a column is compared with a literal."""

    EQUAL = "="
    NOT_EQUAL = "!="
    LESS = "<"
    LESS_OR_EQUAL = "<="
    GREATER = ">"
    GREATER_OR_EQUAL = ">="


class _Filter(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type"):
    """Operators of all filters: ``a & b``, ``a | b``, ``~a``."""

    def __and__(self, other: Filter) -> And:
        return And([self, other])  # type: ignore[list-item]  # each subclass is one of Filter

    def __or__(self, other: Filter) -> Or:
        return Or([self, other])  # type: ignore[list-item]

    def __invert__(self) -> Not:
        return Not(self)  # type: ignore[arg-type]

    def __bool__(self) -> bool:
        # `a and b`, and `1 < column < 2`, would silently be the second of the two.
        raise TypeError("a filter is neither true nor false; combine filters with &, | and ~")


class And(_Filter, frozen=True, tag="and"):
    """All of these hold."""

    filters: Annotated[list[Filter], Meta(min_length=1, max_length=PARTS_MAX)]


class Or(_Filter, frozen=True, tag="or"):
    """At least one of these holds."""

    filters: Annotated[list[Filter], Meta(min_length=1, max_length=PARTS_MAX)]


class Not(_Filter, frozen=True, tag="not"):
    """This is false. (Unknown stays unknown.)"""

    filter: Filter


class Compare(_Filter, frozen=True, tag="compare"):
    """The column's value compares so with the literal."""

    column: ColumnName
    operator: ComparisonOperator
    value: Literal


class In(_Filter, frozen=True, tag="in"):
    """The column's value is one of these."""

    column: ColumnName
    values: Annotated[list[Literal], Meta(min_length=1, max_length=PARTS_MAX)]


class IsNull(_Filter, frozen=True, tag="is_null"):
    """The column has no value. The only filter on binary and nested columns."""

    column: ColumnName


class StartsWith(_Filter, frozen=True, tag="starts_with"):
    """The string column's value begins with the prefix."""

    column: ColumnName
    prefix: Text


Filter: TypeAlias = And | Or | Not | Compare | In | IsNull | StartsWith


def columns_of(filter_: Filter | None) -> set[str]:
    """The columns that a filter names."""
    match filter_:
        case None:
            return set()
        case And() | Or():
            return {name for part in filter_.filters for name in columns_of(part)}
        case Not():
            return columns_of(filter_.filter)
        case _:
            return {filter_.column}
