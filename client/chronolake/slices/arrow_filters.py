"""Filters over rows in Arrow, with the results that Spark has: for reads that Spark does not filter itself.

A comparison with null is null. NaN equals itself and is greater than any other number.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Final, assert_never

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

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

_COMPARE: Final = {
    ComparisonOperator.EQUAL: pc.equal,
    ComparisonOperator.NOT_EQUAL: pc.not_equal,
    ComparisonOperator.LESS: pc.less,
    ComparisonOperator.LESS_OR_EQUAL: pc.less_equal,
    ComparisonOperator.GREATER: pc.greater,
    ComparisonOperator.GREATER_OR_EQUAL: pc.greater_equal,
}
_NAN_IS_MORE: Final = (ComparisonOperator.GREATER, ComparisonOperator.GREATER_OR_EQUAL)
_LONG_MAX: Final = 2**63 - 1
# All digits of any two decimals of Spark fit, wherever their points are.
_ANY_DECIMAL: Final = pa.decimal256(76, 38)


def matching(rows: pa.Table, filter_: Filter, types: Mapping[str, str]) -> pa.Table:
    """The rows for which the filter is true; ``types`` has the table's type of each column."""
    return rows.filter(_mask(rows, filter_, types))


def renamed(filter_: Filter, names: Mapping[str, str]) -> Filter:
    """The filter with other names of its columns."""
    match filter_:
        case And() | Or():
            return type(filter_)([renamed(part, names) for part in filter_.filters])
        case Not():
            return Not(renamed(filter_.filter, names))
        case _:
            return msgspec.structs.replace(filter_, column=names[filter_.column])


def _mask(rows: pa.Table, filter_: Filter, types: Mapping[str, str]) -> pa.ChunkedArray:
    """For each row true, false or null."""
    match filter_:
        case And():
            return functools.reduce(pc.and_kleene, (_mask(rows, part, types) for part in filter_.filters))
        case Or():
            return functools.reduce(pc.or_kleene, (_mask(rows, part, types) for part in filter_.filters))
        case Not():
            return pc.invert(_mask(rows, filter_.filter, types))
        case _:
            return _test(rows[filter_.column], filter_, types[filter_.column])


def _test(column: pa.ChunkedArray, filter_: Compare | In | IsNull | StartsWith, type_: str) -> pa.ChunkedArray:
    match filter_:
        case IsNull():
            return pc.is_null(column)
        case StartsWith():
            return pc.starts_with(column, pattern=filter_.prefix)
        case Compare():
            return _compare(column, filter_.operator, filter_.value, type_)
        case In():
            tests = [_compare(column, ComparisonOperator.EQUAL, value, type_) for value in filter_.values]
            return functools.reduce(pc.or_kleene, tests)
        case _:
            assert_never(filter_)


def _type_word(type_: str) -> str:
    return re.split(r"\W", type_.strip().lower(), maxsplit=1)[0]


def _compare(
    column: pa.ChunkedArray, operator: ComparisonOperator, value: Literal, type_: str
) -> pa.ChunkedArray:
    match _type_word(type_):
        case "float" | "double":
            return _compare_floats(column.cast(pa.float64()), operator, float(value))
        case "decimal":
            return _COMPARE[operator](column.cast(_ANY_DECIMAL), pa.scalar(Decimal(str(value)), _ANY_DECIMAL))
        case "date" | "timestamp" | "timestamp_ntz":
            # Arrow parses it: Python's own times end with the year 9999.
            return _COMPARE[operator](column, pa.array([value], pa.string()).cast(column.type)[0])
        case _ if isinstance(value, int) and abs(value) > _LONG_MAX:
            return _COMPARE[operator](column.cast(_ANY_DECIMAL), pa.scalar(Decimal(value), _ANY_DECIMAL))
        case _:
            return _COMPARE[operator](column, pa.scalar(value))


def _compare_floats(column: pa.ChunkedArray, operator: ComparisonOperator, value: float) -> pa.ChunkedArray:
    is_nan = pc.is_nan(column)
    if math.isnan(value):
        # Only NaN is as great as NaN.
        return _COMPARE[operator](is_nan.cast(pa.int8()), pa.scalar(1, pa.int8()))
    result = _COMPARE[operator](column, pa.scalar(value))
    return pc.or_(result, is_nan) if operator in _NAN_IS_MORE else result
