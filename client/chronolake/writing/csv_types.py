"""Types of CSV columns: the spellings of their values, and the conversion of texts to them.

A type that was inferred (``csv_profiles``), or that the table has, accepts only one spelling of each value. A
type that the caller states accepts others too.
"""

from __future__ import annotations

import decimal
import re
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chronolake_model.schemas import DECIMAL_PRECISION_MAX

STRING: Final = "string"
_BOOLEAN = "^(true|false)$"
_WHOLE = "^(0|-?[1-9][0-9]*)$"
_WHOLE_STATED = r"^[+-]?[0-9]+(\.0*)?$"
_FLOAT = r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$"
_DIGITS = r"([0-9]+(\.[0-9]*)?|\.[0-9]+)"
"""A number without sign and exponent, also with nothing before or after the point."""
DATE = "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_TIME = r"[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?"
_ZONE = "(Z|[+-][0-9]{2}:[0-9]{2})"
_NTZ = f"{DATE[:-1]}[ T]{_TIME}$"
_ZONED = f"{DATE[:-1]}[ T]{_TIME}{_ZONE}$"
_MICROS = pa.timestamp("us")
_UTC = pa.timestamp("us", "UTC")
_DOUBLE_DIGITS = 15
"""Maximum number of digits that a double keeps unchanged."""
_FLOAT_DIGITS = 6
_PARTS = r"^[+-]?0*(?P<whole>[0-9]*)\.?(?P<fraction>[0-9]*)$"
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
PATTERNS: Final = {
    "boolean": _BOOLEAN,
    "tinyint": _WHOLE,
    "smallint": _WHOLE,
    "int": _WHOLE,
    "bigint": _WHOLE,
    "float": _FLOAT,
    "double": _FLOAT,
    STRING: "",
    "date": DATE,
    "timestamp": _ZONED,
    "timestamp_ntz": _NTZ,
}
_PATTERNS_STATED: Final = {
    **PATTERNS,
    "boolean": "(?i)^(true|false)$",
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), "^[+-]?[0-9]+$"),
    **dict.fromkeys(("float", "double"), rf"(?i)^[+-]?({_DIGITS}(e[+-]?[0-9]+)?|nan|inf)$"),
    "timestamp": f"{_ZONED}|{_NTZ}",
}


class ValueMismatch(Exception):
    """A value that its column's type does not hold; ``index`` is its place in the array."""

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self.index = index


def arrow_type(type_: str) -> pa.DataType | None:
    """The type of Arrow for a column of CSV files; None for one that they cannot hold."""
    if match := _DECIMAL.fullmatch(type_):
        return pa.decimal128(int(match[1]), int(match[2]))
    return _ARROW.get(type_)


def convert(texts: pa.Array, type_: str, *, stated: bool, are_matched: bool = False) -> pa.Array:
    """The values in the column's type. Raises ``ValueMismatch`` for a value that does not fit.

    A value fits if it can be written back exactly. If the caller ``stated`` the type, these are accepted too:
    leading zeros, a plus sign, fewer fraction digits than the decimal has, no digit before or after the point,
    ``TRUE``, times without a zone (as UTC), and fractions that a float or a double only approximates. A value
    that the type cannot hold never fits, and no whole number that a float or a double would change.
    ``are_matched`` says that all texts match ``pattern``.
    """
    target = arrow_type(type_)
    assert target is not None, type_
    if type_ == STRING:
        return texts
    if not are_matched:
        _refuse_unmatched(texts, pattern(type_, stated=stated))
    if stated:
        texts = pc.replace_substring_regex(texts, r"^\+", "")
    if stated and type_ == "timestamp":
        texts = pc.replace_substring_regex(texts, f"({_TIME})$", r"\1Z")
    if pa.types.is_decimal(target):
        _refuse_large(texts, target)
    values = _cast(texts, target)
    if pa.types.is_floating(target):
        _refuse_infinite(texts, values)
        _refuse_approximated(texts, values, whole_only=stated)
    return values


def accepts(texts: pa.Array, type_: str, *, stated: bool) -> bool:
    """Whether ``convert`` converts all of ``texts``."""
    try:
        convert(texts, type_, stated=stated)
    except ValueMismatch:
        return False
    return True


