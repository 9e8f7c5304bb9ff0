"""Strict reading of CSV files: they are checked completely before anything is written, then loaded in order.

Arrow parses them, and Python's own reader locates errors; neither replaces an unreadable value by null. An
empty value is null, a quoted empty value is the empty string, and an empty line is not a row.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StructField, StructType

from chronolake_spark import columns, csv_advice, csv_types, errors, missing_keys, operations, text_files
from chronolake_spark.csv_profiles import Profile
from chronolake_spark.csv_types import ValueMismatch

Header = tuple[str, ...]
_BLOCK_BYTES = 4 << 20
_THREADS = 4
_TASKS_PER_CORE = 4
_VALUE_CHARS_MAX = 200
_OTHER_SEPARATORS = {";": "semicolons", "\t": "tabs"}


@dataclass(frozen=True, slots=True)
class Column:
    """The type that a column is to have; ``stated`` says that the caller named it for this very load."""

    type: str
    stated: bool = False


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How files are read: their encoding, and the types of columns that are known, by name in lower case.

    ``default`` is what all other columns are to be; without one their values say it. ``key`` are the columns of
    the record key, of which each row has a value. ``op_column`` says which rows delete.
    """

    encoding: str = text_files.UTF8
    known: Mapping[str, Column] = field(default_factory=dict)
    default: Column | None = None
    key: tuple[str, ...] = ()
    op_column: str | None = None

    def column(self, name: str) -> Column | None:
        """What is known of a column. The case of names does not count."""
        return self.known.get(name.lower(), self.default)


@dataclass
class Inspection:
    """The number of rows of files, and for each column the types that its values could have."""

    rows: int
    profiles: dict[str, Profile]

    def merge(self, other: Inspection) -> None:
        """Add the inspection of another file with the same columns."""
        self.rows += other.rows
        for name, profile in other.profiles.items():
            self.profiles[name].merge(profile)


def inspect(
    files: Sequence[Path], reading: ReadOptions, check: Callable[[], None] = lambda: None
) -> Inspection:
    """Read all files to the end. ``check`` is called repeatedly, and may raise to end it.

    Raises ``SourceUnreadable`` for the first file, in their order, that is damaged, has rows of another length
    than its header, or other columns than the first file; ``SchemaMismatch`` for a value that does not fit the
    type of its column; ``InvalidRecordKey`` for a row without a record key.
    """
    wanted = header_of(files[0], reading.encoding)
    with ThreadPoolExecutor(_THREADS) as threads:
        inspections = [threads.submit(_inspect, file, wanted, reading, check) for file in files]
        try:
            inspection = inspections[0].result()
            for another in inspections[1:]:
                inspection.merge(another.result())
        except BaseException:
            threads.shutdown(wait=False, cancel_futures=True)
            raise
    return inspection


def frame(spark: SparkSession, files: Sequence[Path], struct: StructType, reading: ReadOptions) -> DataFrame:
    """The rows of ``files`` with the columns of ``struct``, in any order in a file, and their place."""
    order = [StructField(name, LongType(), nullable=False) for name in columns.SOURCE_ORDER]
    tasks = min(len(files), _TASKS_PER_CORE * spark.sparkContext.defaultParallelism)
    load = _Load(tuple(files), tasks, {field.name: field.dataType.simpleString() for field in struct}, reading)
    tasks_frame = spark.range(0, tasks, 1, tasks)
    return tasks_frame.mapInArrow(load, StructType([*struct, *order]))


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


@dataclass(frozen=True, slots=True)
class _Place:
    """The place of a batch: its file, and the number of its first row, from 0."""

    file: Path
    encoding: str
    start: int

    def line(self, index: int) -> int:
        """The line in which a row of the batch begins."""
        with text_files.Utf8Stream(self.file, self.encoding) as stream:
            rows = text_files.records(self.file, stream)
            return next(itertools.islice(rows, self.start + index + 1, None))[0]


