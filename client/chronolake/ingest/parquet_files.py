"""Checks of Parquet files: values that no table holds as they are, and types that tables do not have."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from chronolake import _utf8
from chronolake.ingest import operations
from chronolake.slices import errors
from chronolake_model.schemas import DECIMAL_PRECISION_MAX

_NANOS_PER_MICRO: Final = 1000
_MILLIS_MAX: Final = (2**63 - 1) // 1000
_CUT: Final = (
    "the time is not a whole number of microseconds, and tables store no nanoseconds; round the column first"
)
_FAR: Final = "the time is not within 64 bits of microseconds since 1970 (290,000 years); correct it"
_INT96: Final = "INT96"
_NO_TYPES: Final[Mapping[Callable[[pa.DataType], bool], str]] = {
    pa.types.is_duration: "write a number, as in df['seconds'] = df['t'].dt.total_seconds()",
    pa.types.is_time: "write a string, as df['t'] = df['t'].astype(str), or a timestamp with the date",
    pa.types.is_float16: "write float32, which holds all of its values",
}
"""Types that no table has, and how to write their values."""
_EXTENSIONS: Final = {
    "arrow.uuid": "write a string, as df['u'] = df['u'].astype(str)",
    "arrow.bool8": "write booleans",
}
"""Other types of Arrow's that no table has, by their names."""


def schema_of(file: Path) -> pa.Schema:
    """The schema of a file. Raises ``SourceUnreadable`` if it is not a Parquet file."""
    try:
        # INT96, Spark's own form of times, it reads itself.
        return pq.ParquetFile(file, coerce_int96_timestamp_unit="us").schema_arrow
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as exc:
        raise errors.SourceUnreadable(f"{file} is called Parquet, but cannot be read as such: {exc}") from exc


def check(
    files: Sequence[Path],
    op_column: str | None,
    stop: Callable[[], None] = lambda: None,
    bad: Callable[[errors.LocalError], None] | None = None,
) -> None:
    """Check for values that no type of a table holds. ``stop`` may raise to end the check.

    Bad rows go to ``bad``, and are raised without it: ``SourceUnreadable`` for times that are no whole
    microseconds or too far from 1970, ``SchemaMismatch`` for a value of ``op_column`` that names no operation.
    Raises ``SourceUnreadable`` as ``refuse_types`` does, and for nanoseconds within other types.
    """
    for file in files:
        schema = schema_of(file)
        refuse_types(file, schema)
        for field in schema:
            if not _is_nanoseconds(field.type) and _holds_nanoseconds(field.type):
                raise errors.SourceUnreadable(
                    f"{file}, column {field.name}: {field.type} has nanoseconds inside a nested column, which "
                    "cannot be read; write microseconds",
                    {"file": str(file), "column": field.name},
                )
        for name, path in _int96_leaves(file):
            if name != path:
                raise errors.SourceUnreadable(
                    f"{file}, column {path}: INT96 has nanoseconds inside a nested column, which cannot be "
                    "read; write microseconds",
                    {"file": str(file), "column": path},
                )
        for error in _bad_rows(file, schema, op_column, stop):
            if bad is None:
                raise error
            bad(error)


def _bad_rows(
    file: Path, schema: pa.Schema, op_column: str | None, stop: Callable[[], None]
) -> Iterator[errors.LocalError]:
    for name in (field.name for field in schema if _is_nanoseconds(field.type)):
        yield from _unfit_times(file, name, _whole_micros(file, name), _CUT, stop)
    for name in int96_columns(file):
        yield from _unfit_times(file, name, _whole_micros_of_int96(file, name), _CUT, stop)
    for name in (field.name for field in schema if _is_milliseconds(field.type)):
        yield from _unfit_times(file, name, _near_millis(file, name), _FAR, stop)
    for name in (name for name in schema.names if op_column and name.lower() == op_column.lower()):
        yield from _unknown_operations(file, name, stop)


def refuse_types(file: Path, schema: pa.Schema) -> None:
    """Raise ``SourceUnreadable`` for the first column without a name, or of a type that no table has.

    Read as another type they would have another meaning: a duration is no number.
    """
    for names, type_ in _leaves((), schema):
        path = ".".join(names)
        if "" in names:
            where = f"of column {path!r}" if names[0] else f"of column {schema.names.index('') + 1}"
            raise errors.SourceUnreadable(
                f"{file}: a name {where} is empty; name it in the files", {"file": str(file), "column": path}
            )
        if (advice := _advice_for(type_)) is not None:
            raise errors.SourceUnreadable(
                f"{file}, column {path}: tables have no type for {type_}; {advice}",
                {"file": str(file), "column": path, "type": str(type_)},
            )


def untyped_columns(files: Sequence[Path]) -> list[str]:
    """The columns that have no type, and only nulls, in all files that have them."""
    types: dict[str, bool] = {}
    for file in files:
        for field in schema_of(file):
            types[field.name] = types.get(field.name, True) and pa.types.is_null(field.type)
    return [name for name, is_null in types.items() if is_null]


def values_of_rows(file: Path, numbers: Sequence[int]) -> list[dict[str, object]]:
    """The values of rows as JSON has them, by column. ``numbers`` count rows from 0, and ascend.

    Times and dates are texts; so are numbers that are not finite. Bytes that are not UTF-8 are escaped.
    """
    values: list[dict[str, object]] = []
    first = 0
    for batch in pq.ParquetFile(file).iter_batches():
        own = [number - first for number in numbers if first <= number < first + len(batch)]
        values += [{name: _json_value(batch[name][index]) for name in batch.schema.names} for index in own]
        first += len(batch)
    return values


