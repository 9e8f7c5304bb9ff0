"""Partition specs, and the values of partition fields in the partition paths of data files.

Spec 0 has the identity of each partition field. Readers take the values of its columns from the metadata and
not from the file, so a file whose path does not show the value for certain is of the spec without fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Context, Decimal, Inexact
from typing import Any, Final, TypeAlias

import msgspec

from chronolake_metastore.domain import partition_values
from chronolake_metastore.domain.literals import LiteralKind, Value, kind_of
from chronolake_metastore.domain.tables import Definition
from chronolake_metastore.iceberg import schemas
from chronolake_model.partition_paths import Spelling, are_kept

PartitionValue: TypeAlias = bool | int | float | str | Decimal | None
"""A value as Avro has it: dates are days, timestamps microseconds since 1970."""

FIRST_FIELD_ID: Final = 1_000
UNPARTITIONED: Final = 1
"""The spec without fields, of a table that has partition fields."""
_IN_PATHS: Final = frozenset(
    {
        LiteralKind.BOOLEAN,
        LiteralKind.INTEGER,
        LiteralKind.DECIMAL,
        LiteralKind.STRING,
        LiteralKind.DATE,
        LiteralKind.TIMESTAMP,
        LiteralKind.TIMESTAMP_NTZ,
    }
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EXACT: Final = Context(prec=100, traps=[Inexact])
"""The default context of decimals would round values of more than 28 digits."""
_RANGES: Final = {"int": 2**31, "long": 2**63}


class PartitionField(msgspec.Struct, frozen=True):
    """A partition field: ``name`` in paths, and the type of its column by Iceberg's name."""

    name: str
    source_id: int
    kind: LiteralKind
    type: str


class Spec(msgspec.Struct, frozen=True):
    """Spec 0 of a table. It has no fields if paths do not show their values."""

    fields: tuple[PartitionField, ...]
    spelling: Spelling

    def documents(self) -> list[dict[str, Any]]:
        """All specs of the table."""
        documents = [{"spec-id": 0, "fields": field_documents(self.fields)}]
        return [*documents, {"spec-id": UNPARTITIONED, "fields": []}] if self.fields else documents

    def values(self, partition_path: str) -> tuple[PartitionValue, ...] | None:
        """The values in a path; None if it does not show all of them for certain."""
        folders = partition_path.split("/") if partition_path else []
        if len(folders) != len(self.fields):
            return None
        values: list[PartitionValue] = []
        for field, folder in zip(self.fields, folders, strict=True):
            found = partition_values.candidates(folder, field.name, field.kind, self.spelling)
            if found is None or len(found) != 1:
                return None
            try:
                values.append(None if found[0] is None else stored(field.type, found[0]))
            except ValueError:
                return None
        return tuple(values)


def spec_of(definition: Definition) -> Spec:
    """Spec 0 of a table."""
    spelling = Spelling.of(definition.properties)
    by_name = {field.name: field for field in definition.schema}
    kinds = [kind_of(by_name[name].type) for name in definition.partition_fields if name in by_name]
    shown = len(kinds) == len(definition.partition_fields) and set(kinds) <= _IN_PATHS
    if not shown or are_kept(definition.properties):
        return Spec((), spelling)
    types = schemas.primitives(definition.schema)
    fields = tuple(
        PartitionField(name, by_name[name].field_id, kind, types[by_name[name].field_id])
        for name, kind in zip(definition.partition_fields, kinds, strict=True)
    )
    return Spec(fields, spelling)


def field_documents(fields: tuple[PartitionField, ...]) -> list[dict[str, Any]]:
    """The fields of a spec."""
    return [
        {
            "source-id": field.source_id,
            "field-id": FIRST_FIELD_ID + number,
            "name": field.name,
            "transform": "identity",
        }
        for number, field in enumerate(fields)
    ]


def stored(type_: str, value: Value) -> bool | int | float | str | Decimal:
    """A value of a column as Iceberg stores it; raises ``ValueError`` if its type cannot have it."""
    match value:
        case datetime():
            aware = value if value.tzinfo else value.replace(tzinfo=UTC)
            since = aware - _EPOCH
            return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
        case date():
            return value.toordinal() - _EPOCH.toordinal()
        case bool() | str() | float():
            return value
        case int() if type_ in _RANGES:
            if not -_RANGES[type_] <= value < _RANGES[type_]:
                raise ValueError(f"{value} is out of the range of {type_}")
            return value
        case Decimal() if type_.startswith("decimal"):
            precision, scale = decimal_of(type_)
            whole = _EXACT.scaleb(value, scale)
            if abs(whole) >= 10**precision or whole % 1:
                raise ValueError(f"{value} has more digits than {type_}")
            # Avro takes no value with more decimal places than the type, even if they are zeros.
            return _EXACT.scaleb(Decimal(int(whole)), -scale)
        case _:
            raise ValueError(f"{value!r} is no {type_}")


def unscaled(type_: str, value: Decimal) -> int:
    """A decimal as a whole number of its last digits."""
    return int(_EXACT.scaleb(value, decimal_of(type_)[1]))


def decimal_of(type_: str) -> tuple[int, int]:
    """Precision and scale of a decimal type, by Iceberg's name."""
    precision, _, scale = type_.removeprefix("decimal(").removesuffix(")").partition(", ")
    return int(precision), int(scale)


_AVRO: Final[Mapping[str, Any]] = {
    "boolean": "boolean",
    "int": "int",
    "long": "long",
    "string": "string",
    "date": {"type": "int", "logicalType": "date"},
    "timestamp": {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": False},
    "timestamptz": {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": True},
}


def avro_fields(fields: tuple[PartitionField, ...]) -> list[dict[str, Any]]:
    """The fields of the partition record in a manifest."""
    return [
        {
            "name": f"p{FIRST_FIELD_ID + number}",
            "type": ["null", _avro_type(field.type, f"decimal_{FIRST_FIELD_ID + number}")],
            "default": None,
            "field-id": FIRST_FIELD_ID + number,
        }
        for number, field in enumerate(fields)
    ]


def _avro_type(type_: str, name: str) -> Any:
    """A type in Avro. ``name`` is that of a decimal, for two fields cannot define one name."""
    if not type_.startswith("decimal"):
        return _AVRO[type_]
    precision, scale = decimal_of(type_)
    size = next(size for size in range(1, 17) if 10**precision <= 2 ** (8 * size - 1))
    return {
        "type": "fixed",
        "name": name,
        "size": size,
        "logicalType": "decimal",
        "precision": precision,
        "scale": scale,
    }