@dataclass(frozen=True, slots=True)
class _Load:
    """The function of a Spark task: it reads files, one after the other."""

    files: tuple[Path, ...]
    tasks: int
    types: Mapping[str, str]
    reading: ReadOptions

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for task in (task for batch in batches for task in batch.column(0).to_pylist()):
            start, end = (len(self.files) * edge // self.tasks for edge in (task, task + 1))
            for number, file in enumerate(self.files[start:end], start):
                try:
                    yield from self._rows(number, file)
                except (errors.SourceUnreadable, errors.SchemaMismatch) as exc:
                    raise RuntimeError(errors.encoded(exc)) from exc

    def _rows(self, number: int, file: Path) -> Iterator[pa.RecordBatch]:
        names = [*self.types, *columns.SOURCE_ORDER]
        for start, rows in _batches(file, self.reading.encoding):
            place = _Place(file, self.reading.encoding, start)
            values = [
                _convert(place, rows, name, self._column(name, type_)) for name, type_ in self.types.items()
            ]
            order = [
                pa.repeat(pa.scalar(number, pa.int64()), len(rows)),
                pa.array(range(start, start + len(rows)), pa.int64()),
            ]
            yield pa.RecordBatch.from_arrays([*values, *order], names=names)

    def _column(self, name: str, type_: str) -> Column:
        known = self.reading.column(name)
        return Column(type_, stated=known is not None and known.stated)


def _inspect(file: Path, wanted: Header, reading: ReadOptions, check: Callable[[], None]) -> Inspection:
    header = header_of(file, reading.encoding)
    _check_columns(file, header, wanted)
    inspection = Inspection(0, {name: Profile() for name in header})
    for start, rows in _batches(file, reading.encoding, check):
        place = _Place(file, reading.encoding, start)
        for name in header:
            column = reading.column(name)
            if column is None:
                inspection.profiles[name].add(rows[name])
            else:
                _convert(place, rows, name, column)
            if reading.op_column is not None and name.lower() == reading.op_column.lower():
                _refuse_operation(place, rows, name)
        _refuse_missing_key(place, rows, reading.key)
        inspection.rows += len(rows)
    return inspection


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
    file: Path, encoding: str, check: Callable[[], None] = lambda: None
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows as texts, and the number of each batch's first row in the file, from 0."""
    rows, header = 0, header_of(file, encoding)
    with text_files.Utf8Stream(file, encoding, check) as stream:
        try:
            for batch in _parsed(stream, header):
                yield rows, batch
                rows += len(batch)
        except pa.ArrowInvalid as exc:
            if stream.failure is not None:
                raise stream.failure from exc
            _refuse_records(file, encoding, header)
            raise errors.SourceUnreadable(f"{file} cannot be read as CSV: {exc}") from exc
        if stream.quoted:
            # Arrow reads an unclosed quote as text up to the end of the file.
            _refuse_records(file, encoding, header, rows)


def _parsed(stream: text_files.Utf8Stream, header: Header) -> Iterator[pa.RecordBatch]:
    reader = pyarrow.csv.open_csv(
        stream,
        read_options=pyarrow.csv.ReadOptions(block_size=_BLOCK_BYTES),
        parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(header, pa.string()),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            null_values=[""],
        ),
    )
    if tuple(reader.schema.names) != header:
        raise pa.ArrowInvalid(f"its columns are {', '.join(reader.schema.names)}")
    yield from reader


def _refuse_records(file: Path, encoding: str, header: Header, rows: int | None = None) -> None:
    """Raise ``SourceUnreadable`` for the first record that is not a row of the header's columns."""
    count = -1
    with text_files.Utf8Stream(file, encoding) as stream:
        for line, record in text_files.records(file, stream):
            count += 1
            if len(record) != len(header):
                raise errors.SourceUnreadable(
                    f"{file}, line {line}: the row has {len(record)} values, but the header has "
                    f"{len(header)} columns; a value with a comma must be in quotes",
                    {"file": str(file), "line": line},
                )
    if rows is not None and count != rows:
        raise errors.SourceUnreadable(
            f"{file}: its quotes can be read as {rows} or as {count} rows; correct them"
        )


def _refuse_missing_key(place: _Place, rows: pa.RecordBatch, key: Sequence[str]) -> None:
    index = missing_keys.first_in(rows, key)
    if index is None:
        return
    line = place.line(index)
    raise errors.InvalidRecordKey(
        f"{place.file}, line {line}: {errors.missing_key(key)}", {"file": str(place.file), "line": line}
    )


def _refuse_operation(place: _Place, rows: pa.RecordBatch, name: str) -> None:
    index = operations.first_unknown(rows[name])
    if index is not None:
        raise operations.refused(f"{place.file}, line {place.line(index)}", name, rows[name][index].as_py())


def _convert(place: _Place, rows: pa.RecordBatch, name: str, column: Column) -> pa.Array:
    if csv_types.arrow_type(column.type) is None:
        raise errors.SchemaMismatch(
            f"the column {name} is {column.type}, which CSV files cannot hold; load JSON lines or Parquet",
            {"column": name},
        )
    try:
        return csv_types.convert(rows[name], column.type, stated=column.stated)
    except ValueMismatch as mismatch:
        file, line = place.file, place.line(mismatch.index)
        value = rows[name][mismatch.index].as_py()
        raise errors.SchemaMismatch(
            f"{file}, line {line}, column {name}: {value[:_VALUE_CHARS_MAX]!r} does not fit {column.type}; "
            f"{csv_advice.advice_for_value(name, column.type, value, stated=column.stated)}",
            {
                "file": str(file),
                "line": line,
                "column": name,
                "value": value[:_VALUE_CHARS_MAX],
                "wanted": column.type,
            },
        ) from mismatch