def refuse_different_types(files: Sequence[Path]) -> None:
    """Raise ``SourceUnreadable`` for the first column that has different types in two files."""
    first: dict[str, tuple[Path, str]] = {}
    for file in files:
        int96 = int96_columns(file)
        for field in schema_of(file):
            # Arrow gives such a time as one without a zone, but it is in UTC.
            own = f"{field.type} of INT96" if field.name in int96 else str(field.type)
            other, type_ = first.setdefault(field.name.lower(), (file, own))
            if type_ != own:
                raise errors.SourceUnreadable(
                    f"the column {field.name} is {type_} in {other}, and {own} in {file}; write them "
                    "with one type, or ingest the files one after the other",
                    {"column": field.name, "files": [str(other), str(file)]},
                )


def _json_value(value: pa.Scalar) -> object:
    if isinstance(value, pa.DictionaryScalar | pa.ExtensionScalar):
        return _json_value(value.value)
    if not value.is_valid:
        return None
    return _json_nested(value) if pa.types.is_nested(value.type) else _json_leaf(value)


def _json_nested(value: pa.Scalar) -> object:
    if pa.types.is_struct(value.type):
        return {field.name: _json_value(value[field.name]) for field in value.type}
    if pa.types.is_map(value.type):
        return {str(_json_value(entry[0])): _json_value(entry[1]) for entry in value.values}
    return [_json_value(item) for item in value.values]


def _json_leaf(value: pa.Scalar) -> object:
    if _utf8.is_text(value.type):
        return value.as_buffer().to_pybytes().decode(errors="backslashreplace")
    if pa.types.is_temporal(value.type):
        # As texts of Arrow: Python's times have no nanoseconds and no year 10000.
        return _time_text(value)
    number = value.as_py()
    return number if not isinstance(number, float) or math.isfinite(number) else str(number)


def _time_text(value: pa.Scalar) -> str:
    """A time or date as text, in UTC if its type has a zone."""
    if not pa.types.is_timestamp(value.type) or value.type.tz is None:
        return str(value.cast(pa.string()))
    return f"{value.cast(pa.timestamp(value.type.unit)).cast(pa.string())}Z"


def _leaves(
    names: tuple[str, ...], fields: Iterable[pa.Field]
) -> Iterator[tuple[tuple[str, ...], pa.DataType]]:
    """The columns and fields that hold values, by the names that lead to them."""
    for field in fields:
        type_ = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        if not type_.num_fields:
            yield (*names, field.name), type_
        inner = [type_.field(number) for number in range(type_.num_fields)]
        yield from _leaves((*names, field.name), inner)


def _advice_for(type_: pa.DataType) -> str | None:
    """How to write values of a type that no table has; None for other types."""
    if pa.types.is_decimal(type_) and type_.precision > DECIMAL_PRECISION_MAX:
        return f"write a decimal of {DECIMAL_PRECISION_MAX} digits at most, or a string"
    if isinstance(type_, pa.BaseExtensionType):
        return _EXTENSIONS.get(type_.extension_name)
    return next((advice for is_type, advice in _NO_TYPES.items() if is_type(type_)), None)


def _is_milliseconds(type_: pa.DataType) -> bool:
    return isinstance(type_, pa.TimestampType) and bool(type_.unit == "ms")


def _is_nanoseconds(type_: pa.DataType) -> bool:
    return isinstance(type_, pa.TimestampType) and bool(type_.unit == "ns")


def _holds_nanoseconds(type_: pa.DataType) -> bool:
    if _is_nanoseconds(type_):
        return True
    return any(_holds_nanoseconds(type_.field(number).type) for number in range(type_.num_fields))


def int96_columns(file: Path) -> list[str]:
    """The columns of Spark's own form of times."""
    return [name for name, path in _int96_leaves(file) if name == path]


def _int96_leaves(file: Path) -> list[tuple[str, str]]:
    """The name and the path of each."""
    parquet = pq.ParquetFile(file).schema
    leaves = [parquet.column(number) for number in range(len(parquet))]
    return [(leaf.name, leaf.path) for leaf in leaves if leaf.physical_type == _INT96]


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


def _near_millis(file: Path, name: str) -> Iterator[pa.Array]:
    """For each value of a column of milliseconds whether its microseconds are a number of 64 bits."""
    for values in _values(file, name):
        millis = values.cast(pa.int64())
        yield pc.and_(pc.greater_equal(millis, -_MILLIS_MAX), pc.less_equal(millis, _MILLIS_MAX))


def _unfit_times(
    file: Path, name: str, fits: Iterator[pa.Array], problem: str, stop: Callable[[], None]
) -> Iterator[errors.SourceUnreadable]:
    rows = 0
    for batch in fits:
        stop()
        for index in np.flatnonzero(pc.invert(pc.fill_null(batch, True))):
            row = rows + int(index) + 1
            yield errors.SourceUnreadable(
                f"{file}, row {row}, column {name}: {problem}",
                {"file": str(file), "row": row, "column": name},
            )
        rows += len(batch)


def _unknown_operations(file: Path, name: str, stop: Callable[[], None]) -> Iterator[errors.SchemaMismatch]:
    rows = 0
    for values in _values(file, name):
        stop()
        for index in operations.unknown(values):
            row = rows + index + 1
            place = {"file": str(file), "row": row}
            yield operations.refused(f"{file}, row {row}", name, str(values[index].as_py()), place)
        rows += len(values)
