"""Types of CSV columns: a type is inferred only if every value can be written back from it exactly.

Two values that are written differently must never become one value: in a record key they would be one record.
So a type is inferred only where all values are written in the same way.

=============== =============================================================================================
boolean         all values are ``true`` or ``false``, in lower case
bigint          all are whole numbers without leading zeros and without a plus sign, within 64 bits
decimal(p,s)    all are numbers with exactly ``s`` fraction digits, without leading zeros, plus sign, exponent
                and negative zero; ``p`` is 18 if that holds all of them, else 38
date            all are ``YYYY-MM-DD``
timestamp_ntz   all are ``YYYY-MM-DD HH:MM:SS``, or all have ``T`` in place of the blank; all have the same
                number of fraction digits, six at most
timestamp       the same, and all end in the same ``Z`` or offset such as ``+02:00``
string          anything else, and columns without values
=============== =============================================================================================
"""

from __future__ import annotations

import decimal
import re
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

STRING: Final = "string"
_NUMBERS: Final = "number"
_BOOLEAN = "^(true|false)$"
_WHOLE = "^(0|-?[1-9][0-9]*)$"
_NUMBER = re.compile(r"-?[0-9]+(?:\.([0-9]{1,38}))?")
_FLOAT = r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$"
_DATE = "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_TIME = r"[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?"
_ZONE = "(Z|[+-][0-9]{2}:[0-9]{2})"
_NTZ = f"{_DATE[:-1]}[ T]{_TIME}$"
_ZONED = f"{_DATE[:-1]}[ T]{_TIME}{_ZONE}$"
_MICROS = pa.timestamp("us")
_UTC = pa.timestamp("us", "UTC")
_TIMESTAMP = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?P<separator>[ T])[0-9]{2}:[0-9]{2}:[0-9]{2}"
    rf"(?:\.(?P<fraction>[0-9]{{1,6}}))?(?P<zone>{_ZONE})?"
)
_INT64_DIGITS = 18
"""So many digits a 64-bit number always holds."""
_DIGITS_MAX = 38
_DOUBLE_DIGITS = 15
"""So many digits come back from a double as they were."""
_FLOAT_DIGITS = 6
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")
_ARROW: Final = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    STRING: pa.string(),
    "date": pa.date32(),
    "timestamp": _UTC,
    "timestamp_ntz": _MICROS,
}
_WRITTEN: Final = {
    "boolean": _BOOLEAN,
    "tinyint": _WHOLE,
    "smallint": _WHOLE,
    "int": _WHOLE,
    "bigint": _WHOLE,
    "float": _FLOAT,
    "double": _FLOAT,
    STRING: "",
    "date": _DATE,
    "timestamp": _ZONED,
    "timestamp_ntz": _NTZ,
}
_WRITTEN_STATED: Final = {
    **_WRITTEN,
    "boolean": "(?i)^(true|false)$",
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), "^[+-]?[0-9]+$"),
    **dict.fromkeys(("float", "double"), r"(?i)^[+-]?([0-9]+(\.[0-9]*)?(e[+-]?[0-9]+)?|nan|inf)$"),
    "timestamp": f"{_ZONED}|{_NTZ}",
}


class Unfit(Exception):
    """A value that its column's type does not hold; ``index`` is its place in the array."""

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self.index = index


@dataclass(frozen=True, slots=True)
class _Style:
    """One way to write values: the type, and the pattern that all values of the column match.

    ``scale`` is the number of fraction digits of numbers.
    """

    type: str
    pattern: str
    scale: int = 0

    def fits(self, values: pa.Array) -> bool:
        """Whether all values are written in this way, and exist: 2026-02-30 does not."""
        if not pc.all(pc.match_substring_regex(values, self.pattern)).as_py():
            return False
        return self.type == _NUMBERS or _casts(values, _ARROW[self.type])


@dataclass
class Profile:
    """The way in which the values of one column, seen so far, are written; ``style`` is None for a string."""

    style: _Style | None = None
    seen: bool = False
    whole_digits: int = 0
    is_int64: bool = True

    def add(self, texts: pa.Array) -> None:
        """Take note of values."""
        values = texts.drop_null()
        if not len(values):
            return
        if not self.seen:
            self.seen, self.style = True, _style_of(values[0].as_py())
        if self.style is not None and not self.style.fits(values):
            self.style = None
        if self.style is not None and self.style.type == _NUMBERS:
            self._measure(values, self.style.scale)

    def merge(self, other: Profile) -> None:
        """Take note of what another profile of the column noted."""
        if not other.seen:
            return
        self.style = other.style if not self.seen or self.style == other.style else None
        self.seen = True
        self.whole_digits = max(self.whole_digits, other.whole_digits)
        self.is_int64 &= other.is_int64

    @property
    def type(self) -> str:
        """The type of the column, as Spark writes it."""
        if self.style is None:
            return STRING
        if self.style.type != _NUMBERS:
            return self.style.type
        if self.style.scale == 0:
            return "bigint" if self.is_int64 else STRING
        digits = self.whole_digits + self.style.scale
        if digits > _DIGITS_MAX:
            return STRING
        return f"decimal({_INT64_DIGITS if digits <= _INT64_DIGITS else _DIGITS_MAX},{self.style.scale})"

    def _measure(self, values: pa.Array, scale: int) -> None:
        length = pc.binary_length(values).to_numpy(zero_copy_only=False)
        sign = pc.starts_with(values, "-").to_numpy(zero_copy_only=False)
        self.whole_digits = max(self.whole_digits, int(np.max(length - sign)) - (scale + 1 if scale else 0))
        if self.whole_digits > _INT64_DIGITS and scale == 0:
            self.is_int64 = self.is_int64 and _casts(values, pa.int64())


