"""Records by key without a scan: the driver finds the file groups that may have them, and reads these.

With the bucket index the key gives the bucket, and the record index has the file group of each key. The server
prunes by partition and by the key ranges of files. Of the files left, only row groups whose key range has a key
are read, and merged with the log files.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import UNSET
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

import chronolake
from chronolake import _key_values
from chronolake.indexes.record.record_index import RecordIndex
from chronolake.slices import arrow_types, column_stats, columns, slice_reader, stored_slices
from chronolake.slices.base_files import TableFolder
from chronolake.slices.slice_reader import SliceReader
from chronolake.writing import arrow_tags
from chronolake_model import partition_paths
from chronolake_model.cuts import AsOf
from chronolake_model.file_names import bucket_of
from chronolake_model.files import FileSlice, Snapshot
from chronolake_model.filters import PARTS_MAX, TEXT_CHARACTERS_MAX, And, Filter, In
from chronolake_model.scans import PARTITIONS_MAX
from chronolake_model.tables import SchemaField, Table
from chronolake_model.vocabulary import IndexType
from chronolake_spark import errors
from chronolake_spark.driver import schema

Key: TypeAlias = Any
"""A value of the record key field; a tuple of values if there are several; or a dict of values by field."""

KEYS_MAX: Final = 10_000
_FILE_ID: Final = "file_id"
_THREADS: Final = 8


@dataclass(frozen=True, slots=True)
class WantedKeys:
    """The keys to find. ``tags`` has record key, bucket and, unless it is unknown, partition path of each.

    ``filter`` matches all records with one of the keys; None if the keys cannot be a filter.
    """

    tags: pa.Table
    filter: Filter | None
    is_bucketed: bool

    @property
    def partition_paths(self) -> list[str] | None:
        """The partition paths to look into; None for all."""
        if columns.PARTITION_PATH not in self.tags.column_names:
            return None
        return sorted(set(self.tags[columns.PARTITION_PATH].to_pylist()))

    def at(self, entries: pa.Table) -> WantedKeys:
        """The keys that entries of a record index have, in their file groups."""
        places = entries.rename_columns([columns.RECORD_KEY, columns.PARTITION_PATH, _FILE_ID])
        if (paths := self.partition_paths) is not None:
            places = places.filter(pc.is_in(places[columns.PARTITION_PATH], pa.array(paths, pa.string())))
        return dataclasses.replace(self, tags=places)

    def in_group(self, partition_path: str, file_id: str) -> pa.Array:
        """The record keys that a file group may have."""
        rows = self.tags
        if columns.PARTITION_PATH in rows.column_names:
            rows = rows.filter(pc.equal(rows[columns.PARTITION_PATH], partition_path))
        if _FILE_ID in rows.column_names:
            rows = rows.filter(pc.equal(rows[_FILE_ID], file_id))
        elif self.is_bucketed:
            rows = rows.filter(pc.equal(rows[columns.BUCKET], bucket_of(file_id)))
        return rows[columns.RECORD_KEY].combine_chunks().cast(pa.string())


def wanted_keys(table: Table, keys: Sequence[Key]) -> WantedKeys:
    """The keys of a lookup in a table, in the buckets of its definition.

    Raises ``TableMismatch`` for a table whose record keys are kept, or has none, ``InvalidRecordKey`` for a key
    without a value, ``SchemaMismatch`` for one that has another form, or
    values of another type, than the record key.
    """
    if isinstance(keys, str | bytes | Mapping) or not isinstance(keys, Sequence):
        raise TypeError(f"keys is a list of keys, not {type(keys).__name__}: lookup([{keys!r}])")
    if len(keys) > KEYS_MAX:
        raise ValueError(
            f"lookup takes {KEYS_MAX:,} keys at most, not {len(keys):,}: join a frame of keys with read()"
        )
    if not table.record_key_fields:
        raise errors.TableMismatch(
            f"{table.name} was adopted from Hudi without record keys that are made of its columns: find "
            "records with read(filter=...)"
        )
    dicts = [_dict(table, key) for key in keys]
    partitions = _partition_fields(table)
    has_partitions = bool(partitions) and all(name in key for key in dicts for name in partitions)
    names = list(dict.fromkeys([*table.record_key_fields, *(partitions if has_partitions else [])]))
    fields = [field for field in table.schema if field.name in names]
    rows = pa.table(
        {
            field.name: _key_values.of(table, field, [_with_zone(key[field.name], field) for key in dicts])
            for field in fields
        }
    )
    tagging = arrow_tags.tagging(table, rows.schema, {name: name for name in rows.column_names}, deletes=True)
    wanted = [columns.RECORD_KEY, columns.BUCKET]
    if has_partitions or not table.partition_fields:
        wanted.append(columns.PARTITION_PATH)
    tags = tagging.tagged(rows).select(wanted).group_by(wanted).aggregate([])
    return WantedKeys(tags, _filter(table, rows), table.index.type is IndexType.BUCKET)


def _with_zone(value: Any, field: SchemaField) -> Any:
    """A time without a zone as a local time, which PySpark gives and takes for a timestamp."""
    is_naive = isinstance(value, datetime.datetime) and value.tzinfo is None
    return value.astimezone() if is_naive and field.type == "timestamp" else value


def _partition_fields(table: Table) -> list[str]:
    """The fields that give the partition of a key; none if the partition paths are kept."""
    return [] if partition_paths.are_kept(table.properties) else table.partition_fields


def _dict(table: Table, key: Key) -> Mapping[str, Any]:
    names = table.record_key_fields
    if isinstance(key, Mapping):
        known = {*names, *_partition_fields(table)}
        if not set(names) <= set(key) <= known:
            raise _misfit(table, key)
        return key
    values = key if isinstance(key, tuple) else (key,)
    if len(values) != len(names):
        raise _misfit(table, key)
    return dict(zip(names, values, strict=True))


def _misfit(table: Table, key: Key) -> errors.SchemaMismatch:
    names = ", ".join(table.record_key_fields)
    form = "a value" if len(table.record_key_fields) == 1 else "a tuple of values"
    partitions = _partition_fields(table)
    partition = f", which may also have {', '.join(partitions)}" if partitions else ""
    return errors.SchemaMismatch(
        f"{key!r} is not a key of {table.name}: a key is {form} of {names}, or a dict of them{partition}"
    )


def _filter(table: Table, rows: pa.Table) -> Filter | None:
    parts: list[Filter] = []
    left = PARTS_MAX // 2
    for name in table.record_key_fields:
        try:
            values = rows[name].unique().to_pylist()
        except (OverflowError, ValueError):  # a date or a time that Python does not have
            continue
        literals = [column_stats.literal(value) for value in values]
        texts_fit = all(len(value) <= TEXT_CHARACTERS_MAX for value in literals if isinstance(value, str))
        if None in values or UNSET in literals or not texts_fit or not 0 < len(values) <= left:
            continue
        left -= len(values)
        parts.append(In(name, [value for value in literals if value is not UNSET]))
    if len(parts) > 1:
        return And(parts)
    return parts[0] if parts else None


def records(
    spark: SparkSession,
    table: chronolake.Table,
    keys: Sequence[Key],
    as_of: AsOf | None,
    *,
    meta_columns: bool,
) -> DataFrame:
    """The records with these keys, which the driver reads. Raises as ``find``."""
    rows, definition = find(table, keys, as_of)
    names = [*(columns.META if meta_columns else ()), *(field.name for field in definition.schema)]
    struct = schema.file_struct_of(definition.schema)
    return spark.createDataFrame(rows.select(names), StructType([struct[name] for name in names]))


def find(table: chronolake.Table, keys: Sequence[Key], as_of: AsOf | None = None) -> tuple[pa.Table, Table]:
    """The records with these keys, with Hudi's columns first, and the definition of their columns.

    A key that the table does not have has no record. Raises as ``wanted_keys``, and ``HistoryCleaned``.
    """
    assumed = table.definition
    wanted = wanted_keys(assumed, keys)
    if len(wanted.tags) and assumed.index.type is IndexType.RECORD and as_of is None:
        wanted, as_of = _indexed(table, wanted)
    files = _candidates(table, wanted, as_of) if len(wanted.tags) else Snapshot(table.name, None, [], None)
    # Fetched after the slices: so it knows every column that they may have, and their number of buckets.
    definition = table.reload().definition
    buckets = definition.buckets_as_of(files.as_of)
    if buckets != assumed.index.buckets:
        wanted = wanted_keys(definition.with_buckets(buckets), keys)
    slices = [slice_ for slice_ in files.slices if len(wanted.in_group(slice_.partition_path, slice_.file_id))]
    reader = _reader(table, definition, slices)

    def read(slice_: FileSlice) -> list[pa.Table]:
        of_group = wanted.in_group(slice_.partition_path, slice_.file_id)
        return list(reader.only(of_group).rows(stored_slices.of(slice_)))

    with ThreadPoolExecutor(_THREADS) as threads:
        parts = [rows for of_slice in threads.map(read, slices) for rows in of_slice]
    # Spark stops at an empty chunk.
    return pa.concat_tables([reader.layout.empty_table(), *parts]).combine_chunks(), definition


def _indexed(table: chronolake.Table, wanted: WantedKeys) -> tuple[WantedKeys, str | None]:
    """The keys that the record index has, with their places, and the completion time that these are as of.

    Without an index, or if the index lacks too many records, the keys remain as they are.
    """
    index = RecordIndex(table)
    found = index.find_now(wanted.tags[columns.RECORD_KEY].combine_chunks().cast(pa.string()))
    return (wanted, None) if found is None else (wanted.at(found.entries), found.as_of)


def _candidates(table: chronolake.Table, wanted: WantedKeys, as_of: AsOf | None) -> Snapshot:
    """The slices that may have the keys, by partition paths and column stats."""
    paths = wanted.partition_paths
    if wanted.filter is not None and (paths is None or len(paths) <= PARTITIONS_MAX):
        return table.scan(wanted.filter, as_of, paths)
    return table.snapshot(as_of, paths[0] if paths and len(paths) == 1 else None)


def _reader(table: chronolake.Table, definition: Table, slices: Sequence[FileSlice]) -> SliceReader:
    versions = stored_slices.schema_versions(slices) - {definition.schema_version}
    fields = {version: table.schema(version).fields for version in versions}
    layout = arrow_types.file_layout(definition.schema)
    return SliceReader(
        TableFolder.of(definition.base_path, table.storage_options),
        layout,
        {**fields, definition.schema_version: definition.schema},
        slice_reader.ordering_of(layout, definition.merge_fields),
    )
