"""Strings of JSON and Parquet files that are of another type in the table, converted as those of CSV files.

Spark's own cast makes one number of ``"1"`` and ``"01"``, true of ``"yes"``, and cuts times.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StringType, StructField, StructType

from chronolake.slices import columns
from chronolake.writing import csv_types
from chronolake_spark import errors
from chronolake_spark.driver.schema import type_of
from chronolake_spark.ingest import row_scans
from chronolake_spark.ingest.csv_files import ReadOptions, TargetColumn


def converted(frame: DataFrame, reading: ReadOptions) -> DataFrame:
    """``frame`` with its strings in the types that ``reading`` knows.

    Its column ``columns.SOURCE_SPLIT`` says the address of each row's file. A value that does not fit fails the
    job with ``SchemaMismatch``.
    """
    wanted = {
        field.name: column
        for field in frame.schema
        if isinstance(field.dataType, StringType)
        and (column := reading.column(field.name)) is not None
        and column.type != csv_types.STRING
        and csv_types.arrow_type(column.type) is not None
    }
    if not wanted:
        return frame
    return frame.mapInArrow(_Convert(wanted), StructType([_field(field, wanted) for field in frame.schema]))


def convert(files: pa.Array, name: str, values: pa.Array, column: TargetColumn) -> pa.Array:
    """``values``, strings, in the type of their column. ``files`` has the address of the file of each value.

    Raises ``SchemaMismatch`` for one that does not fit.
    """
    try:
        return csv_types.convert(values, column.type, stated=column.stated)
    except csv_types.ValueMismatch as mismatch:
        value = values[mismatch.index].as_py()
        file = unquote(urlsplit(files[mismatch.index].as_py()).path)
        raise row_scans.misfit(name, value, column)(file, {"file": file}) from mismatch


@dataclass(frozen=True, slots=True)
class _Convert:
    """The function of a Spark task: it converts batches."""

    wanted: Mapping[str, TargetColumn]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            try:
                yield self._converted(batch)
            except errors.SchemaMismatch as exc:
                raise RuntimeError(errors.encoded(exc)) from exc

    def _converted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = dict(zip(batch.schema.names, batch.columns, strict=True))
        files = arrays[columns.SOURCE_SPLIT]
        for name, column in self.wanted.items():
            arrays[name] = convert(files, name, arrays[name].cast(pa.string()), column)
        return pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))


def _field(field: StructField, wanted: Mapping[str, TargetColumn]) -> StructField:
    if field.name not in wanted:
        return field
    return StructField(field.name, type_of(wanted[field.name].type))
