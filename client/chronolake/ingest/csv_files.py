"""Strict reading of CSV files: they are checked completely before anything is written, then loaded in order.

Arrow parses them, and Python's own reader locates errors; neither replaces an unreadable value by null. An
empty value is null, a quoted empty value is the empty string, and an empty line is not a row.
"""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from chronolake.ingest import bad_rows, csv_advice, operations, record_blocks, text_files
from chronolake.ingest.bad_rows import BadRows
from chronolake.ingest.csv_profiles import Profile
from chronolake.slices import errors
from chronolake.writing import csv_types, key_refusals
from chronolake.writing.csv_types import ValueMismatch

Header = tuple[str, ...]
_THREADS = 4
_VALUE_CHARS_MAX = 200
_OTHER_SEPARATORS = {";": "semicolons", "\t": "tabs"}


@dataclass(frozen=True, slots=True)
class TargetColumn:
    """The type that a column is to have; ``stated`` says that the caller named it for this very load.

    ``is_fixed`` if the column of the table cannot be widened, ``is_inferred`` if it is that of the values.
    """

    type: str
    stated: bool = False
    is_fixed: bool = False
    is_inferred: bool = False

    def advice(self, name: str, value: str) -> str:
        """The advice for a value that does not fit the type."""
        return csv_advice.advice_for_value(name, self.type, value, stated=self.stated, is_fixed=self.is_fixed)


