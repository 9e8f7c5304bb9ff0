"""Infers the types of CSV columns from their values, and describes the values of string columns.

A type is inferred only if every value can be written back from it exactly. Two values that are written
differently must never become one value: in a record key they would be one record. So a type is inferred only
where all values are written in the same way.

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

import enum
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chronolake.writing import csv_types
from chronolake.writing.csv_types import STRING
from chronolake_model.schemas import DECIMAL_PRECISION_MAX

_NUMBER: Final = "number"
_NUMBER_VALUE = re.compile(r"-?[0-9]+(?:\.([0-9]{1,38}))?")
_ZONE = "(Z|[+-][0-9]{2}:[0-9]{2})"
_TIMESTAMP_VALUE = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?P<separator>[ T])[0-9]{2}:[0-9]{2}:[0-9]{2}"
    rf"(?:\.(?P<fraction>[0-9]{{1,6}}))?(?P<zone>{_ZONE})?"
)
_ANY_NUMBER = r"(?i)^[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|nan|inf|infinity)$"
_ZEROS_FIRST = "^[+-]?0[0-9]"
_ANY_TIMESTAMP = (
    r"^(?P<time>[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[ Tt][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]+)?)?)?)"
    r" ?(?P<zone>(?:[Zz]|[+-][0-9]{2}(?::?[0-9]{2})?)?)$"
)
_DIGIT: Final = "#"
_INT64_DIGITS = 18
"""Number of digits that a 64-bit number always holds."""
_STATABLE: Final = ("bigint", "decimal", "double", "timestamp_ntz", "timestamp")
"""In this order they are proposed."""


class ValueKind(enum.StrEnum):
    """The kind of all values of a column."""

    NUMBERS = "numbers"
    TIMESTAMPS = "dates or timestamps"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class ValueSummary:
    """A summary of the values of a column, without blank values, regardless of their spelling.

    ``kind`` is None as long as there are only blank values. ``shapes`` are the ways in which values are
    written, two at most, with ``#`` for each digit outside the offset of a timestamp. ``takes`` holds the
    types that take all values if the caller states them, a decimal if ``whole_digits`` and ``scale`` allow it.
    ``has_zeros_first`` says that some number has leading zeros, which every type of numbers would drop.
    """

    kind: ValueKind | None = None
    shapes: frozenset[str] = frozenset()
    types: frozenset[str] = frozenset(_STATABLE)
    whole_digits: int = 0
    scale: int = 0
    has_zeros_first: bool = False

    def merge(self, other: ValueSummary) -> ValueSummary:
        """The summary of the values of both."""
        kinds = {kind for kind in (self.kind, other.kind) if kind is not None}
        return ValueSummary(
            ValueKind.TEXT if len(kinds) > 1 else next(iter(kinds), None),
            frozenset(sorted(self.shapes | other.shapes)[:2]),
            self.types & other.types,
            max(self.whole_digits, other.whole_digits),
            max(self.scale, other.scale),
            self.has_zeros_first or other.has_zeros_first,
        )

    @property
    def is_ordered_as_text(self) -> bool:
        """Whether texts of this kind compare as the numbers or timestamps that they stand for."""
        if self.kind is ValueKind.NUMBERS:
            return len(self.shapes) == 1 and all(
                re.fullmatch(rf"{_DIGIT}+(\.{_DIGIT}+)?", shape) for shape in self.shapes
            )
        return self.kind is not ValueKind.TIMESTAMPS or len(self.shapes) == 1

    @property
    def type(self) -> str | None:
        """The type, as DDL, that takes all values if the caller states it; None if there is none."""
        digits = self.whole_digits + self.scale
        refused = set() if digits <= DECIMAL_PRECISION_MAX else {"decimal"}
        for type_ in _STATABLE:
            if type_ in self.types - refused:
                precision = _INT64_DIGITS if digits <= _INT64_DIGITS else DECIMAL_PRECISION_MAX
                return f"DECIMAL({precision},{self.scale})" if type_ == "decimal" else type_.upper()
        return None


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
        return self.type == _NUMBER or csv_types.casts(values, csv_types.arrow_type(self.type))


@dataclass
class Profile:
    """The way in which the values of one column, seen so far, are written; ``style`` is None for a string."""

    style: _Style | None = None
    seen: bool = False
    whole_digits: int = 0
    is_int64: bool = True
    value_summary: ValueSummary = ValueSummary()

    def add(self, texts: pa.Array) -> None:
        """Add values to the profile."""
        values = texts.drop_null()
        if not len(values):
            return
        if not self.seen:
            self.seen, self.style = True, _style_of(values[0].as_py())
        if self.style is not None and not self.style.fits(values):
            self.style = None
        if self.style is not None and self.style.type == _NUMBER:
            self._measure(values, self.style.scale)
        if self.value_summary.kind is not ValueKind.TEXT:
            self.value_summary = self.value_summary.merge(summary_of(self._representatives(values)))

    def merge(self, other: Profile) -> None:
        """Add another profile of the same column."""
        if not other.seen:
            return
        self.style = other.style if not self.seen or self.style == other.style else None
        self.seen = True
        self.whole_digits = max(self.whole_digits, other.whole_digits)
        self.is_int64 &= other.is_int64
        self.value_summary = self.value_summary.merge(other.value_summary)

    @property
    def type(self) -> str:
        """The type of the column, as a table names it."""
        if self.style is None:
            return STRING
        if self.style.type != _NUMBER:
            return self.style.type
        if self.style.scale == 0:
            return "bigint" if self.is_int64 else STRING
        digits = self.whole_digits + self.style.scale
        if digits > DECIMAL_PRECISION_MAX:
            return STRING
        return (
            f"decimal({_INT64_DIGITS if digits <= _INT64_DIGITS else DECIMAL_PRECISION_MAX},{self.style.scale})"
        )

    def _representatives(self, values: pa.Array) -> pa.Array:
        """Values that look like all of ``values``: those of one style differ by length and sign alone."""
        if self.style is None or self.whole_digits > _INT64_DIGITS:
            return values
        lengths = pc.binary_length(values).to_numpy(zero_copy_only=False)
        is_negative = pc.starts_with(values, "-").to_numpy(zero_copy_only=False)
        places = (np.flatnonzero(is_negative), np.flatnonzero(~is_negative))
        extremes = [
            (of_sign[lengths[of_sign].argmin()], of_sign[lengths[of_sign].argmax()])
            for of_sign in places
            if len(of_sign)
        ]
        return values.take(pa.array(np.unique(extremes)))

    def _measure(self, values: pa.Array, scale: int) -> None:
        length = pc.binary_length(values).to_numpy(zero_copy_only=False)
        sign = pc.starts_with(values, "-").to_numpy(zero_copy_only=False)
        self.whole_digits = max(self.whole_digits, int(np.max(length - sign)) - (scale + 1 if scale else 0))
        if self.whole_digits > _INT64_DIGITS and scale == 0:
            self.is_int64 = self.is_int64 and csv_types.casts(values, pa.int64())


def summary_of(values: pa.Array) -> ValueSummary:
    """The summary of ``values``, none of which is null."""
    trimmed = pc.utf8_trim_whitespace(values)
    filled = trimmed.filter(pc.not_equal(trimmed, ""))
    if not len(filled):
        return ValueSummary(types=frozenset())
    if pc.all(pc.match_substring_regex(filled, _ANY_NUMBER)).as_py():
        value_summary = _numbers(filled)
    elif pc.all(pc.match_substring_regex(filled, _ANY_TIMESTAMP)).as_py():
        value_summary = _timestamps(filled)
    else:
        return ValueSummary(ValueKind.TEXT, types=frozenset())
    # Only strings take blanks.
    return value_summary if filled.equals(values) else replace(value_summary, types=frozenset())


def _numbers(values: pa.Array) -> ValueSummary:
    types = frozenset(type_ for type_ in ("bigint", "double") if csv_types.accepts(values, type_, stated=True))
    shapes = _shapes(values, _number_shape)
    has_zeros_first = pc.any(pc.match_substring_regex(values, _ZEROS_FIRST)).as_py()
    if not pc.all(pc.match_substring_regex(values, csv_types.pattern("decimal(38,0)", stated=True))).as_py():
        return ValueSummary(ValueKind.NUMBERS, shapes, types, has_zeros_first=has_zeros_first)
    whole_digits, scale = (pc.max(digits).as_py() for digits in csv_types.digits(values))
    return ValueSummary(ValueKind.NUMBERS, shapes, types | {"decimal"}, whole_digits, scale, has_zeros_first)


def _timestamps(values: pa.Array) -> ValueSummary:
    types = frozenset(
        type_ for type_ in ("timestamp_ntz", "timestamp") if csv_types.accepts(values, type_, stated=True)
    )
    return ValueSummary(ValueKind.TIMESTAMPS, _shapes(values, _timestamp_shape), types)


def _shapes(values: pa.Array, shape_of: Callable[[str], str]) -> frozenset[str]:
    """The shape of the first value, and if not all have it, that of the first value that has another."""
    first = shape_of(values[0].as_py())
    has_first = pc.match_substring_regex(values, f"^{re.escape(first).replace(re.escape(_DIGIT), '[0-9]')}$")
    other = pc.index(has_first, False).as_py()
    return frozenset({first} if other < 0 else {first, shape_of(values[other].as_py())})


def _number_shape(value: str) -> str:
    return re.sub("[0-9]", _DIGIT, value)


def _timestamp_shape(value: str) -> str:
    match = re.fullmatch(_ANY_TIMESTAMP, value)
    assert match is not None, value
    return _number_shape(match["time"]) + value[match.end("time") :]


def _style_of(value: str) -> _Style | None:
    """The only way in which all values of a column may be written if one is ``value``; None for a string."""
    if match := _NUMBER_VALUE.fullmatch(value):
        scale = len(match[1] or "")
        return _Style(_NUMBER, csv_types.number_pattern(scale), scale)
    if match := _TIMESTAMP_VALUE.fullmatch(value):
        fraction = rf"\.[0-9]{{{len(match['fraction'])}}}" if match["fraction"] else ""
        zone = match["zone"] or ""
        seconds = f"{match['separator']}[0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}{fraction}"
        return _Style(
            "timestamp" if zone else "timestamp_ntz",
            f"{csv_types.DATE[:-1]}{seconds}{zone.replace('+', '[+]')}$",
        )
    return next(
        (
            _Style(type_, csv_types.PATTERNS[type_])
            for type_ in ("boolean", "date")
            if re.search(csv_types.PATTERNS[type_], value)
        ),
        None,
    )
