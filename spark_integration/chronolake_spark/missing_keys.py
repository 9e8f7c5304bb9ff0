"""Finds the file and line of the first row without a record key, without Spark."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from chronolake_spark import errors, json_records
from chronolake_spark.formats import Format


def located(
    error: errors.InvalidRecordKey, format_: Format, files: Sequence[Path], key: Sequence[str]
) -> errors.InvalidRecordKey:
    """``error`` with the place of the first row of ``files`` that has no record key.

    It is ``error`` itself if none was found, and for CSV files, which are refused before Spark sees them. All
    columns of the key are columns of the files.
    """
    places = {Format.PARQUET: _row_of_parquet, Format.JSON: _record_of_json}
    for file in files if format_ in places else ():
        if place := places[format_](file, key):
            return errors.InvalidRecordKey(f"{file}, {place}: {error}", {"file": str(file), "place": place})
    return error


def first_in(rows: pa.RecordBatch, key: Sequence[str]) -> int | None:
    """The index of the first row in which all columns of the record key are null or empty texts.

    None if there is none, or ``rows`` lacks a column of the key. The case of names does not count.
    """
    names = {name.lower(): name for name in rows.schema.names}
    if not key or any(name.lower() not in names for name in key):
        return None
    missing = functools.reduce(pc.and_, (_is_missing(rows[names[name.lower()]]) for name in key))
    index: int = pc.index(missing, True).as_py()
    return index if index >= 0 else None


def _is_missing(values: pa.Array) -> pa.Array:
    if not pa.types.is_string(values.type) and not pa.types.is_large_string(values.type):
        return values.is_null()
    return pc.fill_null(pc.equal(values, ""), True)


def _row_of_parquet(file: Path, key: Sequence[str]) -> str | None:
    parquet = pq.ParquetFile(file)
    names = {name.lower(): name for name in parquet.schema_arrow.names}
    rows = 0
    for batch in parquet.iter_batches(columns=[names[name.lower()] for name in key if name.lower() in names]):
        if (index := first_in(batch, key)) is not None:
            return f"row {rows + index + 1}"
        rows += len(batch)
    return None


def _record_of_json(file: Path, key: Sequence[str]) -> str | None:
    folded = {name.lower() for name in key}
    for record in json_records.records(file):
        values = [value for name, value in record.fields.items() if name.lower() in folded]
        if all(value in (None, "") for value in values):
            return record.place
    return None
