"""Conditions of SQL as filters: only what each wanted row holds; rows and pruned files are as expected."""

from __future__ import annotations

from typing import Any

import pytest

from chronolake_model.filters import And, Compare, ComparisonOperator, In, IsNull, Not, Or
from chronolake_spark.catalogs import conditions
from chronolake_spark.catalogs.conditions import Condition

_ID = Condition("AttributeReference", "bigint", column="id")
_DAY = Condition("AttributeReference", "date", column="day")
_EQUAL = ComparisonOperator.EQUAL


def _literal(value: str | None, type_: str = "bigint") -> Condition:
    return Condition("Literal", type_, value=value)


def _node(name: str, *children: Condition) -> Condition:
    return Condition(name, "boolean", children=list(children))


_IS_ONE = _node("EqualTo", _ID, _literal("1"))
_UNSAID = _node("Contains", _ID, _literal("1"))


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (_IS_ONE, Compare("id", _EQUAL, 1)),
        (_node("LessThan", _literal("1"), _ID), Compare("id", ComparisonOperator.GREATER, 1)),
        (_node("EqualTo", _DAY, _literal("20000", "date")), Compare("day", _EQUAL, "2024-10-04")),
        (_node("InSet", _ID, _literal("1"), _literal("2")), In("id", [1, 2])),
        (_node("IsNotNull", _ID), Not(IsNull("id"))),
        (_node("And", _IS_ONE, _UNSAID), Compare("id", _EQUAL, 1)),
        (
            _node("Or", _IS_ONE, _node("IsNull", _ID)),
            Or([Compare("id", _EQUAL, 1), IsNull("id")]),
        ),
        # A part of an OR, or of a NOT, cannot be left out.
        (_node("Or", _IS_ONE, _UNSAID), None),
        (_node("Not", _node("And", _IS_ONE, _UNSAID)), None),
        # Null equals null here, and the filter language cannot say so.
        (_node("EqualNullSafe", _ID, _literal("1")), None),
        (_node("Not", _node("EqualNullSafe", _ID, _literal("1"))), None),
        (_node("In", _ID, _literal("1"), _literal(None)), None),
        # A literal of another type is compared by other rules.
        (_node("EqualTo", _ID, _literal("1.5", "double")), None),
        (_node("EqualTo", _DAY, _literal("9999999", "date")), None),
        (_node("EqualTo", Condition("AttributeReference", "bigint", column="_other"), _literal("1")), None),
    ],
)
def test_condition_as_filter(condition: Condition, expected: Any) -> None:
    assert conditions.filter_of([condition], ["id", "day"]) == expected


def test_too_many_parts_are_left_out() -> None:
    many = _node("InSet", _ID, *(_literal(str(number)) for number in range(900)))
    assert conditions.filter_of([_IS_ONE, many, many], ["id"]) == And(
        [Compare("id", _EQUAL, 1), In("id", list(range(900)))]
    )
    deep = _IS_ONE
    for _ in range(20):
        deep = _node("Not", deep)
    assert conditions.filter_of([deep], ["id"]) is None
