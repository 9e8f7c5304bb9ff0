"""Rows of files that cannot be loaded, and are left out because the user has decided so."""

from __future__ import annotations

import re
import shutil
import tempfile
import weakref
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from chronolake.ingest import formats, parquet_files, text_files
from chronolake.ingest.formats import Format
from chronolake.slices import errors

_LINE: Final = re.compile(r"line (\d+)")
_ENCODER: Final = msgspec.json.Encoder(decimal_format="number")


class BadRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """A row that was set aside. ``line`` is its first line, or ``row`` its number, both from 1.

    ``content`` is its text, or the values of a row of Parquet.
    """

    file: str
    problem: str
    line: int | None = None
    row: int | None = None
    content: str | dict[str, object] = ""


class SetAside:
    """The bad rows of a load, which are left out of it.

    Of files of text there are copies without these rows. They have empty lines instead, so that the others keep
    their numbers. Of Parquet files the rows are known by their numbers.
    """

    def __init__(self) -> None:
        self.rows: list[BadRow] = []
        self._copies: dict[Path, Path] = {}
        self._numbers: dict[Path, set[int]] = {}

    def file(self, file: Path) -> Path:
        """The file to read instead of ``file``."""
        return self._copies.get(file, file)

    def numbers(self, file: Path) -> Collection[int]:
        """The numbers of the rows of a Parquet file that are left out, from 0."""
        return self._numbers.get(file, ())

    def count(self, files: Iterable[Path]) -> int:
        """The number of rows that are left out of these files."""
        names = set(map(str, files))
        return sum(row.file in names for row in self.rows)

    def add(self, bad: Sequence[errors.LocalError], files: Iterable[Path], encoding: str) -> None:
        """Leave rows out. Raises the error of one without a line or a number, such as in an array of JSON."""
        of_file: dict[str, dict[int, errors.LocalError]] = {}
        for error in bad:
            context = {} if error.problem is None else error.problem.context
            number = context.get("row") or context.get("line") or _line_of(str(context.get("place")))
            if number is None:
                raise error
            of_file.setdefault(context["file"], {}).setdefault(number, error)
        for file in files:
            read = self.file(file)
            if (found := of_file.get(str(read))) is None:
                continue
            problems = {number: str(error).replace(str(read), str(file)) for number, error in found.items()}
            if formats.format_of(file) is Format.PARQUET:
                self._add_numbers(file, problems)
            else:
                self._add_lines(file, read, problems, encoding)

    def write(self, path: Path) -> None:
        """Append the rows to a file, a line of JSON each."""
        if self.rows:
            with path.open("ab") as sink:
                sink.write(b"".join(_ENCODER.encode(row) + b"\n" for row in self.rows))

    def _add_numbers(self, file: Path, problems: Mapping[int, str]) -> None:
        wanted = sorted(problems)
        contents = parquet_files.values_of_rows(file, [number - 1 for number in wanted])
        for number, content in zip(wanted, contents, strict=True):
            self.rows.append(BadRow(str(file), problems[number], row=number, content=content))
        self._numbers.setdefault(file, set()).update(number - 1 for number in wanted)

    def _add_lines(self, file: Path, read: Path, problems: Mapping[int, str], encoding: str) -> None:
        folder = tempfile.mkdtemp(prefix="chronolake-")
        # Not by a context manager: Spark reads the copies until the load has ended.
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        copy = Path(folder) / (file.stem if file.suffix.lower() == ".gz" else file.name)
        is_csv = formats.format_of(file) is Format.CSV
        ends = (
            text_files.ends_of_records(read, encoding, problems)
            if is_csv
            else {line: line for line in problems}
        )
        contents = text_files.copy_without(read, encoding, copy, ends)
        for line in sorted(problems):
            self.rows.append(BadRow(str(file), problems[line], line=line, content=contents[line]))
        self._copies[file] = copy


def _line_of(place: str) -> int | None:
    match = _LINE.fullmatch(place)
    return None if match is None else int(match[1])
