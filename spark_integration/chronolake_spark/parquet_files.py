"""Checks of Parquet files without Spark: values that Spark would truncate, or types that it cannot merge."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from chronolake_spark import errors, operations

_NANOS_PER_MICRO: Final = 1000
_INT96: Final = "INT96"


def schema_of(file: Path) -> pa.Schema:
    """The schema of a file. Raises ``SourceUnreadable`` if it is not a Parquet file."""
    try:
        # INT96, Spark's own form of times, it reads itself.
        return pq.ParquetFile(file, coerce_int96_timestamp_unit="us").schema_arrow
    except (pa.ArrowInvalid, OSError) as exc:
        raise errors.SourceUnreadable(f"{file} is called Parquet, but cannot be read as such: {exc}") from exc


def nanosecond_columns(files: Sequence[Path]) -> dict[str, str]:
    """Columns that count nanoseconds, and the type of Spark that each becomes."""
    return {
        field.name: "timestamp" if field.type.tz else "timestamp_ntz"
        for file in files
        for field in schema_of(file)
        if _is_nanoseconds(field.type)
    }


def check(files: Sequence[Path], op_column: str | None, stop: Callable[[], None] = lambda: None) -> None:
    """Check for values that Spark would change silently. ``stop`` may raise to end the check.

    Raises ``SourceUnreadable`` for times that are no whole microseconds, and for nanoseconds within other
    types, ``SchemaMismatch`` for a value of ``op_column`` that names no operation.
    """
    for file in files:
        schema = schema_of(file)
        for field in schema:
            if not _is_nanoseconds(field.type) and _holds_nanoseconds(field.type):
                raise errors.SourceUnreadable(
                    f"{file}, column {field.name}: {field.type} has nanoseconds inside a nested column, which "
                    "cannot be read; write microseconds",
                    {"file": str(file), "column": field.name},
                )
        for name in (field.name for field in schema if _is_nanoseconds(field.type)):
            _refuse_cut(file, name, _whole_micros(file, name), stop)
        for name in _int96_columns(file):
            _refuse_cut(file, name, _whole_micros_of_int96(file, name), stop)
        for name in (name for name in schema.names if op_column and name.lower() == op_column.lower()):
            _refuse_operations(file, name, stop)


def refuse_different_types(files: Sequence[Path]) -> None:
    """Raise ``SourceUnreadable`` for the first column that has different types in two files."""
    first: dict[str, tuple[Path, pa.DataType]] = {}
    for file in files:
        for field in schema_of(file):
            other, type_ = first.setdefault(field.name.lower(), (file, field.type))
            if type_ != field.type:
                raise errors.SourceUnreadable(
                    f"the column {field.name} is {type_} in {other}, and {field.type} in {file}; write them "
                    "with one type, or ingest the files one after the other",
                    {"column": field.name, "files": [str(other), str(file)]},
                )


def _is_nanoseconds(type_: pa.DataType) -> bool:
    return isinstance(type_, pa.TimestampType) and bool(type_.unit == "ns")


def _holds_nanoseconds(type_: pa.DataType) -> bool:
    if _is_nanoseconds(type_):
        return True
    return any(_holds_nanoseconds(type_.field(number).type) for number in range(type_.num_fields))


def _int96_columns(file: Path) -> list[str]:
    parquet = pq.ParquetFile(file).schema
    leaves = [parquet.column(number) for number in range(len(parquet))]
    return [leaf.name for leaf in leaves if leaf.physical_type == _INT96 and leaf.path == leaf.name]


def _values(file: Path, name: str, int96_unit: str = "us") -> Iterator[pa.Array]:
    for batch in pq.ParquetFile(file, coerce_int96_timestamp_unit=int96_unit).iter_batches(columns=[name]):
        yield batch.column(0)


def _whole_micros(file: Path, name: str) -> Iterator[pa.Array]:
    """For each value of a column of nanoseconds whether it is a whole number of microseconds."""
    for values in _values(file, name):
        nanos = values.cast(pa.int64())
        yield pc.equal(pc.multiply(pc.divide(nanos, _NANOS_PER_MICRO), _NANOS_PER_MICRO), nanos)


def _whole_micros_of_int96(file: Path, name: str) -> Iterator[pa.Array]:
    for in_nanos, in_micros in zip(_values(file, name, "ns"), _values(file, name), strict=True):
        # Far from 1970 the nanoseconds overflow, and so does the product, by the same multiples of 2**64.
        nanos, micros = in_nanos.cast(pa.int64()), in_micros.cast(pa.int64())
        yield pc.equal(pc.multiply(micros, _NANOS_PER_MICRO), nanos)


def _refuse_cut(file: Path, name: str, is_whole: Iterator[pa.Array], stop: Callable[[], None]) -> None:
    rows = 0
    for batch in is_whole:
        stop()
        if (index := pc.index(batch, False).as_py()) >= 0:
            row = rows + index + 1
            raise errors.SourceUnreadable(
                f"{file}, row {row}, column {name}: the time is not a whole number of microseconds, and tables "
                "store no nanoseconds; round the column first",
                {"file": str(file), "row": row, "column": name},
            )
        rows += len(batch)


def _refuse_operations(file: Path, name: str, stop: Callable[[], None]) -> None:
    rows = 0
    for values in _values(file, name):
        stop()
        if (index := operations.first_unknown(values)) is not None:
            raise operations.refused(f"{file}, row {rows + index + 1}", name, str(values[index].as_py()))
        rows += len(values)
