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
from typing import Any, Final, TextIO

from chronolake.ingest import text_files
from chronolake.slices import errors

_SPACE: Final = re.compile(r"[ \t\r\n]*")
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")
_CHUNK_CHARS: Final = 1 << 20
_TOKEN_CHARS: Final = 16
"""The largest distance from the end of the text of an error at a token that is cut off: ``-Inf``, ``\\ud8``."""
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
            yield from _ArrayReader(file, text).records()
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
    try:
        value, end = _DECODER.raw_decode(line, start)
    except _UNDECODABLE as exc:
        raise _malformed(file, number, _reason_of(exc)) from exc
    if _after_space(line, end) < len(line):
        raise _malformed(file, number, "Extra data")
    return _record(file, f"line {number}", value, line)


class _ArrayReader:
    """The records of a file that is one array. The text of some of them is in memory."""

    def __init__(self, file: Path, source: TextIO) -> None:
        self._file = file
        self._source = source
        self._text = ""
        self._position = 0
        self._lines_before = 0
        self._column_before = 0

    def records(self) -> Iterator[JsonRecord]:
        """The records. Raises ``SourceUnreadable`` for anything else."""
        while "[" not in self._text and self._read_on():
            pass
        self._position = self._text.index("[") + 1
        number = 0
        while number or self._next() != "]":
            number += 1
            value, text = self._value()
            yield _record(self._file, f"record {number}", value, text)
            if (separator := self._next()) == "]":
                break
            if separator != ",":
                raise self._malformed(self._position, "Expecting ',' or ']'")
            self._position += 1
            self._next()
        self._position += 1
        if self._next():
            raise self._malformed(self._position, "Extra data")

    def _next(self) -> str:
        """The next character that is not white space; "" at the end of the file."""
        while True:
            self._position = _after_space(self._text, self._position)
            if self._position < len(self._text):
                return self._text[self._position]
            if not self._read_on():
                return ""

    def _value(self) -> tuple[Any, str]:
        """The value at the position, and its text."""
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._position)
            except json.JSONDecodeError as exc:
                if _may_be_cut(exc) and self._read_on():
                    continue
                column = exc.colno + (self._column_before if exc.lineno == 1 else 0)
                raise self._malformed(exc.pos, _reason_of(exc, column)) from exc
            except _UNDECODABLE as exc:
                raise self._malformed(self._position, _reason_of(exc)) from exc
            text = self._text[self._position : end]
            self._position = end
            return value, text

    def _read_on(self) -> bool:
        """Add text of the file, and forget that before the position; False at the end of the file."""
        forgotten, kept = self._text[: self._position], self._text[self._position :]
        if len(kept) > text_files.RECORD_CHARS_MAX:
            raise self._malformed(
                self._position, f"a record has more than {text_files.RECORD_CHARS_MAX >> 20} million characters"
            )
        # So a long record is decoded anew only a few times.
        if not (chunk := self._source.read(max(_CHUNK_CHARS, len(kept)))):
            return False
        self._lines_before += forgotten.count("\n")
        line = len(forgotten) - forgotten.rfind("\n") - 1
        self._column_before = line + (0 if "\n" in forgotten else self._column_before)
        self._text, self._position = kept + chunk, 0
        return True

    def _malformed(self, position: int, reason: str) -> errors.SourceUnreadable:
        line = self._lines_before + self._text.count("\n", 0, position) + 1
        return _malformed(self._file, line, reason)


def _may_be_cut(exc: json.JSONDecodeError) -> bool:
    """Whether the value may be one of which only the begin is in memory."""
    return exc.msg.startswith("Unterminated string") or exc.pos > len(exc.doc) - _TOKEN_CHARS


def _after_space(text: str, position: int) -> int:
    """The first place from ``position`` on that is not white space."""
    match = _SPACE.match(text, position)
    assert match is not None, "the pattern matches an empty text too"
    return match.end()


def _reason_of(exc: Exception, column: int | None = None) -> str:
    match exc:
        case json.JSONDecodeError():
            # Some messages end in a word that the place follows.
            return f"{exc.msg} column {column or exc.colno}" if exc.msg.endswith(" at") else exc.msg
        case RecursionError():
            return "it is nested too deeply"
        case _:
            return str(exc)


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


def _malformed(file: Path, line: int, reason: str) -> errors.SourceUnreadable:
    return errors.SourceUnreadable(
        f"{file}, line {line}: {reason}; {_EXPECTED}", {"file": str(file), "line": line}
    )


class _NotJsonError(Exception):
    """Text that Python's decoder accepts, and the standard does not or leaves open."""


_UNDECODABLE: Final = (json.JSONDecodeError, _NotJsonError, RecursionError)


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
