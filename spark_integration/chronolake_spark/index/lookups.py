"""Records by key without a scan: the driver finds the file groups that may have them, and reads these.

With the bucket index the key gives the bucket, and the record index has the file group of each key. The server
prunes by partition and by the key ranges of files. Of the files left, only row groups whose key range has a key
are read, and merged with the log files.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

import chronolake
from chronolake_model.files import FileSlice, Snapshot
from chronolake_model.scans import PARTITIONS_MAX
from chronolake_model.tables import Table
from chronolake_model.times import Moment
from chronolake_model.vocabulary import IndexType
from chronolake_spark.common import arrow_types, columns
from chronolake_spark.driver import schema
from chronolake_spark.index import lookup_keys
from chronolake_spark.index.lookup_keys import Key, WantedKeys
from chronolake_spark.index.record.record_index import RecordIndex
from chronolake_spark.read.slices import slice_reader, stored_slices
from chronolake_spark.read.slices.base_files import Folder
from chronolake_spark.read.slices.slice_reader import SliceReader

_THREADS: Final = 8


def records(
    spark: SparkSession,
    table: chronolake.Table,
    keys: Sequence[Key],
    as_of: Moment | None,
    *,
    meta_columns: bool,
) -> DataFrame:
    """The records with these keys, which the driver reads. Raises as ``find``."""
    rows, definition = find(table, keys, as_of)
    names = [*(columns.META if meta_columns else ()), *(field.name for field in definition.schema)]
    struct = schema.file_struct_of(definition.schema)
    return spark.createDataFrame(rows.select(names), StructType([struct[name] for name in names]))


def find(table: chronolake.Table, keys: Sequence[Key], as_of: Moment | None = None) -> tuple[pa.Table, Table]:
    """The records with these keys, with Hudi's columns first, and the definition of their columns.

    A key that the table does not have has no record. Raises as ``lookup_keys.of``, and ``HistoryCleaned``.
    """
    assumed = table.definition
    wanted = lookup_keys.of(assumed, keys)
    if len(wanted.tags) and assumed.index.type is IndexType.RECORD and as_of is None:
        wanted, as_of = _indexed(table, wanted)
    files = _candidates(table, wanted, as_of) if len(wanted.tags) else Snapshot(table.name, None, [], None)
    # Fetched after the slices: so it knows every column that they may have, and their number of buckets.
    definition = table.reload().definition
    buckets = definition.buckets_as_of(files.as_of)
    if buckets != assumed.index.buckets:
        wanted = lookup_keys.of(definition.with_buckets(buckets), keys)
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

    Without an index, or with one that is far behind, the keys remain as they are.
    """
    index = RecordIndex(table)
    found = index.find_now(wanted.tags[columns.RECORD_KEY].combine_chunks().cast(pa.string()))
    return (wanted, None) if found is None else (wanted.at(found.entries), found.as_of)


def _candidates(table: chronolake.Table, wanted: WantedKeys, as_of: Moment | None) -> Snapshot:
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
        Folder.of(definition.base_path, table.storage_options),
        layout,
        {**fields, definition.schema_version: definition.schema},
        slice_reader.ordering_of(layout, definition.merge_field),
    )
