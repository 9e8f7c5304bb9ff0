"""Namespaces and tables, as Spark's catalog shows and changes them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from pyspark.sql.types import StructField, StructType

import chronolake
from chronolake_model.tables import Table
from chronolake_model.times import digits_of
from chronolake_spark.catalogs.context import CatalogContext
from chronolake_spark.driver import schema

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Nothing(msgspec.Struct, frozen=True):
    """A request without a body."""


class OfNamespace(msgspec.Struct, frozen=True):
    """A request about a namespace."""

    namespace: str


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
    properties: dict[str, str]
    as_of: str | None


def namespaces(context: CatalogContext, _: Nothing) -> list[str]:
    """The names of all namespaces."""
    return [namespace.name for namespace in context.client.namespaces()]


def namespace(context: CatalogContext, request: OfNamespace) -> dict[str, str]:
    """The properties of a namespace."""
    return dict(context.client.namespace(request.namespace).properties)


def tables(context: CatalogContext, request: OfNamespace) -> list[str]:
    """The names of the tables of a namespace, without its name."""
    context.client.namespace(request.namespace)
    return [table.name.partition(".")[2] for table in context.client.tables(request.namespace)]


def load(context: CatalogContext, request: LoadTable) -> TableOfSpark:
    """A table."""
    table = context.client.table(request.table)
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
        "buckets": table.index.buckets,
        "record_key": ",".join(table.record_key_fields),
        "ordering_field": ",".join(table.ordering_fields),
    }
    return {**table.properties, **{name: str(value) for name, value in made.items() if value}}


def state(table: chronolake.Table, version: str | None, micros: int | None) -> str | None:
    """The completion time of the state that a statement names, by an instant too; None for the newest."""
    if micros is not None:
        return digits_of(_EPOCH + timedelta(microseconds=micros))
    if version is None:
        return None
    digits = digits_of(version)
    [completed] = table.completion_times([digits])
    return completed or digits