class KeptTexts:
    """Texts of files, up to a number of bytes together. A caller makes sure that the files do not change.

    Several threads may add files at the same time.
    """

    def __init__(self, bytes_max: int) -> None:
        self._lock = threading.Lock()
        self._bytes_left = bytes_max
        self._files: dict[Path, list[pa.RecordBatch]] = {}

    def has(self, file: Path) -> bool:
        """Whether a file is kept."""
        return file in self._files

    def take(self, file: Path) -> Sequence[pa.RecordBatch] | None:
        """All rows of a file, which are kept no longer; None if they were not kept."""
        return self._files.pop(file, None)

    def drop(self, file: Path) -> None:
        """Keep a file no longer."""
        self._release(self._files.pop(file, []))

    def keeping(
        self, file: Path, batches: Iterable[tuple[int, pa.RecordBatch]]
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The same batches, which are kept if they are read to their end."""
        self.drop(file)
        kept: list[pa.RecordBatch] = []
        has_room = True
        try:
            for start, batch in batches:
                has_room = has_room and self._reserve(batch.nbytes)
                if has_room:
                    kept.append(batch)
                else:
                    self._release(kept)
                yield start, batch
            if has_room:
                self._files[file], kept = kept, []
        finally:
            self._release(kept)

    def _reserve(self, size_bytes: int) -> bool:
        with self._lock:
            has_room = size_bytes <= self._bytes_left
            self._bytes_left -= size_bytes if has_room else 0
            return has_room

    def _release(self, batches: list[pa.RecordBatch]) -> None:
        with self._lock:
            self._bytes_left += sum(batch.nbytes for batch in batches)
        batches.clear()


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How files are read: their encoding, and the types of columns that are known, by name in lower case.

    ``default`` is the type of all other columns; without it their values decide. ``key`` are the columns of the
    record key; each row must have a value of each. ``op_column`` says which rows delete. ``kept`` has the texts
    of files that were read, for the process that reads them again.
    """

    encoding: str = text_files.UTF8
    known: Mapping[str, TargetColumn] = field(default_factory=dict)
    default: TargetColumn | None = None
    key: tuple[str, ...] = ()
    op_column: str | None = None
    kept: KeptTexts | None = None

    def column(self, name: str) -> TargetColumn | None:
        """The type of a column, None if it is not known. The case of names does not count."""
        return self.known.get(name.lower(), self.default)


@dataclass
class CsvInspection:
    """The number of rows of files, and for each column the types that its values could have."""

    rows: int
    profiles: dict[str, Profile]

    def merge(self, other: CsvInspection) -> None:
        """Add the inspection of another file with the same columns."""
        self.rows += other.rows
        for name, profile in other.profiles.items():
            self.profiles[name].merge(profile)


def inspect(
    files: Sequence[Path],
    reading: ReadOptions,
    check: Callable[[], None] = lambda: None,
    bad: BadRows | None = None,
) -> CsvInspection:
    """Read all files to the end. ``check`` is called repeatedly, and may raise to end it.

    Bad rows, in the order of the files and of the rows, are added to ``bad``, and left out of the inspection:
    rows of another length than the header (``SourceUnreadable``), with a value that does not fit the type of
    its column (``SchemaMismatch``), or without a record key (``InvalidRecordKey``). Without ``bad`` they are
    raised. Raises ``SourceUnreadable`` for the first file that is damaged, or has other columns than the first
    file, and ``TooManyBadRows``.
    """
    if bad is None:
        with bad_rows.refused() as collector:
            return inspect(files, reading, check, collector)
    wanted = header_of(files[0], reading.encoding)
    inspection = CsvInspection(0, {name: Profile() for name in wanted})
    with ThreadPoolExecutor(_THREADS) as threads:
        parts = [threads.submit(_inspect, file, wanted, reading, check, bad.rows_max) for file in files]
        try:
            for part in parts:
                of_file, of_rows = part.result()
                inspection.merge(of_file)
                bad.add(*of_rows)
        except BaseException:
            threads.shutdown(wait=False, cancel_futures=True)
            raise
    return inspection


def rows(file: Path, types: Mapping[str, str], reading: ReadOptions) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of a file with columns of these types, and the number of each batch's first row, from 0.

    The columns are in the order of ``types``, whatever the order in the file is. Raises ``SourceUnreadable``,
    and ``SchemaMismatch`` for a value that does not fit.
    """
    targets = {name: _target(reading, name, type_) for name, type_ in types.items()}
    try:
        with ThreadPoolExecutor(_THREADS) as threads:
            # Types were inferred from the very texts that are kept.
            is_kept = reading.kept is not None and reading.kept.has(file)
            convert = functools.partial(_convert, are_inferred=is_kept)
            for start, batch in _texts(file, reading):
                try:
                    values = list(threads.map(convert, itertools.repeat(batch), targets, targets.values()))
                except _BadRow as bad:
                    [line] = _lines_of(file, reading.encoding, [start + bad.index])
                    raise bad.at(file, line) from bad
                yield start, pa.RecordBatch.from_arrays(values, names=list(types))
    except _WrongLengths as exc:
        raise exc.of_rows[0] from exc


def _texts(file: Path, reading: ReadOptions) -> Iterator[tuple[int, pa.RecordBatch]]:
    kept = None if reading.kept is None else reading.kept.take(file)
    if kept is None:
        yield from _batches(file, reading.encoding)
        return
    start = 0
    for batch in kept:
        yield start, batch
        start += len(batch)


def _target(reading: ReadOptions, name: str, type_: str) -> TargetColumn:
    known = reading.column(name)
    return TargetColumn(type_, is_inferred=True) if known is None else replace(known, type=type_)


def header_of(file: Path, encoding: str) -> Header:
    """The names of the columns.

    Raises ``SourceUnreadable`` when one is blank or there twice, or something else than commas separates them.
    """
    with text_files.Utf8Stream(file, encoding) as stream:
        _, names = next(text_files.records(file, stream), (1, []))
    if not names:
        raise errors.SourceUnreadable(f"{file} is empty: a CSV file begins with a line of column names")
    if len(names) == 1 and (separator := next((char for char in _OTHER_SEPARATORS if char in names[0]), None)):
        raise errors.SourceUnreadable(
            f"{file} has one column, {names[0][:_VALUE_CHARS_MAX]!r}: only commas separate values, not "
            f"{_OTHER_SEPARATORS[separator]}; convert the file, as "
            "docs/ingest.md#other-separators shows, or rename the column if that is its name",
            {"columns": names},
        )
    blank = [number for number, name in enumerate(names, start=1) if not name.strip()]
    if blank:
        raise errors.SourceUnreadable(
            f"{file} has no name for its column {blank[0]}; name each in the first line", {"columns": blank}
        )
    folded = [name.lower() for name in names]
    repeated = sorted({name for name in names if folded.count(name.lower()) > 1})
    if repeated:
        raise errors.SourceUnreadable(
            f"{file} has several columns called {', '.join(repeated)} (case does not count); rename them",
            {"columns": repeated},
        )
    return tuple(names)


class _BadRow(Exception):
    """A row of a batch, at the place ``index``, cannot be loaded. ``error`` makes its error."""

    def __init__(self, index: int, error: Callable[[str, dict[str, Any]], errors.LocalError]) -> None:
        super().__init__(index)
        self.index = index
        self._error = error

    def at(self, file: Path, line: int) -> errors.LocalError:
        """The error."""
        return self._error(f"{file}, line {line}", {"file": str(file), "line": line})


class _WrongLengths(Exception):
    """Rows of a file have other lengths than its header."""

    def __init__(self, of_rows: Sequence[errors.LocalError]) -> None:
        super().__init__()
        self.of_rows = of_rows


def _inspect(
    file: Path, wanted: Header, reading: ReadOptions, check: Callable[[], None], rows_max: int
) -> tuple[CsvInspection, list[errors.LocalError]]:
    """The inspection of a file, and the errors of up to ``rows_max`` bad rows."""
    header = header_of(file, reading.encoding)
    _check_columns(file, header, wanted)
    of_lengths: Sequence[errors.LocalError] = []
    try:
        batches = _batches(file, reading.encoding, check)
        batches = batches if reading.kept is None else reading.kept.keeping(file, batches)
        inspection, bad = _inspect_rows(batches, header, reading, rows_max)
    except _WrongLengths as exc:
        of_lengths = exc.of_rows[:rows_max]
        # Arrow stops at the first of these rows: a second pass, without them, finds the other bad rows.
        others = _batches(file, reading.encoding, check, leaves_out_lengths=True)
        inspection, bad = _inspect_rows(others, header, reading, rows_max - len(of_lengths))
    lines = _lines_of(file, reading.encoding, list(bad), len(header) if of_lengths else None)
    of_rows = [row.at(file, line) for row, line in zip(bad.values(), lines, strict=True)]
    return inspection, sorted([*of_rows, *of_lengths], key=_line_of_error)


def _inspect_rows(
    batches: Iterable[tuple[int, pa.RecordBatch]], header: Header, reading: ReadOptions, rows_max: int
) -> tuple[CsvInspection, dict[int, _BadRow]]:
    """The inspection of the rows that can be loaded, and up to ``rows_max`` others, by their numbers."""
    inspection = CsvInspection(0, {name: Profile() for name in header})
    unknown = [name for name in header if reading.column(name) is None]
    bad: dict[int, _BadRow] = {}
    with ThreadPoolExecutor(_THREADS) as threads:
        for start, rows in batches:
            good = _without_bad_rows(rows, start, reading, bad, rows_max)
            profiles = [inspection.profiles[name] for name in unknown]
            list(threads.map(Profile.add, profiles, good.select(unknown).columns))
            inspection.rows += len(good)
            if len(bad) == rows_max:
                break
    return inspection, bad


def _line_of_error(error: errors.LocalError) -> int:
    assert error.problem is not None, "the error of a row has a problem"
    return int(error.problem.context["line"])


def _without_bad_rows(
    rows: pa.RecordBatch, start: int, reading: ReadOptions, bad: dict[int, _BadRow], rows_max: int
) -> pa.RecordBatch:
    """The rows of a batch that can be loaded. Others are added to ``bad``, by their numbers in the file."""
    numbers = np.arange(start, start + len(rows))
    of_batch: dict[int, _BadRow] = {}
    while len(bad) + len(of_batch) < rows_max:
        try:
            _check_rows(rows, reading)
            break
        except _BadRow as exc:
            of_batch[int(numbers[exc.index])] = exc
            numbers = np.delete(numbers, exc.index)
            rows = rows.take(pa.array(np.delete(np.arange(len(rows)), exc.index)))
    bad |= dict(sorted(of_batch.items()))
    return rows


def _check_rows(rows: pa.RecordBatch, reading: ReadOptions) -> None:
    """Raise ``_BadRow`` for a row that cannot be loaded."""
    for name in rows.schema.names:
        if (column := reading.column(name)) is not None:
            _convert(rows, name, column)
        if reading.op_column is not None and name.lower() == reading.op_column.lower():
            _refuse_operation(rows, name)
    _refuse_missing_key(rows, reading.key)


def _lines_of(file: Path, encoding: str, numbers: Sequence[int], length: int | None = None) -> list[int]:
    """The lines in which the rows of these numbers begin; the first row has the number 0.

    With a ``length`` only the rows of that number of values are counted.
    """
    lines: dict[int, int] = {}
    wanted = set(numbers)
    if not wanted:
        return []
    with text_files.Utf8Stream(file, encoding) as stream:
        records = text_files.records(file, stream)
        starts = (line for line, record in records if length is None or len(record) == length)
        for number, line in enumerate(starts, start=-1):
            if number in wanted:
                lines[number] = line
            if len(lines) == len(wanted):
                break
    return [lines[number] for number in numbers]


def _check_columns(file: Path, header: Header, wanted: Header) -> None:
    missing, others = sorted(set(wanted) - set(header)), sorted(set(header) - set(wanted))
    if not missing and not others:
        return
    differences = [f"lacks {', '.join(missing)}"] if missing else []
    differences += [f"has {', '.join(others)}"] if others else []
    raise errors.SourceUnreadable(
        f"{file} has other columns than the files before it: it {' and '.join(differences)}; "
        "ingest files of the same columns together",
        {"missing": missing, "unknown": others},
    )


def _batches(
    file: Path,
    encoding: str,
    check: Callable[[], None] = lambda: None,
    *,
    leaves_out_lengths: bool = False,
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows as texts, and the number of each batch's first row in the file, from 0.

    Raises ``_WrongLengths`` if rows have other lengths than the header, or leaves them out and does not count
    them. What cannot be read as CSV raises ``SourceUnreadable``, or ends the rows if lengths are left out.
    """
    rows, header = 0, header_of(file, encoding)
    parse = functools.partial(_parsed, header=header, leaves_out_lengths=leaves_out_lengths)
    with text_files.Utf8Stream(file, encoding, check) as stream:
        try:
            for batch in record_blocks.parsed(record_blocks.of_csv(stream), parse):
                yield rows, batch
                rows += len(batch)
        except pa.ArrowInvalid as exc:
            if leaves_out_lengths:
                return
            _refuse_records(file, encoding, header)
            raise errors.SourceUnreadable(f"{file} cannot be read as CSV: {exc}") from exc
        if not stream.quotes.are_clear and not leaves_out_lengths:
            # Arrow reads an unclosed quote as text up to the end of the file, and accepts text after a quote.
            _refuse_records(file, encoding, header, rows)


def _parsed(number: int, block: pa.Buffer, *, header: Header, leaves_out_lengths: bool) -> pa.Table:
    """The rows of a block; the first one begins with the header."""
    table = pyarrow.csv.read_csv(
        pa.BufferReader(block),
        read_options=pyarrow.csv.ReadOptions(
            # Arrow has done everything at the return of the call only if it takes no other thread.
            use_threads=False,
            block_size=len(block),
            column_names=header if number else None,
        ),
        parse_options=pyarrow.csv.ParseOptions(
            newlines_in_values=True,
            invalid_row_handler=(lambda _: "skip") if leaves_out_lengths else None,
        ),
        convert_options=pyarrow.csv.ConvertOptions(
            check_utf8=False,  # The stream has decoded it.
            column_types=dict.fromkeys(header, pa.string()),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            null_values=[""],
        ),
    )
    if tuple(table.column_names) != header:
        raise pa.ArrowInvalid(f"its columns are {', '.join(table.column_names)}")
    return table


def _refuse_records(file: Path, encoding: str, header: Header, rows: int | None = None) -> None:
    """Raise ``_WrongLengths`` for records that are no rows of the header's columns."""
    count = -1
    of_rows: list[errors.LocalError] = []
    with text_files.Utf8Stream(file, encoding) as stream:
        for line, record in text_files.records(file, stream):
            count += 1
            if len(record) != len(header) and len(of_rows) < bad_rows.SET_ASIDE_MAX:
                refused = errors.SourceUnreadable(
                    f"{file}, line {line}: the row has {len(record)} values, but the header has "
                    f"{len(header)} columns; a value with a comma must be in quotes",
                    {"file": str(file), "line": line},
                )
                of_rows.append(refused)
    if of_rows:
        raise _WrongLengths(of_rows)
    if rows is not None and count != rows:
        raise errors.SourceUnreadable(
            f"{file}: its quotes can be read as {rows} or as {count} rows; correct them"
        )


def _refuse_missing_key(rows: pa.RecordBatch, key: Sequence[str]) -> None:
    if (index := bad_rows.first_without_key(rows, key)) is not None:
        message = key_refusals.missing_key(key)
        raise _BadRow(index, lambda where, place: errors.InvalidRecordKey(f"{where}: {message}", place))


def _refuse_operation(rows: pa.RecordBatch, name: str) -> None:
    if (index := operations.first_unknown(rows[name])) is not None:
        value = rows[name][index].as_py()
        raise _BadRow(index, lambda where, place: operations.refused(where, name, value, place))


def _convert(rows: pa.RecordBatch, name: str, column: TargetColumn, *, are_inferred: bool = False) -> pa.Array:
    """The values of a column. Raises ``_BadRow`` for one that does not fit.

    ``are_inferred`` if the types of columns were inferred from these values, unless the columns are known.
    """
    if csv_types.arrow_type(column.type) is None:
        raise errors.SchemaMismatch(
            f"the column {name} is {column.type}, which CSV files cannot hold; load JSON lines or Parquet",
            {"column": name},
        )
    try:
        are_matched = are_inferred and column.is_inferred
        return csv_types.convert(rows[name], column.type, stated=column.stated, are_matched=are_matched)
    except ValueMismatch as mismatch:
        value = rows[name][mismatch.index].as_py()
        shown = value[:_VALUE_CHARS_MAX]
        context = {"column": name, "value": shown, "wanted": column.type}
        message = f"column {name}: {shown!r} does not fit {column.type}; {column.advice(name, value)}"
        raise _BadRow(
            mismatch.index,
            lambda where, place: errors.SchemaMismatch(f"{where}, {message}", {**place, **context}),
        ) from mismatch
