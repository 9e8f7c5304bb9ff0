"""Text files: they are decompressed and decoded strictly, and CSV is split into records with line numbers.

A file that cannot be decompressed, decoded or split is refused, with the place of the error.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import itertools
import sys
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np

from chronolake.slices import errors

UTF8 = "utf-8"
RECORD_CHARS_MAX = 64 << 20
"""The longest record of a file. An unclosed quote makes one record of all lines after it."""
_CHUNK_BYTES = 4 << 20
_GZIP_MAGIC = b"\x1f\x8b"
JSON_ADVICE = "JSON files are UTF-8: convert it"
_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_SAMPLE_BYTES = 4096
_QUOTE = ord('"')
_AFTER_VALUE = b',\r\n"'
_IS_EDGE = np.isin(np.arange(256), list(_AFTER_VALUE))
"""The bytes beside a value in quotes; another quote may be one within the value that is written twice."""
_UTF16_ZEROS_MIN = 1 / 8
"""UTF-16 has a zero in each comma, digit and line break, and always on the same side of a pair of bytes."""


def check_encoding(name: str) -> None:
    """Raise ``ValueError`` unless ``name`` is a text encoding of Python."""
    try:
        "".encode(name)
        codecs.getincrementaldecoder(name)
    except LookupError as exc:
        raise ValueError(
            f"there is no encoding called {name!r}; common ones are utf-8, latin-1, cp1252 and utf-16"
        ) from exc


class Quotes:
    """Checks whether quotes only enclose whole values: then all readers of CSV agree on what the values are.

    The quotes of a text open and close in turns; one that is written twice within a value closes and opens.
    """

    def __init__(self) -> None:
        self._last = b""
        self._is_open = False
        self._closed_last = False
        self._are_clear = True

    @property
    def are_clear(self) -> bool:
        """Whether they are, if the text ends here."""
        return self._are_clear and not self._is_open

    @property
    def were_clear(self) -> bool:
        """Whether they are up to here; the last one may have opened a value."""
        return self._are_clear

    def add(self, text: bytes) -> None:
        """Add the next part of the text."""
        if not text or not self._are_clear:
            return
        if not self._last:
            text, self._last = text.removeprefix(codecs.BOM_UTF8), b"\n"
        # A quote that closed at the very end of the part before is followed by the first byte of this one.
        padded = np.frombuffer(self._last + text, np.uint8)
        places = np.flatnonzero(padded[1:] == _QUOTE) + 1
        if self._closed_last and text[:1] not in _AFTER_VALUE:
            self._are_clear = False
            return
        opening, closing = places[self._is_open :: 2], places[not self._is_open :: 2]
        self._is_open ^= len(places) % 2 == 1
        self._closed_last = len(closing) > 0 and int(closing[-1]) == len(padded) - 1
        inner = closing[: len(closing) - self._closed_last]
        is_start = _IS_EDGE[padded[opening - 1]]
        is_end = _IS_EDGE[padded[inner + 1]]
        self._are_clear = bool(is_start.all() and is_end.all())
        self._last = text[-1:] or self._last


class Utf8Stream(io.RawIOBase):
    """The text of a file as UTF-8, regardless of its encoding, decompressed if its name ends in ``.gz``.

    Reading raises ``SourceUnreadable`` at the first byte that is not of the encoding. ``check`` is called for
    every chunk, and may raise to end the reading. ``quotes`` checks the quotes that have been read so far.
    """

    def __init__(
        self, file: Path, encoding: str, check: Callable[[], None] = lambda: None, *, advice: str = ""
    ) -> None:
        super().__init__()
        self._advice = advice
        self._file = file
        self._encoding = encoding
        self._decoder = codecs.getincrementaldecoder(encoding)("strict")
        self._is_utf8 = codecs.lookup(encoding).name == UTF8
        self._check = check
        self._rest = memoryview(b"")
        self._offset = 0
        self._lines = 0
        self._ended = False
        self.quotes = Quotes()
        try:
            self._bytes = _opened(file)
        except OSError as exc:
            raise errors.SourceUnreadable(f"{file} cannot be opened: {exc}") from exc

    def chunks(self) -> Iterator[bytes]:
        """The text that has not been read, in parts that are not empty."""
        while not self._ended:
            if chunk := self._next():
                yield chunk

    def readable(self) -> bool:  # type: ignore[explicit-override]
        """As in ``io.RawIOBase``."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[explicit-override, override]
        """As files do."""
        while not self._rest and not self._ended:
            self._rest = memoryview(self._next())
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count

    def close(self) -> None:  # type: ignore[explicit-override]
        """As files do."""
        if not self.closed:
            self._bytes.close()
        super().close()

    def _next(self) -> bytes:
        self._check()
        try:
            chunk = self._bytes.read(_CHUNK_BYTES)
        except (OSError, EOFError, zlib.error) as exc:
            if self._offset == 0 and isinstance(exc, gzip.BadGzipFile) and not _is_gzip(self._file):
                raise errors.SourceUnreadable(
                    f"{self._file} is not compressed with gzip: compress it, or rename it without .gz"
                ) from exc
            raise errors.SourceUnreadable(
                f"{self._file}, after line {self._lines}: cannot be decompressed or read: {exc}; the file may "
                "be truncated: get it again"
            ) from exc
        self._ended = not chunk
        pending = self._decoder.getstate()[0]
        try:
            text = self._decoder.decode(chunk, final=not chunk)
        except UnicodeError as exc:
            raise self._undecodable(exc, pending) from exc
        self._offset += len(chunk)
        utf8 = chunk if self._is_utf8 else text.encode()
        if b"\0" in utf8:
            raise self._zero_byte(utf8, chunk)
        self._lines += utf8.count(b"\n")
        self.quotes.add(utf8)
        return utf8

    def _zero_byte(self, utf8: bytes, chunk: bytes) -> errors.SourceUnreadable:
        """The error for a zero byte in ``chunk``, the last one that was read."""
        self._lines += utf8.count(b"\n", 0, utf8.index(b"\0"))
        # A file in UTF-16 has its first zero byte in its first chunk.
        is_first = self._offset == len(chunk)
        is_wide = codecs.lookup(self._encoding).name.startswith(("utf-16", "utf-32"))
        if is_first and not is_wide and _is_likely_utf16(chunk):
            return self._refused("holds a zero byte, as UTF-16 does", "utf-16")
        return self._refused("holds a zero byte, which no text has", advice="remove it from the file")

    def _undecodable(self, exc: UnicodeError, pending: bytes) -> errors.SourceUnreadable:
        if not isinstance(exc, UnicodeDecodeError):
            return self._refused(f"is not {self._encoding}: {exc}", "cp1252")
        offset = self._offset - len(pending) + exc.start
        before = exc.object[: exc.start].decode(self._encoding, errors="ignore")
        self._lines += before.count("\n")
        byte = bytes(exc.object[exc.start : exc.start + 1]).hex()
        is_first = offset == exc.start
        likely = "utf-16" if is_first and exc.object.startswith(_UTF16_MARKS) else "cp1252"
        return self._refused(f"byte {offset} (0x{byte}) is not {self._encoding}", likely)

    def _refused(self, what: str, likely: str = "", *, advice: str = "") -> errors.SourceUnreadable:
        line = self._lines + 1
        advice = advice or self._advice or f"say what the file is encoded in, for example --encoding {likely}"
        return errors.SourceUnreadable(
            f"{self._file}, line {line}: {what}; {advice}",
            {"file": str(self._file), "line": line},
        )


