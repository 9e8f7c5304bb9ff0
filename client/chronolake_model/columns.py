"""Columns of tables, their field ids, and the bucket index."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from chronolake_model.vocabulary import IndexType

COLUMNS_MAX = 10_000
"""Columns of a table, their nested fields included."""
NAME_CHARACTERS_MAX = 255
ColumnName = Annotated[str, Meta(min_length=1, max_length=NAME_CHARACTERS_MAX)]
TYPE_CHARACTERS_MAX = 65_536
ColumnType = Annotated[str, Meta(min_length=1, max_length=TYPE_CHARACTERS_MAX)]
PROPERTIES_MAX = 1_000
PROPERTIES_BYTES_MAX = 256 * 1024
"""Bytes, as JSON, of the properties of one object, of the metadata of one instant, or of a plan's details."""
SCHEMA_BYTES_MAX = 1024 * 1024
"""Bytes, as JSON, of the columns of a table."""


def refuse_larger(name: str, document: object, bytes_max: int) -> None:
    """Raise ``ValueError`` when a document is longer than this number of bytes as JSON."""
    size_bytes = len(msgspec.json.encode(document))
    if size_bytes > bytes_max:
        raise ValueError(f"{name} has {size_bytes:,} bytes as JSON, and may have {bytes_max:,}")


class Field(msgspec.Struct, frozen=True):
    """One column of a table.

    ``type`` is written as Spark does: ``boolean``, ``tinyint``, ``smallint``, ``int``, ``bigint``,
    ``float``, ``double``, ``decimal(p,s)``, ``string``, ``binary``, ``date``, ``timestamp`` (UTC),
    ``timestamp_ntz``, ``array<…>``, ``map<…,…>``, ``struct<name:…>``.
    """

    name: ColumnName
    type: ColumnType
    nullable: bool = True


FieldId = Annotated[
    int, Meta(ge=1, description="Identifies the column or nested field, also after a rename. Never reused.")
]


class NestedField(msgspec.Struct, frozen=True):
    """A field within a column.

    It is a field of a struct, the ``element`` of an array, or the ``key`` or ``value`` of a map. Its type is
    part of the column's type. ``nested`` are the fields within it.
    """

    name: str
    field_id: FieldId
    nested: list[NestedField] = []


class SchemaField(Field, frozen=True, kw_only=True):
    """A column of a table as the metastore keeps it.

    ``nested`` are the fields within it, in the order of the type, each with the fields within it.
    """

    field_id: FieldId
    nested: list[NestedField] = []


BUCKETS_MAX = 100_000
"""The largest number of buckets of a table."""
Buckets = Annotated[int, Meta(ge=1, le=BUCKETS_MAX)]


class BucketIndex(msgspec.Struct, frozen=True):
    """How record keys find their file groups.

    Bucket: simple hash buckets, bucket = pmod(xxhash64(record key fields), buckets), Spark's xxhash64, seed 42.
    Other types ignore ``buckets``.
    """

    type: IndexType = IndexType.BUCKET
    buckets: Buckets = 4
