"""Conditions of a query as filters of the metastore, which leave out files: Spark checks the rows again.

A condition that the filter language cannot say is left out. What remains holds for each row that the query
wants, so no file of such a row is missed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

import msgspec

from chronolake_model.filters import (
    DEPTH_MAX,
    PARTS_MAX,
    TEXT_CHARACTERS_MAX,
    And,
    Compare,
    ComparisonOperator,
    Filter,
    In,
    IsNull,
    Literal,
    Not,
    Or,
    StartsWith,
)

_COMPARISONS: Final[Mapping[str, ComparisonOperator]] = {
    "EqualTo": ComparisonOperator.EQUAL,
    "LessThan": ComparisonOperator.LESS,
    "LessThanOrEqual": ComparisonOperator.LESS_OR_EQUAL,
    "GreaterThan": ComparisonOperator.GREATER,
    "GreaterThanOrEqual": ComparisonOperator.GREATER_OR_EQUAL,
}
_MIRRORED: Final[Mapping[ComparisonOperator, ComparisonOperator]] = {
    ComparisonOperator.EQUAL: ComparisonOperator.EQUAL,
    ComparisonOperator.LESS: ComparisonOperator.GREATER,
    ComparisonOperator.LESS_OR_EQUAL: ComparisonOperator.GREATER_OR_EQUAL,
    ComparisonOperator.GREATER: ComparisonOperator.LESS,
    ComparisonOperator.GREATER_OR_EQUAL: ComparisonOperator.LESS_OR_EQUAL,
}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_INTEGERS: Final = ("tinyint", "smallint", "int", "bigint")


class Condition(msgspec.Struct, frozen=True):
    """An expression of Spark: a node, a column, or a literal, whose ``value`` is Spark's own, as text."""

    node: str
    type: str
    column: str | None = None
    value: str | None = None
    children: list[Condition] = []


class _NotSaid(Exception):
    """The filter language cannot say this condition."""


def filter_of(conditions: Sequence[Condition], columns: Sequence[str]) -> Filter | None:
    """A filter that each row holds for which all conditions hold; None if there is none.

    ``columns`` are those that the table has.
    """
    said = [part for condition in conditions for part in _conjuncts(condition, frozenset(columns))]
    kept = [part for part in said if _depth(part) < DEPTH_MAX]
    while kept and sum(map(_size, kept)) > PARTS_MAX - 1:
        kept.pop()
    if not kept:
        return None
    return kept[0] if len(kept) == 1 else And(kept)


def _conjuncts(condition: Condition, columns: frozenset[str]) -> list[Filter]:
    if condition.node == "And":
        return [part for child in condition.children for part in _conjuncts(child, columns)]
    try:
        return [_said(condition, columns)]
    except _NotSaid:
        return []


def _said(condition: Condition, columns: frozenset[str]) -> Filter:
    children = condition.children
    match condition.node:
        case "And" | "Or":
            combine = And if condition.node == "And" else Or
            return combine([_said(child, columns) for child in children])
        case "Not":
            return Not(_said(children[0], columns))
        case "IsNull" | "IsNotNull":
            is_null = IsNull(_column(children[0], columns))
            return is_null if condition.node == "IsNull" else Not(is_null)
        case "StartsWith":
            return StartsWith(_column(children[0], columns), str(_literal(children[1], children[0])))
        case "In" | "InSet":
            return _in(children[0], children[1:], columns)
        case _:
            return _comparison(condition, columns)


def _in(column: Condition, values: Sequence[Condition], columns: frozenset[str]) -> Filter:
    if not 0 < len(values) <= PARTS_MAX:
        raise _NotSaid
    return In(_column(column, columns), [_literal(value, column) for value in values])


def _comparison(condition: Condition, columns: frozenset[str]) -> Filter:
    operator = _COMPARISONS.get(condition.node)
    if operator is None:
        raise _NotSaid
    left, right = condition.children
    if left.column is None:
        left, right, operator = right, left, _MIRRORED[operator]
    return Compare(_column(left, columns), operator, _literal(right, left))


def _column(condition: Condition, columns: frozenset[str]) -> str:
    if condition.column is None or condition.column not in columns:
        raise _NotSaid
    return condition.column


def _literal(condition: Condition, column: Condition) -> Literal:
    """The value of a literal, which has the type of the column."""
    text, type_ = condition.value, condition.type
    if condition.node != "Literal" or text is None or type_ != column.type:
        raise _NotSaid
    try:
        return _value(text, type_)
    except (ValueError, OverflowError):
        raise _NotSaid from None


def _value(text: str, type_: str) -> Literal:
    value: Any
    if type_ in _INTEGERS:
        value = int(text)
    elif type_ == "boolean":
        value = text == "true"
    elif type_ in ("float", "double"):
        value = float(text) if re.fullmatch(r"-?\d.*", text) else text
    elif type_ == "date":
        value = (date(1970, 1, 1) + timedelta(days=int(text))).isoformat()
    elif type_ in ("timestamp", "timestamp_ntz"):
        moment = _EPOCH + timedelta(microseconds=int(text))
        value = moment.isoformat() if type_ == "timestamp" else moment.replace(tzinfo=None).isoformat()
    elif type_.startswith("decimal"):
        value = format(Decimal(text), "f")
    elif type_ == "string":
        value = text
    else:
        raise _NotSaid
    if isinstance(value, str) and len(value) > TEXT_CHARACTERS_MAX:
        raise _NotSaid
    return value  # type: ignore[no-any-return]


def _depth(filter_: Filter) -> int:
    match filter_:
        case And() | Or():
            return 1 + max(map(_depth, filter_.filters))
        case Not():
            return 1 + _depth(filter_.filter)
        case _:
            return 1


def _size(filter_: Filter) -> int:
    match filter_:
        case And() | Or():
            return 1 + sum(map(_size, filter_.filters))
        case Not():
            return 1 + _size(filter_.filter)
        case In():
            return 1 + len(filter_.values)
        case _:
            return 1
