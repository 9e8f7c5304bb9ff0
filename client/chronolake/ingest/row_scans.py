"""Finds the rows of Parquet and JSON files that no table can hold, where an engine names only one.

A row is bad that has no record key, a string that is not UTF-8, or a string that does not fit the type of its
column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from chronolake import _utf8
from chronolake.ingest import json_records
from chronolake.ingest.bad_rows import BadRows, rows_without_key
from chronolake.ingest.csv_files import ReadOptions, TargetColumn
from chronolake.ingest.formats import Format
from chronolake.slices import errors
from chronolake.writing import csv_types, key_refusals, text_checks
from chronolake.writing.csv_types import ValueMismatch

_VALUE_CHARS_MAX = 200
_Error: TypeAlias = Callable[[str, Mapping[str, object]], errors.LocalError]
"""Makes the error of a row from its place, as a text and as context."""


def find(
    format_: Format,
    files: Sequence[Path],
    reading: ReadOptions,
    bad: BadRows,
    check: Callable[[], None] = lambda: None,
) -> None:
    """Add an error for each bad row. ``check`` is called now and then, and may raise to end it.

    CSV files have none, because they are read as a whole before. Raises ``TooManyBadRows``.
    """
    find_in = {Format.PARQUET: _in_parquet, Format.JSON: _in_json}.get(format_)
    for file in files if find_in else ():
        assert find_in is not None
        for error in find_in(file, reading, check):
            bad.add(error)


def _in_parquet(file: Path, reading: ReadOptions, check: Callable[[], None]) -> Iterator[errors.LocalError]:
    parquet = pq.ParquetFile(file)
    key = {name.lower() for name in reading.key}
    names = [
        field.name for field in parquet.schema_arrow if field.name.lower() in key or _utf8.has_texts(field.type)
    ]
    first = 1
    for batch in parquet.iter_batches(columns=names):
        check()
        bad_rows = dict(_bad_rows(batch, reading))
        for index in sorted(bad_rows):
            yield bad_rows[index](f"{file}, row {first + index}", {"file": str(file), "row": first + index})
        first += len(batch)


def _in_json(file: Path, reading: ReadOptions, check: Callable[[], None]) -> Iterator[errors.LocalError]:
    key = {name.lower() for name in reading.key}
    # Lines that are no record have been found when the columns were.
    for record in json_records.records(file, check, leaves_out_lines=True):
        place = {"file": str(file), "place": record.place}
        where = f"{file}, {record.place}"
        values = [value for name, value in record.fields.items() if name.lower() in key]
        if key and all(value in (None, "") for value in values):
            yield errors.InvalidRecordKey(f"{where}: {key_refusals.missing_key(reading.key)}", place)
            continue
        for name, value in record.fields.items():
            column = _converted(reading, name)
            if column is not None and type(value) is str and not _fits(value, column):
                yield misfit(name, value, column)(where, place)
                break


def misfit(name: str, value: str, column: TargetColumn) -> _Error:
    """The error of a string that does not fit the type of its column."""
    shown = value[:_VALUE_CHARS_MAX]
    context = {"column": name, "value": shown, "wanted": column.type}
    message = f"column {name}: the string {shown!r} does not fit {column.type}; {column.advice(name, value)}"
    return lambda where, place: errors.SchemaMismatch(f"{where}, {message}", {**place, **context})


def _bad_rows(batch: pa.RecordBatch, reading: ReadOptions) -> Iterator[tuple[int, _Error]]:
    """The rows of a batch that are bad, by their places."""
    without_key = rows_without_key(batch, reading.key)
    for index in np.flatnonzero(without_key):
        yield int(index), _no_key(reading.key)
    for name in batch.schema.names:
        values = batch[name]
        if _utf8.first_invalid(name, values) is not None:
            for index in np.flatnonzero(_utf8.invalid_rows(values)):
                invalid = _utf8.first_invalid(name, values.slice(int(index), 1))
                assert invalid is not None, f"{name} is not valid in row {index}"
                yield int(index), _no_text(invalid)
        elif (column := _converted(reading, name)) is not None and pa.types.is_string(values.type):
            for row in _misfits(values, column):
                yield row, misfit(name, values[row].as_py(), column)


def _misfits(values: pa.Array, column: TargetColumn) -> Iterator[int]:
    places = np.arange(len(values))
    while True:
        try:
            csv_types.convert(values.take(pa.array(places)), column.type, stated=column.stated)
        except ValueMismatch as mismatch:
            yield int(places[mismatch.index])
            places = np.delete(places, mismatch.index)
        else:
            return


def _converted(reading: ReadOptions, name: str) -> TargetColumn | None:
    """The column, if its strings are converted."""
    column = reading.column(name)
    if column is None or column.type == csv_types.STRING or csv_types.arrow_type(column.type) is None:
        return None
    return column


def _fits(value: str, column: TargetColumn) -> bool:
    return csv_types.accepts(pa.array([value]), column.type, stated=column.stated)


def _no_key(key: Sequence[str]) -> _Error:
    return lambda where, place: errors.InvalidRecordKey(f"{where}: {key_refusals.missing_key(key)}", place)


def _no_text(invalid: _utf8.NotUtf8) -> _Error:
    return lambda where, place: errors.InvalidText(
        f"{where}, column {invalid.path}: {text_checks.what(invalid)}", {**place, "column": invalid.path}
    )
