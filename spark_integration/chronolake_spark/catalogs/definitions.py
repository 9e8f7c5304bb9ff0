"""Namespaces and tables, as Spark's catalog shows and changes them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec
from pyspark.sql.types import StructField, StructType

import chronolake
from chronolake_model.adoption import ADOPTED_PROPERTY
from chronolake_model.tables import Table
from chronolake_model.times import digits_of
from chronolake_model.vocabulary import IndexType
from chronolake_spark.catalogs.context import CatalogContext
from chronolake_spark.driver import schema

_OWNER: Final = "owner"
"""A property that Spark adds to namespaces."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Nothing(msgspec.Struct, frozen=True):
    """A request without a body."""


class OfNamespace(msgspec.Struct, frozen=True):
    """A request about a namespace."""

    namespace: str


class OfTable(msgspec.Struct, frozen=True):
    """A request about a table."""

    table: str


class NewNamespace(msgspec.Struct, frozen=True):
    """A request for a new namespace."""

    namespace: str
    properties: dict[str, str]


class DropNamespace(msgspec.Struct, frozen=True):
    """A request to drop a namespace; with ``cascade`` its tables too."""

    namespace: str
    cascade: bool = False


class LoadTable(msgspec.Struct, frozen=True):
    """A request for a table, as of a version or a time in microseconds since 1970, or now."""

    table: str
    version: str | None = None
    micros: int | None = None


class TableOfSpark(msgspec.Struct, frozen=True):
    """A table as Spark sees it. ``schema`` is JSON of Spark."""

    name: str
    table_id: str
    schema: str
    schema_version: int
    partitions: list[str]
    record_key: list[str]
    properties: dict[str, str]
    as_of: str | None


def namespaces(context: CatalogContext, _: Nothing) -> list[str]:
    """The names of all namespaces."""
    return [namespace.name for namespace in context.client.namespaces()]


def namespace(context: CatalogContext, request: OfNamespace) -> dict[str, str]:
    """The properties of a namespace."""
    return dict(context.client.namespace(request.namespace).properties)


def create_namespace(context: CatalogContext, request: NewNamespace) -> None:
    """Make a namespace. Raises ``NamespaceExists``."""
    properties = {name: text for name, text in request.properties.items() if name != _OWNER}
    context.client.create_namespace(request.namespace, properties)


def drop_namespace(context: CatalogContext, request: DropNamespace) -> None:
    """Drop a namespace. Files of its tables stay. Raises ``NamespaceNotEmpty`` without ``cascade``."""
    if request.cascade:
        # Not in one transaction: if one table cannot be dropped, the namespace stays with it.
        for table in context.client.tables(request.namespace):
            context.client.drop_table(table.name)
    context.client.drop_namespace(request.namespace)


def tables(context: CatalogContext, request: OfNamespace) -> list[str]:
    """The names of the tables of a namespace, without its name."""
    context.client.namespace(request.namespace)
    return [table.name.partition(".")[2] for table in context.client.tables(request.namespace)]


def load(context: CatalogContext, request: LoadTable) -> TableOfSpark:
    """A table."""
    table = context.table(request.table)
    return loaded(table.definition, as_of=state(table, request.version, request.micros))


def loaded(table: Table, as_of: str | None = None) -> TableOfSpark:
    """A definition as Spark sees it."""
    columns = schema.struct_of(table.schema)
    struct = StructType(
        [
            StructField(column.name, column.dataType, field.nullable)
            for column, field in zip(columns, table.schema, strict=True)
        ]
    )
    return TableOfSpark(
        table.name,
        table.table_id,
        struct.json(),
        table.schema_version,
        list(table.partition_fields),
        list(table.record_key_fields),
        _properties(table),
        as_of,
    )


def _properties(table: Table) -> dict[str, str]:
    """The properties that DESCRIBE shows: those of the table, and what it was made with."""
    made: dict[str, Any] = {
        "provider": "chronolake",
        "location": table.base_path,
        "type": str(table.type),
        "index": str(table.index.type),
        "buckets": table.index.buckets if table.index.type is IndexType.BUCKET else None,
        "record_key": ",".join(table.record_key_fields),
        "ordering_field": ",".join(table.ordering_fields),
    }
    own = {name: text for name, text in table.properties.items() if name != ADOPTED_PROPERTY}
    return {**own, **{name: str(value) for name, value in made.items() if value}}


def state(table: chronolake.Table, version: str | None, micros: int | None) -> str | None:
    """The completion time of the state that a statement names, by an instant too; None for the newest.

    The words ``earliest`` and ``latest`` stay as they are.
    """
    if micros is not None:
        return digits_of(_EPOCH + timedelta(microseconds=micros))
    if version is None:
        return None
    digits = digits_of(version)
    if not digits.isdecimal():
        return digits
    [completed] = table.completion_times([digits])
    return completed or digits
