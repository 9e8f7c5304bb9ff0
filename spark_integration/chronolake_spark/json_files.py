"""JSON files, read strictly without Spark: what Spark would drop or change refuses the file, with its line.

Spark reads the first value of a line and ignores what follows, takes single quotes, makes a string of a column
of several kinds of values, and null of a field whose name differs from another one only in case.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from chronolake_model.schemas import DECIMAL_PRECISION_MAX
from chronolake_spark import errors, texts

STRING: Final = "a string"
"""The kind of texts."""
_SPACE: Final = re.compile(r"[ \t\r\n]*")
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")
_DOUBLE_DIGITS: Final = 15
"""So many digits come back from a double as they were."""
_INT64_WHOLE_DIGITS: Final = 20
"""Spark reserves so many digits before the point where a column has integers and fractions."""
_NUMBER_CHARS_MAX: Final = 60
_EXPECTED: Final = "a JSON file holds one object a line, or is one array of objects"


class Number(str):
    """A number as it is written in a file."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Record:
    """An object of a file; ``place`` says its line, or in an array its number."""

    file: Path
    place: str
    fields: dict[str, Any]

    def refused(self, what: str) -> errors.SourceUnreadable:
        """The error that names the record."""
        return errors.SourceUnreadable(
            f"{self.file}, {self.place}{what}", {"file": str(self.file), "place": self.place}
        )


@dataclass(slots=True)
class Shape:
    """What the values of a column, or of a field in it, were so far; ``first`` is the record of the first."""

    path: str
    first: Record | None
    kind: str = "null"
    fields: dict[str, Shape] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    items: Shape | None = None
    whole_digits: int = 0
    scale: int = 0
    has_integers: bool = False
    approximated: tuple[Record, str] | None = None

    def add(self, value: Any, record: Record) -> None:
        """Take note of a value. Raises ``SourceUnreadable`` for one that does not go with those before."""
        if value is None:
            return
        kind = _kind(value)
        if self.first is None:
            self.kind, self.first = kind, _placed(record)
        elif self.kind != kind:
            raise record.refused(
                f", column {self.path}: {kind}, and {self.first.file}, {self.first.place} has {self.kind}; a "
                "column has values of one kind: correct the file"
            )
        if kind == "a number":
            self._add_number(value, record)
        elif kind == "an object":
            self._add_fields(value, record)
        elif kind == "an array":
            self.items = self.items or Shape(f"{self.path}[]", None)
            for item in value:
                self.items.add(item, record)

    def finish(self) -> None:
        """Raise ``SourceUnreadable`` for what all values together make impossible to keep."""
        for child in (*self.fields.values(), *([] if self.items is None else [self.items])):
            child.finish()
        if self.path and self.kind == "an object" and not self.fields and self.first is not None:
            raise self.first.refused(
                f", column {self.path}: all its objects are empty, so that it has no type; leave it out"
            )
        whole_digits = self.whole_digits
        if self.has_integers and self.scale:
            whole_digits = max(whole_digits, _INT64_WHOLE_DIGITS)
        if self.approximated is not None and whole_digits + self.scale > DECIMAL_PRECISION_MAX:
            record, number = self.approximated
            raise record.refused(
                f", column {self.path}: no decimal of {DECIMAL_PRECISION_MAX} digits holds all numbers of the "
                f"column, and a double does not keep {number[:_NUMBER_CHARS_MAX]}; write it with fewer "
                "digits, or all of them as strings"
            )

    def _add_fields(self, value: dict[str, Any], record: Record) -> None:
        for name, item in value.items():
            child = self.fields.get(name)
            if child is None:
                child = self.fields[name] = self._new_field(name, record)
            child.add(item, record)

    def _new_field(self, name: str, record: Record) -> Shape:
        other = self.names.setdefault(name.lower(), name)
        if other != name:
            where = f", column {self.path}" if self.path else ""
            raise record.refused(f"{where}: the fields {other} and {name} differ only in case; rename one")
        return Shape(f"{self.path}.{name}" if self.path else name, None)

    def _add_number(self, number: str, record: Record) -> None:
        if number.isdigit() and len(number) <= _DOUBLE_DIGITS:
            self.whole_digits = max(self.whole_digits, len(number))
            self.has_integers = True
            return
        _, digits, exponent = Decimal(number).as_tuple()
        assert isinstance(exponent, int), "JSON has no NaN"
        if exponent > 0:
            raise record.refused(
                f", column {self.path}: {number[:_NUMBER_CHARS_MAX]} has more zeros than digits; write it "
                "without an exponent"
            )
        self.has_integers |= exponent == 0
        self.scale = max(self.scale, -exponent)
        self.whole_digits = max(self.whole_digits, len(digits) + exponent)
        is_doubtful = len(digits) > _DOUBLE_DIGITS or -exponent > DECIMAL_PRECISION_MAX
        if is_doubtful and self.approximated is None and Decimal(repr(float(number))) != Decimal(number):
            self.approximated = _placed(record), number