def is_json_array(file: Path) -> bool:
    """Whether a JSON file is one array of records, and not a record a line."""
    with Utf8Stream(file, UTF8, advice=JSON_ADVICE) as stream:
        while head := stream.read(_CHUNK_BYTES):
            if begun := head.removeprefix(codecs.BOM_UTF8).lstrip():
                return begun.startswith(b"[")
    return False


def records(file: Path, stream: Utf8Stream) -> Iterator[tuple[int, list[str]]]:
    """The records of a CSV file, header included, each with the line that it begins in. Empty lines are none.

    Raises ``SourceUnreadable``, also for quotes that Python's strict reader refuses: one that is not closed,
    and text between a closing quote and the next comma.
    """
    csv.field_size_limit(RECORD_CHARS_MAX)
    with io.TextIOWrapper(io.BufferedReader(stream), "utf-8-sig", newline="") as text:
        reader = csv.reader(_bounded_lines(file, text), strict=True)
        while True:
            line = reader.line_num + 1
            try:
                record = next(reader)
            except StopIteration:
                return
            except csv.Error as exc:
                raise errors.SourceUnreadable(
                    f"{file}, line {line}: {exc}; a quoted value ends in a quote, and a quote within it is "
                    "written twice",
                    {"file": str(file), "line": line},
                ) from exc
            if record:
                yield line, record


