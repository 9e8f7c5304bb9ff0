"""The shapes of JSON columns: the kind of values, their fields, and the size of their numbers.

A column of several kinds of values, and fields whose names differ only in case, are refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from chronolake.ingest.json_records import JsonRecord, JsonType, Number, kind_of
from chronolake_model.schemas import DECIMAL_PRECISION_MAX

OPTIONAL_FIELDS_MAX: Final = 50
"""The count of optional fields of an object stops above this number."""
INT64_DIGITS: Final = 18
"""Number of digits that an integer of 64 bits always holds."""
_INT64_CHARS_MAX: Final = 20
_INT64_WHOLE_DIGITS: Final = 20
"""Digits before the point that a decimal column reserves for integers of 64 bits."""
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1
_NUMBER_CHARS_MAX: Final = 60


@dataclass(slots=True)
class Shape:
    """The shape of the values of a column, or of a field within it. The root is the shape of the records.

    ``path`` names the field, "" is the root. ``first`` is the place of the first value that is not null.
    ``fields`` are those of objects, in the order in which objects have them; ``optional_fields`` are missing
    in some. ``items`` is the shape of the elements of arrays.

    ``has_int64`` says that numbers are integers of 64 bits, ``has_decimals`` that there are others. The largest
    number has ``whole_digits`` before the point (less than one if it begins with zeros), and ``scale`` is the
    largest number of digits after it. ``has_negative_zero`` says that a number is ``-0``.
    """

    path: str
    first: JsonRecord | None = None
    kind: JsonType = JsonType.NULL
    fields: dict[str, Shape] = field(default_factory=dict)
    optional_fields: set[str] = field(default_factory=set)
    items: Shape | None = None
    _names: dict[str, str] = field(default_factory=dict)
    has_int64: bool = False
    has_decimals: bool = False
    whole_digits: int = 0
    scale: int = 0
    has_negative_zero: bool = False

    @property
    def decimal_digits(self) -> tuple[int, int]:
        """The digits before and after the point of a decimal that holds all numbers."""
        reserved = _INT64_WHOLE_DIGITS if self.has_int64 and self.has_decimals else 0
        return max(self.whole_digits, reserved, 0), self.scale

    @property
    def needs_double(self) -> bool:
        """Whether no decimal holds all numbers."""
        return sum(self.decimal_digits) > DECIMAL_PRECISION_MAX

    @property
    def children(self) -> list[Shape]:
        """The shapes of fields and elements."""
        return [*self.fields.values(), *([] if self.items is None else [self.items])]

    def add(self, value: Any, record: JsonRecord) -> None:
        """Add a value. Raises ``SourceUnreadable`` if it does not fit the values before it."""
        if value is None:
            return
        kind, is_first = kind_of(value), self.first is None
        if self.first is None:
            self.kind, self.first = kind, record.without_fields()
        elif self.kind is not kind:
            raise record.refused(
                f", column {self.path}: {kind}, and {self.first.file}, {self.first.place} has {self.kind}; a "
                "column has values of one kind: correct the file"
            )
        if kind is JsonType.NUMBER:
            self._add_number(value, record)
        elif kind is JsonType.OBJECT:
            self._add_fields(value, record, is_first=is_first)
        elif kind is JsonType.ARRAY:
            self.items = self.items or Shape(f"{self.path}[]")
            for item in value:
                self.items.add(item, record)

    def refuse_empty_objects(self) -> None:
        """Raise ``SourceUnreadable`` for a column whose objects all are empty."""
        for child in self.children:
            child.refuse_empty_objects()
        if self.path and self.kind is JsonType.OBJECT and not self.fields and self.first is not None:
            raise self.first.refused(
                f", column {self.path}: all its objects are empty, so its type is unknown; leave it out"
            )

    def has_doubles(self) -> bool:
        """Whether this, or a shape within it, needs doubles."""
        return self.needs_double or any(child.has_doubles() for child in self.children)

    def refuse_rounded(self, value: Any, record: JsonRecord) -> None:
        """Raise ``SourceUnreadable`` for a number in ``value`` that the column's double does not keep."""
        match value:
            case Number():
                if self.needs_double and Decimal(repr(float(value))) != Decimal(value):
                    raise record.refused(
                        f", column {self.path}: no decimal of {DECIMAL_PRECISION_MAX} digits holds all numbers "
                        f"of the column, and a double does not keep {value[:_NUMBER_CHARS_MAX]}; write it with "
                        "fewer digits, or all of them as strings"
                    )
            case dict():
                for name, item in value.items():
                    self.fields[name].refuse_rounded(item, record)
            case list():
                assert self.items is not None, "the array has been added"
                for item in value:
                    self.items.refuse_rounded(item, record)
            case _:
                pass

    def _add_fields(self, value: dict[str, Any], record: JsonRecord, *, is_first: bool) -> None:
        previous_name = None
        for name, item in value.items():
            child = self.fields.get(name)
            if child is None:
                child = self._new_field(name, previous_name, record)
                if not is_first:
                    self.optional_fields.add(name)
            child.add(item, record)
            previous_name = name
        if len(value) < len(self.fields) and len(self.optional_fields) <= OPTIONAL_FIELDS_MAX:
            self.optional_fields |= self.fields.keys() - value.keys()

    def _new_field(self, name: str, previous_name: str | None, record: JsonRecord) -> Shape:
        """Make the shape of a field, which objects have after the field ``previous_name``."""
        same_name = self._names.setdefault(name.lower(), name)
        if same_name != name:
            column = f", column {self.path}" if self.path else ""
            raise record.refused(f"{column}: the fields {same_name} and {name} differ only in case; rename one")
        if not name:
            column = f", column {self.path}" if self.path else ""
            raise record.refused(f"{column}: a field has the empty name; rename it")
        child = Shape(f"{self.path}.{name}" if self.path else name)
        names = list(self.fields)
        position = names.index(previous_name) + 1 if previous_name is not None else 0
        later_fields = {name: self.fields.pop(name) for name in names[position:]}
        self.fields[name] = child
        self.fields |= later_fields
        return child

    def _add_number(self, number: str, record: JsonRecord) -> None:
        if number.isdigit() and len(number) <= INT64_DIGITS:
            self.whole_digits = max(self.whole_digits, len(number))
            self.has_int64 = True
            return
        _, digits, exponent = Decimal(number).as_tuple()
        assert isinstance(exponent, int), "JSON has no NaN"
        if exponent > 0:
            raise record.refused(
                f", column {self.path}: {number[:_NUMBER_CHARS_MAX]} has more zeros than digits; write it "
                "without an exponent"
            )
        is_integer = number.lstrip("-").isdigit() and len(number) <= _INT64_CHARS_MAX
        if is_integer and _INT64_MIN <= int(number) <= _INT64_MAX:
            self.has_int64 = True
        else:
            self.has_decimals = True
        self.has_negative_zero |= number.startswith("-") and not any(digits)
        self.scale = max(self.scale, -exponent)
        self.whole_digits = max(self.whole_digits, len(digits) + exponent)
