"""Records of JSON files, decoded strictly (RFC 8259).

Python keeps the last of two fields of one name, and accepts ``NaN``.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from chronolake.ingest import text_files
from chronolake.slices import errors

_SPACE: Final = re.compile(r"[ \t\r\n]*")
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")
_EXPECTED: Final = "a JSON file holds one object a line, or is one array of objects"


class Number(str):
    """A number as it is written in a file."""

    __slots__ = ()


class JsonType(StrEnum):
    """A type of JSON, with its name in error messages."""

    NULL = "null"
    BOOLEAN = "a boolean"
    NUMBER = "a number"
    STRING = "a string"
    ARRAY = "an array"
    OBJECT = "an object"


@dataclass(frozen=True, slots=True)
class JsonRecord:
    """An object of a file. ``place`` is its line, in an array of records its number."""

    file: Path
    place: str
    fields: dict[str, Any]

    def refused(self, reason: str) -> errors.SourceUnreadable:
        """The error that names the record. ``reason`` begins with its punctuation."""
        return errors.SourceUnreadable(
            f"{self.file}, {self.place}{reason}", {"file": str(self.file), "place": self.place}
        )

    def without_fields(self) -> JsonRecord:
        """The record's place alone, which is small enough to keep."""
        return JsonRecord(self.file, self.place, {})


def kind_of(value: Any) -> JsonType:
    """The kind of a decoded value."""
    match value:
        case bool():
            return JsonType.BOOLEAN
        case Number():
            return JsonType.NUMBER
        case str():
            return JsonType.STRING
        case list():
            return JsonType.ARRAY
        case dict():
            return JsonType.OBJECT
        case _:
            return JsonType.NULL


def records(
    file: Path, check: Callable[[], None] = lambda: None, *, leaves_out_lines: bool = False
) -> Iterator[JsonRecord]:
    """The records of a file, in their order.

    ``check`` is called for each chunk of the file, and may raise to end the reading. Raises
    ``SourceUnreadable`` for anything but records, or leaves out lines that are none.
    """
    is_array = text_files.is_json_array(file)
    stream = text_files.Utf8Stream(file, text_files.UTF8, check, advice=text_files.JSON_ADVICE)
    with io.TextIOWrapper(io.BufferedReader(stream), "utf-8-sig") as text:
        if is_array:
            yield from _elements(file, text.read())
            return
        for number, line in enumerate(text, start=1):
            try:
                record = line_record(file, number, line)
            except errors.SourceUnreadable:
                if not leaves_out_lines:
                    raise
                continue
            if record is not None:
                yield record


def line_record(file: Path, number: int, line: str) -> JsonRecord | None:
    """The record of a line, or None for a blank one. Raises ``SourceUnreadable``."""
    start = _after_space(line, 0)
    if start == len(line):
        return None
    value, end = _decoded(file, line, start, number)
    _refuse_extra_text(file, line, end, number)
    return _record(file, f"line {number}", value, line)


def _elements(file: Path, text: str) -> Iterator[JsonRecord]:
    """The records of a file that is one array."""
    position = _after_space(text, text.index("[") + 1)
    number = 0
    while number or text[position : position + 1] != "]":
        number += 1
        start = position
        value, position = _decoded(file, text, start)
        yield _record(file, f"record {number}", value, text[start:position])
        position = _after_space(text, position)
        if text[position : position + 1] == "]":
            break
        if text[position : position + 1] != ",":
            raise _malformed(file, _line_of(text, position), "Expecting ',' or ']'")
        position = _after_space(text, position + 1)
    _refuse_extra_text(file, text, position + 1)


def _after_space(text: str, position: int) -> int:
    """The first place from ``position`` on that is not white space."""
    match = _SPACE.match(text, position)
    assert match is not None, "the pattern matches an empty text too"
    return match.end()


def _decoded(file: Path, text: str, position: int, line: int | None = None) -> tuple[Any, int]:
    try:
        return _DECODER.raw_decode(text, position)
    except json.JSONDecodeError as exc:
        # Some messages end in a word that the place follows.
        place = f" column {exc.colno}" if exc.msg.endswith(" at") else ""
        raise _malformed(file, line or exc.lineno, f"{exc.msg}{place}") from exc
    except _NotJsonError as exc:
        raise _malformed(file, line or _line_of(text, position), str(exc)) from exc
    except RecursionError:
        raise _malformed(file, line or _line_of(text, position), "it is nested too deeply") from None


def _refuse_extra_text(file: Path, text: str, end: int, line: int | None = None) -> None:
    position = _after_space(text, end)
    if position < len(text):
        raise _malformed(file, line or _line_of(text, position), "Extra data")


def _record(file: Path, place: str, value: Any, text: str) -> JsonRecord:
    if not isinstance(value, dict):
        raise JsonRecord(file, place, {}).refused(f": {kind_of(value)} and not an object; {_EXPECTED}")
    record = JsonRecord(file, place, value)
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


def _malformed(file: Path, line: int, reason: str) -> errors.SourceUnreadable:
    return errors.SourceUnreadable(
        f"{file}, line {line}: {reason}; {_EXPECTED}", {"file": str(file), "line": line}
    )


class _NotJsonError(Exception):
    """Text that Python's decoder accepts, and the standard does not or leaves open."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise _NotJsonError(f"an object has the field {repeated!r} twice")
    return fields


def _constant(text: str) -> Any:
    raise _NotJsonError(f"{text} is not a JSON number")


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=Number, parse_float=Number, parse_constant=_constant
)
