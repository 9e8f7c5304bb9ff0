"""Values of columns as requests write them: in filters, in the ranges of column stats, in partition paths.

``chronolake_model.filters`` describes the forms. PostgreSQL can cast every literal that is accepted here to its
own type.
"""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Final, TypeAlias, TypeVar

from chronolake_model.filters import Literal

Value: TypeAlias = bool | int | float | Decimal | str | date | datetime
"""A value in an order: Python's, but for floats, which ``order`` puts into Spark's."""
_Parsed = TypeVar("_Parsed")


class LiteralKind(enum.Enum):
    """Types whose literals look alike and compare with each other; the value says what one looks like."""

    BOOLEAN = "true or false"
    INTEGER = "an integer"
    FLOAT = 'a number, "NaN", "Infinity" or "-Infinity"'
    DECIMAL = 'an integer, or a string like "12.50", of 38 digits at most'
    STRING = "a string without the character U+0000"
    DATE = 'a string like "2026-01-31"'
    TIMESTAMP = 'a string like "2026-01-31T12:00:00.123456Z", or with an offset like +02:00'
    TIMESTAMP_NTZ = 'a string like "2026-01-31T12:00:00.123456", without a zone'
    UNORDERED = "allowed: a column of this type has no order, and can only be tested with is_null"


DIGITS_MAX: Final = 38
_KINDS: Final = {
    "boolean": LiteralKind.BOOLEAN,
    "tinyint": LiteralKind.INTEGER,
    "smallint": LiteralKind.INTEGER,
    "int": LiteralKind.INTEGER,
    "bigint": LiteralKind.INTEGER,
    "float": LiteralKind.FLOAT,
    "double": LiteralKind.FLOAT,
    "decimal": LiteralKind.DECIMAL,
    "string": LiteralKind.STRING,
    "date": LiteralKind.DATE,
    "timestamp": LiteralKind.TIMESTAMP,
    "timestamp_ntz": LiteralKind.TIMESTAMP_NTZ,
}
_DECIMAL: Final = re.compile(r"-?(\d{1,38})(?:\.(\d{1,38}))?", re.ASCII)
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
# Six digits of a second at most, or cutting the others off would move the value. No offset beyond those that
# exist: PostgreSQL's limit is below Python's.
_LOCAL: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?", re.ASCII)
_ZONE: Final = re.compile(r"Z|[+-](0\d|1[0-4]):[0-5]\d", re.ASCII)
_NOT_FINITE: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def kind_of(type_: str) -> LiteralKind:
    """The kind of a column's type, which was checked."""
    word = re.match(r"\s*(\w*)", type_.lower())
    assert word is not None
    return _KINDS.get(word[1], LiteralKind.UNORDERED)


def parse(kind: LiteralKind, literal: Literal) -> Value:
    """The value that ``literal`` is in a column of this kind; raises ``ValueError`` when it is none."""
    parser = _PARSERS.get(kind)
    value = None if parser is None else parser(literal)
    if value is None:
        if kind is LiteralKind.STRING and not isinstance(literal, str):
            raise ValueError(f"{_excerpt(literal)} is not a string: put the value in quotes")
        raise ValueError(f"{_excerpt(literal)} is not {kind.value}")
    return value


def order(value: Value) -> Value | tuple[bool, float]:
    """The value to compare instead of ``value``: NaN equals itself and is greater than any other float."""
    if isinstance(value, float):
        return (True, 0.0) if math.isnan(value) else (False, value)
    return value


def _boolean(literal: Literal) -> bool | None:
    return literal if isinstance(literal, bool) else None


def _integer(literal: Literal) -> int | None:
    is_integer = isinstance(literal, int) and not isinstance(literal, bool)
    return int(literal) if is_integer and abs(int(literal)) < 10**DIGITS_MAX else None


def _float(literal: Literal) -> float | None:
    if isinstance(literal, str):
        return _NOT_FINITE.get(literal)
    number = literal if isinstance(literal, float) else _integer(literal)
    return None if number is None else float(number)


def _decimal(literal: Literal) -> Decimal | None:
    if isinstance(literal, str):
        match = _DECIMAL.fullmatch(literal)
        fits = match is not None and len(match[1].lstrip("0")) + len(match[2] or "") <= DIGITS_MAX
        return Decimal(literal) if fits else None
    number = None if isinstance(literal, float) else _integer(literal)
    return None if number is None else Decimal(number)


def _string(literal: Literal) -> str | None:
    return literal if isinstance(literal, str) and "\0" not in literal else None


def _date(literal: Literal) -> date | None:
    if not isinstance(literal, str) or not _DATE.fullmatch(literal):
        return None
    return _or_none(date.fromisoformat, literal)


def _timestamp(literal: Literal) -> datetime | None:
    if not isinstance(literal, str):
        return None
    local = _LOCAL.match(literal)
    if local is None or not _ZONE.fullmatch(literal, local.end()):
        return None
    return _or_none(lambda text: datetime.fromisoformat(text).astimezone(UTC), literal)


def _timestamp_ntz(literal: Literal) -> datetime | None:
    if not isinstance(literal, str) or not _LOCAL.fullmatch(literal):
        return None
    return _or_none(datetime.fromisoformat, literal)


def _or_none(parser: Callable[[str], _Parsed], text: str) -> _Parsed | None:
    try:
        return parser(text)
    except (ValueError, OverflowError):
        return None


_PARSERS: Final[dict[LiteralKind, Callable[[Literal], Value | None]]] = {
    LiteralKind.BOOLEAN: _boolean,
    LiteralKind.INTEGER: _integer,
    LiteralKind.FLOAT: _float,
    LiteralKind.DECIMAL: _decimal,
    LiteralKind.STRING: _string,
    LiteralKind.DATE: _date,
    LiteralKind.TIMESTAMP: _timestamp,
    LiteralKind.TIMESTAMP_NTZ: _timestamp_ntz,
}


def _excerpt(literal: Literal) -> str:
    shown = repr(literal)
    return shown if len(shown) <= 100 else f"{shown[:100]}…"
