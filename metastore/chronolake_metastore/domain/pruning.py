"""Pruning: filters checked against a table, and the rule which files could have a matching record.

A file that the rule leaves out has no matching record.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias, assert_never

import msgspec

from chronolake_metastore import errors
from chronolake_metastore.domain import literals
from chronolake_metastore.domain.column_stats import Range
from chronolake_metastore.domain.literals import LiteralKind, Value, order
from chronolake_metastore.domain.tables import Table
from chronolake_model import filters as wire
from chronolake_model.filters import ComparisonOperator, Filter
from chronolake_model.partition_paths import are_kept

COLUMNS_LISTED_MAX: Final = 100
"""Columns that a refusal names, of those that the table has."""


class FilterColumn(msgspec.Struct, frozen=True):
    """A column of a table; ``partition`` is the place of its folder in partition paths, if it has one."""

    name: str
    field_id: int
    kind: LiteralKind
    partition: int | None = None


class Relation(enum.Enum):
    """How a test compares a column's value with its values."""

    AMONG = enum.auto()
    NOT_AMONG = enum.auto()
    LESS = enum.auto()
    LESS_OR_EQUAL = enum.auto()
    GREATER = enum.auto()
    GREATER_OR_EQUAL = enum.auto()
    NULL = enum.auto()
    NOT_NULL = enum.auto()
    PREFIXED = enum.auto()
    NOT_PREFIXED = enum.auto()


class Test(msgspec.Struct, frozen=True):
    """A test of one column in a checked filter. Only the test for nulls is true of a null."""

    column: FilterColumn
    relation: Relation
    values: tuple[Value, ...] = ()


class AllOf(msgspec.Struct, frozen=True):
    """All of these hold."""

    parts: tuple[Condition, ...]


class AnyOf(msgspec.Struct, frozen=True):
    """At least one part holds."""

    parts: tuple[Condition, ...]


Condition: TypeAlias = Test | AllOf | AnyOf
"""A checked filter without negations, which are moved into the tests.

``not (a < 1)`` is true where ``a >= 1`` is, and neither is true of a null, so nothing is lost.
"""


class Stats(msgspec.Struct, frozen=True):
    """The facts about a file's records; the ranges are by field id."""

    records: int
    ranges: Mapping[int, Range]


UNKNOWN: Final = Range()
_NEGATED: Final = {
    Relation.AMONG: Relation.NOT_AMONG,
    Relation.LESS: Relation.GREATER_OR_EQUAL,
    Relation.GREATER: Relation.LESS_OR_EQUAL,
    Relation.NULL: Relation.NOT_NULL,
    Relation.PREFIXED: Relation.NOT_PREFIXED,
}
_NEGATED_BOTH_WAYS: Final = _NEGATED | {relation: other for other, relation in _NEGATED.items()}
_COMPARISONS: Final = {
    ComparisonOperator.EQUAL: Relation.AMONG,
    ComparisonOperator.NOT_EQUAL: Relation.NOT_AMONG,
    ComparisonOperator.LESS: Relation.LESS,
    ComparisonOperator.LESS_OR_EQUAL: Relation.LESS_OR_EQUAL,
    ComparisonOperator.GREATER: Relation.GREATER,
    ComparisonOperator.GREATER_OR_EQUAL: Relation.GREATER_OR_EQUAL,
}


def check(table: Table, wanted: Filter) -> Condition:
    """The filter as a condition on the table's columns; raises ``InvalidFilter``, which says where."""
    return _Checker(table).checked(wanted, "filter", depth=1, negated=False)


def slice_could_match(condition: Condition, files: Sequence[Stats]) -> bool:
    """Whether a record merged from these files could meet the condition, which asks of no partition column.

    Each of its values comes from one of the files, but not all need come from the same: so each test is applied
    to each file separately. ``domain.partition_pruning`` gives the condition for the files of a partition.
    """
    return _could_hold(condition, lambda test: any(_file_passes(test, file) for file in files))


def passes(test: Test, bounds: Range, records: int) -> bool:
    """Whether one of the values of ``records`` records, in the range ``bounds``, could pass the test."""
    if test.relation is Relation.NULL:
        return bounds.nulls != 0
    if bounds.nulls == records:
        return False
    least = None if bounds.least is None else order(bounds.least)
    greatest = None if bounds.greatest is None else order(bounds.greatest)
    return _RULES[test.relation](least, greatest, [order(value) for value in test.values])


