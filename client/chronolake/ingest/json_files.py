"""Strict checks of JSON files: a value that no table holds as it is written is an error.

Arrow matches the lines of a known shape. Only other lines, and files that are one array, are decoded.
"""

from __future__ import annotations

import codecs
import io
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chronolake.ingest import bad_rows, json_patterns, json_records, operations, text_files
from chronolake.ingest.bad_rows import BadRows
from chronolake.ingest.json_records import JsonRecord
from chronolake.ingest.json_shape import Shape
from chronolake.slices import errors

_BLOCK_BYTES: Final = 4 << 20
_DECODED_LINES: Final = 16
"""Number of lines that do not match until the others are matched again; it doubles each time."""
_NEWLINE: Final = ord("\n")


def shape_of(
    files: Sequence[Path],
    *,
    op_column: str | None = None,
    check: Callable[[], None] = lambda: None,
    bad: BadRows | None = None,
) -> Shape:
    """The shape of the records of all ``files``.

    ``check`` is called for each chunk of a file, and may raise to end the reading. Bad rows are added to
    ``bad``, and raised without it: lines that are no record (``SourceUnreadable``), and values of ``op_column``
    that name no operation (``SchemaMismatch``). Raises ``SourceUnreadable`` for the first other value that
    that no table holds as it is written, and ``TooManyBadRows``.
    """
    if bad is None:
        with bad_rows.refused() as collector:
            return shape_of(files, op_column=op_column, check=check, bad=collector)
    reader = _Reader(op_column, check, bad)
    for file in files:
        reader.read(file)
    if bad.errors:
        return reader.shape
    reader.shape.refuse_empty_objects()
    if reader.shape.has_doubles():
        for file in files:
            for record in json_records.records(file, check):
                reader.shape.refuse_rounded(record.fields, record)
    return reader.shape


class _Reader:
    """Collects the shape of files, file by file."""

    def __init__(self, op_column: str | None, check: Callable[[], None], bad: BadRows) -> None:
        self.shape = Shape("")
        self._bad = bad
        self._op_column = op_column
        self._check = check

    def read(self, file: Path) -> None:
        """Add all records of ``file`` to the shape."""
        if text_files.is_json_array(file):
            for record in json_records.records(file, self._check):
                self._add(record)
            return
        stream = text_files.Utf8Stream(file, text_files.UTF8, self._check, advice=text_files.JSON_ADVICE)
        with io.BufferedReader(stream, _BLOCK_BYTES) as buffered:
            line_number = 1
            for block in _blocks(cast("BinaryIO", buffered)):
                line_number += self._read_lines(file, block, line_number)

    def _read_lines(self, file: Path, block: bytes, line_number: int) -> int:
        """Add the records of a block of whole lines; returns how many lines it has."""
        lines = _lines(block)
        pattern = self._pattern()
        pending = _unmatched(lines, np.arange(len(lines)), pattern)
        carriage_returns = 0
        decoded_lines = _DECODED_LINES
        while len(pending):
            for index in pending[:decoded_lines]:
                line = lines[index].as_py().decode()
                carriage_returns += self._read_line(file, line, line_number + int(index) + carriage_returns) - 1
            pending, decoded_lines = pending[decoded_lines:], 2 * decoded_lines
            if (better_pattern := self._pattern()) != pattern:
                pattern = better_pattern
                pending = _unmatched(lines, pending, pattern)
        return len(lines) + carriage_returns

    def _read_line(self, file: Path, text: str, line_number: int) -> int:
        """Add the records of a text up to a line feed; returns how many lines carriage returns make of it."""
        lines = list(io.StringIO(text, newline=None))
        for number, line in enumerate(lines, start=line_number):
            try:
                record = json_records.line_record(file, number, line)
            except errors.SourceUnreadable as exc:
                self._bad.add(exc)
                continue
            if record is not None:
                self._add(record)
        return len(lines)

    def _add(self, record: JsonRecord) -> None:
        if self._op_column is not None:
            try:
                _refuse_unknown_operation(self._op_column, record)
            except errors.SchemaMismatch as exc:
                self._bad.add(exc)
                return
        try:
            self.shape.add(record.fields, record)
        except RecursionError:
            raise record.refused(": it is nested too deeply") from None

    def _pattern(self) -> str | None:
        return json_patterns.line_pattern(self.shape, self._op_column)


def _blocks(stream: BinaryIO) -> Iterator[bytes]:
    """The bytes of ``stream`` without a byte order mark, cut after line feeds."""
    incomplete_line: list[bytes] = []
    block = stream.read(_BLOCK_BYTES).removeprefix(codecs.BOM_UTF8)
    while block:
        end = block.rfind(b"\n") + 1
        if end:
            yield b"".join([*incomplete_line, block[:end]])
            incomplete_line = []
        incomplete_line.append(block[end:])
        block = stream.read(_BLOCK_BYTES)
    if last_line := b"".join(incomplete_line):
        yield last_line


def _lines(block: bytes) -> pa.LargeBinaryArray:
    """The lines of ``block``, each with its line feed, without a copy."""
    ends = np.flatnonzero(np.frombuffer(block, np.uint8) == _NEWLINE) + 1
    if not len(ends) or ends[-1] < len(block):
        ends = np.append(ends, len(block))
    offsets = np.concatenate([[0], ends]).astype(np.int64)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(block)]
    return pa.Array.from_buffers(pa.large_binary(), len(ends), buffers)


def _unmatched(lines: pa.LargeBinaryArray, indices: np.ndarray, pattern: str | None) -> np.ndarray:
    """The indices of ``indices`` whose lines the pattern does not match."""
    if pattern is None:
        return indices
    matches = pc.match_substring_regex(lines.take(pa.array(indices)), pattern)
    unmatched: np.ndarray = indices[~matches.to_numpy(zero_copy_only=False)]
    return unmatched


def _refuse_unknown_operation(op_column: str, record: JsonRecord) -> None:
    for name, value in record.fields.items():
        if name.lower() == op_column.lower() and value is not None and not operations.is_known(str(value)):
            place = {"file": str(record.file)}
            raise operations.refused(f"{record.file}, {record.place}", name, str(value), place)
