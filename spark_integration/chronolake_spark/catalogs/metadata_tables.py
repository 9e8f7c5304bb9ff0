"""The metadata of a table as tables of SQL: ``lake.shop.orders.timeline``, ``.files`` and others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

import msgspec

import chronolake
from chronolake.slices import stored_slices
from chronolake_model.times import from_datetime, parse_time
from chronolake_spark import errors
from chronolake_spark.catalogs import definitions
from chronolake_spark.catalogs.context import CatalogContext

Row = list[str | int | bool | None]
_Rows = Callable[[chronolake.Table, str | None], Iterator[Row]]


class LoadMetadata(msgspec.Struct, frozen=True):
    """A request for the metadata ``kind`` of a table, as of a version or a time, or now."""

    table: str
    kind: str
    version: str | None = None
    micros: int | None = None


class MetadataOfSpark(msgspec.Struct, frozen=True):
    """A table of metadata as Spark sees it. ``schema`` is SQL."""

    schema: str
    as_of: str | None


class ReadMetadata(msgspec.Struct, frozen=True):
    """A request for the rows of a table of metadata."""

    table: str
    kind: str
    as_of: str | None = None


class _Kind(NamedTuple):
    schema: str
    rows: _Rows
    has_past: bool


def load(context: CatalogContext, request: LoadMetadata) -> MetadataOfSpark:
    """The columns of a table of metadata. Raises ``InvalidOption`` for one that does not exist."""
    kind = _KINDS.get(request.kind)
    if kind is None:
        raise errors.InvalidOption(
            f"{request.table}.{request.kind} is no table: a name is namespace.table, and the metadata of a "
            f"table is {', '.join(_KINDS)}"
        )
    table = context.table(request.table)
    as_of = definitions.state(table, request.version, request.micros)
    if as_of is not None and not kind.has_past:
        raise errors.InvalidOption(f"{request.kind} has all times in its rows: leave out AS OF, and use WHERE")
    return MetadataOfSpark(kind.schema, as_of)


def rows(context: CatalogContext, request: ReadMetadata) -> list[Row]:
    """The rows. Raises ``HistoryCleaned``."""
    return list(_KINDS[request.kind].rows(context.table(request.table), request.as_of))


def _timeline(table: chronolake.Table, _: str | None) -> Iterator[Row]:
    for instant in table.instants():
        done = instant.summary
        yield [
            instant.requested_time,
            instant.completion_time,
            None if instant.completion_time is None else parse_time(instant.completion_time),
            str(instant.action),
            str(instant.operation),
            str(instant.state),
            instant.writer,
            *([None] * 4 if done is None else [done.files, done.inserts, done.updates, done.deletes]),
            instant.rollback_reason,
        ]


def _slices(table: chronolake.Table, as_of: str | None) -> Iterator[Row]:
    for slice_ in table.snapshot(as_of).slices:
        base = slice_.base_file
        yield [
            slice_.partition_path,
            slice_.file_id,
            slice_.base_instant_time,
            None if base is None else base.path,
            None if base is None else base.records,
            None if base is None else base.size_bytes,
            len(slice_.log_files),
            sum(file.size_bytes for file in slice_.log_files),
        ]


def _files(table: chronolake.Table, as_of: str | None) -> Iterator[Row]:
    for slice_ in table.snapshot(as_of).slices:
        for file in stored_slices.files_of(slice_):
            yield [
                slice_.partition_path,
                slice_.file_id,
                "base" if file is slice_.base_file else "log",
                file.path,
                file.size_bytes,
                file.records,
                file.requested_time,
                file.completion_time,
                file.schema_version,
            ]


def _partitions(table: chronolake.Table, as_of: str | None) -> Iterator[Row]:
    for partition in table.partitions(as_of).partitions:
        yield [
            partition.partition_path,
            partition.file_groups,
            partition.files,
            partition.size_bytes,
            partition.records,
        ]


def _schemas(table: chronolake.Table, _: str | None) -> Iterator[Row]:
    for schema in table.schemas():
        for field in schema.fields:
            yield [
                schema.schema_version,
                from_datetime(schema.created_at),
                field.field_id,
                field.name,
                field.type,
                field.nullable,
            ]


_KINDS: Final[Mapping[str, _Kind]] = {
    "timeline": _Kind(
        "requested_time string, completion_time string, completed_at timestamp, action string, "
        "operation string, state string, writer string, files bigint, inserts bigint, updates bigint, "
        "deletes bigint, rollback_reason string",
        _timeline,
        has_past=False,
    ),
    "slices": _Kind(
        "partition_path string, file_id string, base_instant_time string, base_file string, "
        "base_records bigint, base_bytes bigint, log_files bigint, log_bytes bigint",
        _slices,
        has_past=True,
    ),
    "files": _Kind(
        "partition_path string, file_id string, kind string, path string, size_bytes bigint, records bigint, "
        "requested_time string, completion_time string, schema_version bigint",
        _files,
        has_past=True,
    ),
    "partitions": _Kind(
        "partition_path string, file_groups bigint, files bigint, size_bytes bigint, base_records bigint",
        _partitions,
        has_past=True,
    ),
    "schemas": _Kind(
        "schema_version bigint, created_at timestamp, field_id bigint, name string, type string, "
        "nullable boolean",
        _schemas,
        has_past=False,
    ),
}
"""By the last part of the name: the columns, the rows, and whether there are rows as of a time."""