def pattern(type_: str, *, stated: bool) -> str:
    """The pattern of the values that a column of this type accepts; it does not bound their size."""
    if match := _DECIMAL.fullmatch(type_):
        return rf"^[+-]?{_DIGITS}$" if stated else number_pattern(int(match[2]))
    return (_PATTERNS_STATED if stated else PATTERNS)[type_]


def number_pattern(scale: int) -> str:
    """The pattern of decimals of ``scale`` as they are written back, without ``-0.00``."""
    if scale == 0:
        return _WHOLE
    below_zero = "|".join(f"0{{{zeros}}}[1-9][0-9]{{{scale - zeros - 1}}}" for zeros in range(scale))
    return rf"^(-?[1-9][0-9]*\.[0-9]{{{scale}}}|0\.[0-9]{{{scale}}}|-0\.({below_zero}))$"


def casts(values: pa.Array, target: pa.DataType) -> bool:
    """Whether Arrow casts all of ``values``."""
    try:
        values.cast(target)
    except pa.ArrowInvalid:
        return False
    return True


def digits(numbers: pa.Array) -> tuple[pa.Array, pa.Array]:
    """The digits before the point, without leading zeros, and after it, of numbers without exponent."""
    parts = pc.extract_regex(numbers, _PARTS)
    return pc.binary_length(pc.struct_field(parts, "whole")), pc.binary_length(
        pc.struct_field(parts, "fraction")
    )


def _cast(texts: pa.Array, target: pa.DataType) -> pa.Array:
    try:
        return texts.cast(target)
    except pa.ArrowInvalid:
        raise ValueMismatch(_first_uncastable(texts, target)) from None


def _first_uncastable(texts: pa.Array, target: pa.DataType) -> int:
    start, end = 0, len(texts)
    while end - start > 1:
        middle = (start + end) // 2
        start, end = (middle, end) if casts(texts.slice(start, middle - start), target) else (start, middle)
    return start


def _refuse_unmatched(texts: pa.Array, written: str) -> None:
    _refuse_first(pc.invert(pc.match_substring_regex(texts, written)))


def _refuse_large(texts: pa.Array, target: pa.Decimal128Type) -> None:
    """Raise ``ValueMismatch`` for a number with too many digits: Arrow would change some of them."""
    whole_digits_max = target.precision - target.scale
    if (pc.max(pc.binary_length(texts)).as_py() or 0) <= whole_digits_max:
        return
    whole, fraction = digits(texts)
    is_long = pc.greater(pc.add(whole, fraction), DECIMAL_PRECISION_MAX)
    _refuse_first(pc.or_(pc.greater(whole, whole_digits_max), is_long))


def _refuse_infinite(texts: pa.Array, values: pa.Array) -> None:
    """Raise ``ValueMismatch`` for a number that is too large for its type: Arrow turns it into infinity."""
    _refuse_first(pc.and_(pc.is_inf(values), pc.invert(pc.match_substring(texts, "inf", ignore_case=True))))


def _refuse_first(is_unfit: pa.Array) -> None:
    index = pc.index(pc.fill_null(is_unfit, False), True).as_py()
    if index >= 0:
        raise ValueMismatch(index)


def _refuse_approximated(texts: pa.Array, values: pa.Array, *, whole_only: bool) -> None:
    """Raise ``ValueMismatch`` for a number that a float or a double cannot hold exactly.

    With ``whole_only`` numbers with a fraction or an exponent are not looked at.
    """
    digits_max = _FLOAT_DIGITS if values.type == pa.float32() else _DOUBLE_DIGITS
    doubtful = pc.greater(pc.binary_length(texts), digits_max)
    if whole_only:
        doubtful = pc.and_(doubtful, pc.match_substring_regex(texts, _WHOLE_STATED))
    else:
        doubtful = pc.or_(doubtful, pc.match_substring(texts, "e", ignore_case=True))
    for index in np.flatnonzero(pc.fill_null(doubtful, False).to_numpy(zero_copy_only=False)):
        stored = values[int(index)].as_py()
        shortest = str(np.float32(stored)) if values.type == pa.float32() else repr(stored)
        if decimal.Decimal(texts[int(index)].as_py()) != decimal.Decimal(shortest):
            raise ValueMismatch(int(index))