def check(
    files: Sequence[Path],
    stop: Callable[[], None] = lambda: None,
    visit: Callable[[Record], None] = lambda _: None,
) -> Shape:
    """Read all of ``files``, and call ``visit`` for each record; returns what the values are.

    ``stop`` is called now and then, and may raise to end it. Raises ``SourceUnreadable`` for the first value
    that Spark would not load as it is written, and what ``visit`` raises.
    """
    shape = Shape("", None)
    for file in files:
        for record in records(file, stop):
            try:
                shape.add(record.fields, record)
            except RecursionError:
                raise record.refused(": it is nested too deeply") from None
            visit(record)
    shape.finish()
    return shape


def records(file: Path, stop: Callable[[], None] = lambda: None) -> Iterator[Record]:
    """The records of a file, strictly read (RFC 8259). Raises ``SourceUnreadable`` where it is no such file."""
    is_array = texts.is_json_array(file)
    stream = texts.Utf8Stream(file, texts.UTF8, stop, advice=texts.JSON_ADVICE)
    with io.TextIOWrapper(io.BufferedReader(stream), "utf-8-sig") as text:
        if is_array:
            yield from _elements(file, text.read())
            return
        for number, line in enumerate(text, start=1):
            if line.strip(" \t\r\n"):
                value, end = _decoded(file, line, _SPACE.match(line).end(), number)  # type: ignore[union-attr]
                _refuse_more(file, line, end, number)
                yield _record(file, f"line {number}", value, line)


def _elements(file: Path, text: str) -> Iterator[Record]:
    """The records of a file that is one array."""
    position = _next(text, text.index("[") + 1)
    number = 0
    while number or text[position : position + 1] != "]":
        number += 1
        start = position
        value, position = _decoded(file, text, start)
        yield _record(file, f"record {number}", value, text[start:position])
        position = _next(text, position)
        if text[position : position + 1] == "]":
            break
        if text[position : position + 1] != ",":
            raise _malformed(file, _line_of(text, position), "Expecting ',' or ']'")
        position = _next(text, position + 1)
    _refuse_more(file, text, position + 1)


def _next(text: str, position: int) -> int:
    """The first place from ``position`` on that is no white space."""
    match = _SPACE.match(text, position)
    assert match is not None, "the pattern matches no characters too"
    return match.end()


def _decoded(file: Path, text: str, position: int, line: int | None = None) -> tuple[Any, int]:
    try:
        return _DECODER.raw_decode(text, position)
    except json.JSONDecodeError as exc:
        raise _malformed(file, line or exc.lineno, exc.msg) from exc
    except _Unfit as exc:
        raise _malformed(file, line or _line_of(text, position), str(exc)) from exc
    except RecursionError:
        raise _malformed(file, line or _line_of(text, position), "it is nested too deeply") from None


def _refuse_more(file: Path, text: str, end: int, line: int | None = None) -> None:
    position = _next(text, end)
    if position < len(text):
        raise _malformed(file, line or _line_of(text, position), "Extra data")


def _record(file: Path, place: str, value: Any, text: str) -> Record:
    if not isinstance(value, dict):
        raise Record(file, place, {}).refused(f": {_kind(value)} and not an object; {_EXPECTED}")
    record = Record(file, place, value)
    if _SURROGATE.search(text):
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise record.refused(
                ": a text has half of a surrogate pair (as \\ud800), which is no character; correct it"
            ) from None
    return record


def _line_of(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def _malformed(file: Path, line: int, what: str) -> errors.SourceUnreadable:
    return errors.SourceUnreadable(
        f"{file}, line {line}: {what}; {_EXPECTED}", {"file": str(file), "line": line}
    )


class _Unfit(Exception):
    """What Python takes for JSON and the standard does not, or leaves open."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise _Unfit(f"an object has the field {repeated!r} twice")
    return fields


def _constant(text: str) -> Any:
    raise _Unfit(f"{text} is no JSON number")


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=Number, parse_float=Number, parse_constant=_constant
)


def _kind(value: Any) -> str:
    match value:
        case bool():
            return "a boolean"
        case Number():
            return "a number"
        case str():
            return STRING
        case list():
            return "an array"
        case dict():
            return "an object"
        case _:
            return "null"


def _placed(record: Record) -> Record:
    """``record`` without its fields, to be kept while others are read."""
    return Record(record.file, record.place, {})
