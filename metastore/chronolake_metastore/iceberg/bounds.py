"""Statistics of columns as manifests have them (Iceberg's spec, "Binary single-value serialization")."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from decimal import Decimal
from typing import Final

import msgspec

from chronolake_metastore.domain import literals
from chronolake_metastore.domain.literals import LiteralKind
from chronolake_metastore.iceberg.partitions import PartitionValue, stored, unscaled
from chronolake_model import decoding
from chronolake_model.filters import Literal

_FORMATS: Final = {
    "int": "<i",
    "long": "<q",
    "float": "<f",
    "double": "<d",
    "date": "<i",
    "timestamp": "<q",
    "timestamptz": "<q",
}
_LONG: Final = struct.Struct(_FORMATS["long"])
_KINDS: Final = {
    "boolean": LiteralKind.BOOLEAN,
    "int": LiteralKind.INTEGER,
    "long": LiteralKind.INTEGER,
    "float": LiteralKind.FLOAT,
    "double": LiteralKind.FLOAT,
    "string": LiteralKind.STRING,
    "date": LiteralKind.DATE,
    "timestamp": LiteralKind.TIMESTAMP_NTZ,
    "timestamptz": LiteralKind.TIMESTAMP,
}


class StoredStats(msgspec.Struct, frozen=True, array_like=True):
    """The stats of a column as the projection of files has them; a field that is left out is unknown."""

    min: Literal | None = None
    max: Literal | None = None
    nulls: int | None = None


class Statistics(msgspec.Struct, frozen=True):
    """Statistics of the columns of a file, by field id."""

    values: dict[int, int]
    nulls: dict[int, int]
    lower: dict[int, bytes]
    upper: dict[int, bytes]


def statistics(column_stats: bytes | str | None, types: Mapping[int, str], records: int) -> Statistics:
    """The statistics of a file's columns; those of columns that are not in ``types`` are left out."""
    found = Statistics({}, {}, {}, {})
    if not column_stats:
        return found
    for field_id, stats in decoding.decode(column_stats, dict[int, StoredStats]).items():
        type_ = types.get(field_id)
        if type_ is None:
            continue
        if stats.nulls is not None:
            found.values[field_id] = records
            found.nulls[field_id] = stats.nulls
        if (lower := bound(type_, stats.min, zero=-0.0)) is not None:
            found.lower[field_id] = lower
        if (upper := bound(type_, stats.max, zero=0.0)) is not None:
            found.upper[field_id] = upper
    return found


def bound(type_: str, literal: Literal | None, *, zero: float) -> bytes | None:
    """A bound that was reported as a literal; None if it is unknown, or not one of this type.

    ``zero`` is the bound of floating-point numbers that are zero: for Iceberg, -0.0 is before 0.0.
    """
    if literal is None:
        return None
    try:
        # The most frequent ones: this is most of the cost of a first load.
        if type_ == "long" and type(literal) is int:
            return _LONG.pack(literal)
        if type_ == "string" and type(literal) is str:
            return literal.encode()
        value = literals.parse(_KINDS.get(type_, LiteralKind.DECIMAL), literal)
        # Iceberg's bounds leave NaN out, which Spark puts after all other numbers.
        if isinstance(value, float) and math.isnan(value):
            return None
        if isinstance(value, float) and value == 0.0:
            value = zero
        return encoded(type_, stored(type_, value))
    except (ValueError, ArithmeticError, struct.error):
        return None


def encoded(type_: str, value: PartitionValue) -> bytes:
    """A value that is not null, as bytes."""
    match value:
        case str():
            return value.encode()
        case bool():
            return b"\x01" if value else b"\x00"
        case Decimal():
            whole = unscaled(type_, value)
            return whole.to_bytes((whole.bit_length() + 8) // 8, "big", signed=True)
        case _:
            packed = struct.pack(_FORMATS[type_], value)
            if type_ == "float" and struct.unpack("<f", packed)[0] != value:
                raise ValueError(f"{value} would be rounded")
            return packed