class _Checker:
    """Turns a filter into a condition; counts its parts."""

    def __init__(self, table: Table) -> None:
        # Paths that are kept do not have the values of the columns.
        is_kept = are_kept(table.definition.properties)
        partitions = [] if is_kept else table.definition.partition_fields
        self._table = table
        self._parts = 0
        self._columns = {
            field.name: FilterColumn(
                field.name,
                field.field_id,
                literals.kind_of(field.type),
                partitions.index(field.name) if field.name in partitions else None,
            )
            for field in table.definition.schema
        }
        self._types = {field.name: field.type for field in table.definition.schema}

    def checked(self, wanted: Filter, place: str, *, depth: int, negated: bool) -> Condition:
        self._parts += len(wanted.values) if isinstance(wanted, wire.In) else 1
        if depth > wire.DEPTH_MAX:
            raise _invalid(place, f"the filter nests deeper than {wire.DEPTH_MAX}")
        if self._parts > wire.PARTS_MAX:
            raise _invalid(
                place, f"the filter has more than {wire.PARTS_MAX} parts, including the values of in"
            )
        match wanted:
            case wire.And() | wire.Or():
                parts = tuple(
                    self.checked(part, f"{place}.filters[{index}]", depth=depth + 1, negated=negated)
                    for index, part in enumerate(wanted.filters)
                )
                return AllOf(parts) if isinstance(wanted, wire.And) != negated else _any_of(parts)
            case wire.Not():
                return self.checked(wanted.filter, f"{place}.filter", depth=depth + 1, negated=not negated)
            case _:
                test = self._test(wanted, place)
                relation = _NEGATED_BOTH_WAYS[test.relation] if negated else test.relation
                return msgspec.structs.replace(test, relation=relation)

    def _test(self, wanted: wire.Compare | wire.In | wire.IsNull | wire.StartsWith, place: str) -> Test:
        column = self._column(wanted.column, place)
        match wanted:
            case wire.Compare():
                value = self._value(column, wanted.value, f"{place}.value")
                return Test(column, _COMPARISONS[wanted.operator], (value,))
            case wire.In():
                values = (
                    self._value(column, value, f"{place}.values[{index}]")
                    for index, value in enumerate(wanted.values)
                )
                return Test(column, Relation.AMONG, tuple(values))
            case wire.IsNull():
                return Test(column, Relation.NULL)
            case wire.StartsWith():
                if column.kind is not LiteralKind.STRING:
                    raise self._mistyped(column, place, "starts_with works only on string columns")
                return Test(column, Relation.PREFIXED, (self._value(column, wanted.prefix, f"{place}.prefix"),))
            case _:
                assert_never(wanted)

    def _column(self, name: str, place: str) -> FilterColumn:
        column = self._columns.get(name)
        if column is None:
            columns = list(self._columns)[:COLUMNS_LISTED_MAX]
            raise _invalid(
                place,
                f"the table {self._table.name!r} has no column {name!r}; it has {', '.join(columns)}",
                column=name,
                columns=columns,
            )
        return column

    def _value(self, column: FilterColumn, literal: wire.Literal, place: str) -> Value:
        try:
            return literals.parse(column.kind, literal)
        except ValueError as exc:
            raise self._mistyped(column, place, str(exc)) from exc

    def _mistyped(self, column: FilterColumn, place: str, why: str) -> errors.InvalidFilter:
        type_ = self._types[column.name]
        return _invalid(
            place, f"the column {column.name!r} is of type {type_}: {why}", column=column.name, type=type_
        )


def _any_of(parts: Iterable[Condition]) -> AnyOf:
    """Any of the parts: ``a = 1 or a = 2`` as ``a in (1, 2)``, because each test makes statements longer."""
    merged: dict[object, Condition] = {}
    for number, part in enumerate(parts):
        if isinstance(part, Test) and part.relation is Relation.AMONG:
            before = merged.get(part.column)
            values = (*before.values, *part.values) if isinstance(before, Test) else part.values
            merged[part.column] = msgspec.structs.replace(part, values=values)
        else:
            merged[number] = part
    return AnyOf(tuple(merged.values()))


def _could_hold(condition: Condition, passes: Callable[[Test], bool]) -> bool:
    match condition:
        case Test():
            return passes(condition)
        case AllOf():
            return all(_could_hold(part, passes) for part in condition.parts)
        case AnyOf():
            return any(_could_hold(part, passes) for part in condition.parts)


def _file_passes(test: Test, file: Stats) -> bool:
    assert test.column.partition is None, "a partition column is judged by the partition path"
    return passes(test, file.ranges.get(test.column.field_id, UNKNOWN), file.records)


# Bounds and values are of one column, so they have one order, regardless of their type. A bound that is unknown
# is None, and excludes nothing.
_RULES: Final[dict[Relation, Callable[[Any, Any, list[Any]], bool]]] = {
    Relation.NOT_NULL: lambda least, greatest, values: True,
    Relation.AMONG: lambda least, greatest, values: any(
        (least is None or least <= value) and (greatest is None or greatest >= value) for value in values
    ),
    Relation.NOT_AMONG: lambda least, greatest, values: (
        least is None or least != greatest or least not in values
    ),
    Relation.LESS: lambda least, greatest, values: least is None or least < values[0],
    Relation.LESS_OR_EQUAL: lambda least, greatest, values: least is None or least <= values[0],
    Relation.GREATER: lambda least, greatest, values: greatest is None or greatest > values[0],
    Relation.GREATER_OR_EQUAL: lambda least, greatest, values: greatest is None or greatest >= values[0],
    # Values with a prefix are adjacent in the order: from the prefix on, up to the first value with a greater
    # beginning of the same length.
    Relation.PREFIXED: lambda least, greatest, values: (
        (least is None or least[: len(values[0])] <= values[0]) and (greatest is None or greatest >= values[0])
    ),
    Relation.NOT_PREFIXED: lambda least, greatest, values: (
        least is None
        or greatest is None
        or not (least.startswith(values[0]) and greatest.startswith(values[0]))
    ),
}


def _invalid(place: str, why: str, **context: object) -> errors.InvalidFilter:
    return errors.InvalidFilter(f"{place}: {why}", place=place, **context)
