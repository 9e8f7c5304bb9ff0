"""Filters in reads: the filters by which the server prunes, applied to the rows again by Spark."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from decimal import ROUND_FLOOR, Context, Decimal
from typing import Any, Final, TypeAlias, assert_never

from pyspark.sql import Column, functions as sf

from chronolake_model.filters import (
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
from chronolake_model.tables import Field
from chronolake_spark.driver import schema

FilterOrText: TypeAlias = Filter | str
"""A filter, or its text: ``"amount >= 10 and region in ('eu', 'us')"``."""

_OPERATORS: Final[Mapping[ComparisonOperator, Callable[[Any, Any], Any]]] = {
    ComparisonOperator.EQUAL: operator.eq,
    ComparisonOperator.NOT_EQUAL: operator.ne,
    ComparisonOperator.LESS: operator.lt,
    ComparisonOperator.LESS_OR_EQUAL: operator.le,
    ComparisonOperator.GREATER: operator.gt,
    ComparisonOperator.GREATER_OR_EQUAL: operator.ge,
}
_LONG_MAX: Final = 2**63 - 1
_DECIMAL: Final = re.compile(r"decimal\s*\(\s*(?P<precision>\d+)\s*,\s*(?P<scale>\d+)\s*\)")
_DIGITS_MAX: Final = 38
_EXACT: Final = Context(prec=80)


def condition(filter_: Filter, fields: Iterable[Field]) -> Column:
    """The filter as Spark has it, for rows with columns of these fields, which the server found to fit."""
    return _condition(filter_, _types(fields))


def _types(fields: Iterable[Field]) -> dict[str, str]:
    return {field.name: field.type for field in fields}


def _condition(filter_: Filter, types: Mapping[str, str]) -> Column:
    match filter_:
        case And():
            return _all_of(operator.and_, filter_.filters, types)
        case Or():
            return _all_of(operator.or_, filter_.filters, types)
        case Not():
            return ~_condition(filter_.filter, types)
        case _:
            return _test(filter_, sf.col(schema.quoted(filter_.column)), types[filter_.column])


def _all_of(combine: Callable[[Any, Any], Any], parts: list[Filter], types: Mapping[str, str]) -> Column:
    """The parts as a balanced tree: a chain of a thousand parts exceeds the recursion limit of Spark."""
    conditions = [_condition(part, types) for part in parts]
    while len(conditions) > 1:
        pairs = zip(conditions[::2], conditions[1::2], strict=False)
        conditions = [combine(left, right) for left, right in pairs] + conditions[len(conditions) & ~1 :]
    return conditions[0]


def _test(filter_: Compare | In | IsNull | StartsWith, column: Column, type_: str) -> Column:
    match filter_:
        case Compare():
            if (below := _rounded(filter_.value, type_)) is not None:
                return _compared_beside(filter_.operator, column, below)
            compared: Column = _OPERATORS[filter_.operator](column, _literal(filter_.value, type_))
            return compared
        case In():
            values = [value for value in filter_.values if _rounded(value, type_) is None]
            among: Column = column.isin([_literal(value, type_) for value in values])
            return among if values else _unless_null(column, False)
        case IsNull():
            return column.isNull()
        case StartsWith():
            return column.startswith(filter_.prefix)
        case _:
            assert_never(filter_)


def _rounded(value: Literal, type_: str) -> Decimal | None:
    """The largest value of a wide decimal column below a literal with which Spark would compare rounded values.

    None for a literal that Spark compares exactly: no decimal has more than 38 digits.
    """
    column = _DECIMAL.fullmatch(type_.strip().lower())
    if column is None:
        return None
    precision, scale = int(column["precision"]), int(column["scale"])
    number = Decimal(str(value))
    if precision - scale + max(-int(number.as_tuple().exponent), 0) <= _DIGITS_MAX:
        return None
    below = number.quantize(Decimal(1).scaleb(-scale), ROUND_FLOOR, _EXACT)
    return None if below == number else below


def _compared_beside(comparison: ComparisonOperator, column: Column, below: Decimal) -> Column:
    """The comparison with a literal between ``below`` and the next value of the column. Null stays null."""
    match comparison:
        case ComparisonOperator.EQUAL:
            return _unless_null(column, False)
        case ComparisonOperator.NOT_EQUAL:
            return _unless_null(column, True)
        case ComparisonOperator.LESS | ComparisonOperator.LESS_OR_EQUAL:
            return column <= sf.lit(below)
        case ComparisonOperator.GREATER | ComparisonOperator.GREATER_OR_EQUAL:
            return column > sf.lit(below)
        case _:
            assert_never(comparison)


def _unless_null(column: Column, truth: bool) -> Column:
    return sf.when(column.isNotNull(), sf.lit(truth))


def _literal(value: Literal, type_: str) -> Column:
    word = re.split(r"\W", type_.strip().lower(), maxsplit=1)[0]
    match word:
        case "float" | "double":
            # NaN and the infinities are called as Python calls them.
            return sf.lit(float(value))
        case "decimal":
            return sf.lit(Decimal(str(value)))
        case "date" | "timestamp" | "timestamp_ntz":
            # Not by way of Python's own: Java's old calendar would move those of long ago.
            # And not by the word: its meaning depends on a setting of the session.
            return sf.lit(value).cast(schema.type_of(word))
        case _ if isinstance(value, int) and abs(value) > _LONG_MAX:
            # Of a decimal literal beyond the column's type Spark thinks that nulls are less than it, too.
            return sf.lit(str(value)).cast("decimal(38,0)")
        case _:
            return sf.lit(value)