def arrow_type(type_: str) -> pa.DataType | None:
    """The type of Arrow for a column of CSV files; None for one that they cannot hold."""
    if match := _DECIMAL.fullmatch(type_):
        return pa.decimal128(int(match[1]), int(match[2]))
    return _ARROW.get(type_)


def convert(texts: pa.Array, type_: str, *, stated: bool) -> pa.Array:
    """The values in the column's type. Raises ``Unfit`` for one that would not come back as it was written.

    ``stated`` says that the caller named the type: then leading zeros, a plus sign, fewer fraction digits than
    the decimal has, ``TRUE``, times without a zone (as UTC) and numbers that a double only approximates are
    taken too. A value that the type cannot hold never is.
    """
    target = arrow_type(type_)
    assert target is not None, type_
    if type_ == STRING:
        return texts
    _refuse_unmatched(texts, _pattern(type_, stated=stated))
    if stated:
        texts = pc.replace_substring_regex(texts, r"^\+", "")
    if stated and type_ == "timestamp":
        texts = pc.replace_substring_regex(texts, f"({_TIME})$", r"\1Z")
    values = _cast(texts, target)
    if pa.types.is_floating(target) and not stated:
        _refuse_approximated(texts, values)
    return values


def _pattern(type_: str, *, stated: bool) -> str:
    if match := _DECIMAL.fullmatch(type_):
        return r"^[+-]?[0-9]+(\.[0-9]+)?$" if stated else _number_pattern(int(match[2]))
    return (_WRITTEN_STATED if stated else _WRITTEN)[type_]


def _number_pattern(scale: int) -> str:
    """The one way in which decimals of ``scale`` are written back; it has no ``-0.00``."""
    if scale == 0:
        return _WHOLE
    below_zero = "|".join(f"0{{{zeros}}}[1-9][0-9]{{{scale - zeros - 1}}}" for zeros in range(scale))
    return rf"^(-?[1-9][0-9]*\.[0-9]{{{scale}}}|0\.[0-9]{{{scale}}}|-0\.({below_zero}))$"


def _style_of(value: str) -> _Style | None:
    """The only way in which all values of a column may be written if one is ``value``; None for a string."""
    if match := _NUMBER.fullmatch(value):
        scale = len(match[1] or "")
        return _Style(_NUMBERS, _number_pattern(scale), scale)
    if match := _TIMESTAMP.fullmatch(value):
        fraction = rf"\.[0-9]{{{len(match['fraction'])}}}" if match["fraction"] else ""
        zone = match["zone"] or ""
        seconds = f"{match['separator']}[0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}{fraction}"
        return _Style(
            "timestamp" if zone else "timestamp_ntz", f"{_DATE[:-1]}{seconds}{zone.replace('+', '[+]')}$"
        )
    return next(
        (_Style(type_, _WRITTEN[type_]) for type_ in ("boolean", "date") if re.search(_WRITTEN[type_], value)),
        None,
    )


def _casts(values: pa.Array, target: pa.DataType) -> bool:
    try:
        values.cast(target)
    except pa.ArrowInvalid:
        return False
    return True


def _cast(texts: pa.Array, target: pa.DataType) -> pa.Array:
    try:
        return texts.cast(target)
    except pa.ArrowInvalid:
        raise Unfit(_first_uncastable(texts, target)) from None


def _first_uncastable(texts: pa.Array, target: pa.DataType) -> int:
    start, end = 0, len(texts)
    while end - start > 1:
        middle = (start + end) // 2
        start, end = (middle, end) if _casts(texts.slice(start, middle - start), target) else (start, middle)
    return start


def _refuse_unmatched(texts: pa.Array, pattern: str) -> None:
    matches = pc.fill_null(pc.match_substring_regex(texts, pattern), True)
    index = pc.index(matches, False).as_py()
    if index >= 0:
        raise Unfit(index)


def _refuse_approximated(texts: pa.Array, values: pa.Array) -> None:
    """Raise ``Unfit`` for a number that is another once it is a float or a double."""
    digits_max = _FLOAT_DIGITS if values.type == pa.float32() else _DOUBLE_DIGITS
    doubtful = pc.or_(
        pc.greater(pc.binary_length(texts), digits_max), pc.match_substring(texts, "e", ignore_case=True)
    )
    for index in np.flatnonzero(pc.fill_null(doubtful, False).to_numpy(zero_copy_only=False)):
        stored = values[int(index)].as_py()
        shortest = str(np.float32(stored)) if values.type == pa.float32() else repr(stored)
        if decimal.Decimal(texts[int(index)].as_py()) != decimal.Decimal(shortest):
            raise Unfit(int(index))
