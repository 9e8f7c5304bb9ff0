"""The rows of Parquet files in Arrow, in the types that tables have for them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from chronolake.ingest import parquet_files
from chronolake.slices import arrow_types, errors
from chronolake.writing import csv_types
from chronolake_model import column_types
from chronolake_model.column_types import (
    DataType,
    PrimitiveType,
)
from chronolake_model.tables import Field

Numbers = npt.NDArray[np.int64]


def fields_of(files: Sequence[Path]) -> list[Field]:
    """The columns of all files together. The case of names does not count.

    Raises ``SourceUnreadable`` for one that has different types in two files, or that a file has twice.
    """
    parquet_files.refuse_different_types(files)
    fields: dict[str, Field] = {}
    for file in files:
        for name, type_ in _types(file).items():
            if type_ is not None or name.lower() not in fields:
                fields[name.lower()] = Field(name, column_types.spell(type_ or PrimitiveType(csv_types.STRING)))
    return list(fields.values())


def rows(
    file: Path,
    fields: Sequence[Field],
    row_group: int | None = None,
    left_out: Collection[int] = (),
) -> Iterator[tuple[Numbers, pa.RecordBatch]]:
    """The rows of a file, or of one of its row groups, and the number of each, from 0.

    A column that the file lacks is null. Rows that are ``left_out`` are not converted: no type may hold them.
    Raises ``SourceUnreadable``.
    """
    targets = {field.name: arrow_types.of(column_types.parse(field.type)) for field in fields}
    try:
        parquet = pq.ParquetFile(file, coerce_int96_timestamp_unit="us")
        own = {name.lower(): name for name in parquet.schema_arrow.names}
        sizes = [parquet.metadata.row_group(number).num_rows for number in range(row_group or 0)]
        count = sum(sizes)
        groups = None if row_group is None else [row_group]
        wanted = [own[name.lower()] for name in targets if name.lower() in own]
        for batch in parquet.iter_batches(row_groups=groups, columns=wanted):
            numbers = np.arange(count, count + len(batch))
            count += len(batch)
            kept = batch
            if left_out:
                is_kept = ~np.isin(numbers, list(left_out))
                kept, numbers = batch.filter(pa.array(is_kept)), numbers[is_kept]
            values = [
                _converted(kept[own[name.lower()]], type_)
                if name.lower() in own
                else pa.nulls(len(kept), type_)
                for name, type_ in targets.items()
            ]
            yield numbers, pa.RecordBatch.from_arrays(values, names=list(targets))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as exc:
        raise errors.SourceUnreadable(f"{file} cannot be read: {exc}", {"file": str(file)}) from exc


def row_groups(file: Path) -> int:
    """The number of row groups of a file."""
    return int(pq.ParquetFile(file).metadata.num_row_groups)


def _types(file: Path) -> dict[str, DataType | None]:
    """The types of a file's columns; None for a column of nulls without a type."""
    schema = parquet_files.schema_of(file)
    int96 = set(parquet_files.int96_columns(file))
    types: dict[str, DataType | None] = {}
    folded = [name.lower() for name in schema.names]
    if repeated := sorted({name for name in schema.names if folded.count(name.lower()) > 1}):
        raise errors.SourceUnreadable(
            f"{file} has several columns called {', '.join(repeated)} (case does not count); rename them",
            {"file": str(file), "columns": repeated},
        )
    for field in schema:
        if field.name in int96:
            types[field.name] = PrimitiveType("timestamp")
        elif pa.types.is_null(field.type):
            types[field.name] = None
        else:
            types[field.name] = _type(file, field.name, field.type)
    return types


def _type(file: Path, name: str, type_: pa.DataType) -> DataType:
    try:
        return arrow_types.column_type(_plain(type_))
    except ValueError:
        raise errors.SourceUnreadable(
            f"{file}, column {name}: tables have no type for {type_}; write another one",
            {"file": str(file), "column": name, "type": str(type_)},
        ) from None


def _plain(type_: pa.DataType) -> pa.DataType:
    """The type without forms that only files have, also within it; null is string."""
    if pa.types.is_null(type_):
        return pa.string()
    if pa.types.is_fixed_size_binary(type_):
        return pa.binary()
    return _plain_nested(type_)


def _plain_nested(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(type_):
        return _plain(type_.value_type)
    if pa.types.is_struct(type_):
        return pa.struct([pa.field(field.name, _plain(field.type)) for field in type_])
    if pa.types.is_map(type_):
        return pa.map_(_plain(type_.key_type), _plain(type_.item_type))
    if arrow_types.is_list(type_):
        return pa.list_(_plain(type_.value_type))
    return type_


def _converted(values: pa.Array, target: pa.DataType) -> pa.Array:
    if isinstance(values.type, pa.TimestampType) and values.type.tz is None and target.tz is not None:
        values = values.cast(pa.timestamp("us"))  # INT96 is a time in UTC.
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    return values.cast(target)