def _bounded_lines(file: Path, text: io.TextIOWrapper) -> Iterator[str]:
    """The lines of a text. Raises ``SourceUnreadable`` for a very long one."""
    for number in itertools.count(1):
        line = text.readline(RECORD_CHARS_MAX)
        if len(line) == RECORD_CHARS_MAX:
            raise errors.SourceUnreadable(
                f"{file}, line {number}: it has more than {RECORD_CHARS_MAX >> 20} million characters; lines "
                "end in a line feed",
                {"file": str(file), "line": number},
            )
        if not line:
            return
        yield line


def _is_likely_utf16(head: bytes) -> bool:
    """Whether a file that begins so is in UTF-16: with a byte order mark, or zeros at every second place."""
    if head.startswith(_UTF16_MARKS):
        return True
    sample = head[:_SAMPLE_BYTES]
    fewest, most = sorted((sample[::2].count(0), sample[1::2].count(0)))
    return fewest == 0 and most > max(1, len(sample) // 2 * _UTF16_ZEROS_MIN)


def _opened(file: Path) -> BinaryIO:
    return cast("BinaryIO", gzip.open(file, "rb")) if file.name.lower().endswith(".gz") else file.open("rb")


def _is_gzip(file: Path) -> bool:
    with file.open("rb") as stream:
        return stream.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC


def ends_of_records(file: Path, encoding: str, lines: Collection[int]) -> dict[int, int]:
    """The last lines of the records of a CSV file that begin in ``lines``, by these."""
    ends: dict[int, int] = {}
    begun: int | None = None
    with Utf8Stream(file, encoding) as stream:
        for line, _ in records(file, stream):
            if begun is not None:
                ends[begun] = line - 1
            begun = line if line in lines else None
    return ends if begun is None else {**ends, begun: sys.maxsize}


def copy_without(file: Path, encoding: str, copy: Path, ends: Mapping[int, int]) -> dict[int, str]:
    """Copy a file, decompressed, without the lines from each of ``ends`` to its end: they are empty.

    Returns the text of these lines, by the first of them.
    """
    contents: dict[int, list[str]] = {}
    first = 0
    with (
        io.TextIOWrapper(io.BufferedReader(Utf8Stream(file, encoding)), "utf-8-sig", newline="") as text,
        copy.open("w", encoding=encoding, newline="") as sink,
    ):
        for number, line in enumerate(text, start=1):
            first = number if number in ends else first
            if first and number <= ends[first]:
                contents.setdefault(first, []).append(line)
                sink.write(line[len(line.rstrip("\r\n")) :])
            else:
                sink.write(line)
    return {line: "".join(parts).rstrip("\r\n") for line, parts in contents.items()}
