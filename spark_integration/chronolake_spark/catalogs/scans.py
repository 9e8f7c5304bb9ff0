"""Plans of reads: which files Spark's own Parquet reader reads, and which slices Python workers merge."""

from __future__ import annotations

import base64
import pickle
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

import chronolake
from chronolake import field_ids
from chronolake.errors import InvalidFilter
from chronolake.slices import stored_slices
from chronolake_model.files import FileSlice, Snapshot
from chronolake_model.filters import Filter
from chronolake_spark import errors
from chronolake_spark.catalogs import conditions
from chronolake_spark.catalogs.conditions import Condition
from chronolake_spark.catalogs.context import CatalogContext
from chronolake_spark.common.format_options import QueryView
from chronolake_spark.driver import schema
from chronolake_spark.index import key_buckets
from chronolake_spark.read import evolution, few_changes, filter_meanings, format_reader, slice_frames
from chronolake_spark.read.evolution import Versions
from chronolake_spark.read.format_reader import SlicesPartition

PLAN_OPTION: Final = "plan"
"""The option of ``format("chronolake")`` by which the Java part hands the partitions of a scan over."""


class ScanRequest(msgspec.Struct, frozen=True):
    """A request for the files of a scan of these columns. ``schema`` is Spark's, as JSON, of ``columns``.

    ``filter`` is the option of a read: Python workers leave other records out.
    """

    table: str
    columns: list[str]
    schema: str
    schema_version: int
    as_of: str | None = None
    conditions: list[Condition] = []
    view: QueryView = QueryView.SNAPSHOT
    filter: str | None = None


class ScanPlan(msgspec.Struct, frozen=True):
    """The files of a scan: those for Spark's own reader, and a text for ``reader``; None without slices.

    ``rows`` is -1 if it is not known.
    """

    as_of: str | None
    files: list[str]
    slices: str | None
    rows: int
    bytes: int


def plan(context: CatalogContext, request: ScanRequest) -> ScanPlan:
    """The files of a scan. Raises ``HistoryCleaned``, ``SchemaMismatch``."""
    table = context.table(request.table)
    definition = table.definition
    if definition.schema_version != request.schema_version:
        raise errors.SchemaMismatch(
            f"the columns of {request.table} changed while the query was planned: run it again"
        )
    if request.filter is None:
        filter_ = conditions.filter_of(request.conditions, [field.name for field in definition.schema])
        snapshot = _snapshot(table, request.as_of, filter_)
    else:
        filter_ = filter_meanings.parse(context.spark, request.filter, definition)
        snapshot = table.scan(filter_, request.as_of)
    slices = key_buckets.slices_of(table, snapshot, filter_)
    if request.view is QueryView.READ_OPTIMIZED:
        slices = stored_slices.base_only(slices)
    written = evolution.versions(table, definition, slices)
    native = [slice_ for slice_ in slices if request.filter is None and _is_native(written, slice_)]
    merged = [slice_ for slice_ in slices if request.filter is not None or not _is_native(written, slice_)]
    files = [file for slice_ in slices for file in stored_slices.files_of(slice_)]
    return ScanPlan(
        snapshot.as_of,
        _native_files(definition.base_path, native),
        _text(written, request, merged, filter_) if merged or not native else None,
        -1 if merged else sum(file.records for file in files),
        sum(file.size_bytes for file in files),
    )


def _snapshot(table: chronolake.Table, as_of: str | None, filter_: Filter | None) -> Snapshot:
    if filter_ is None:
        return table.snapshot(as_of)
    try:
        return table.scan(filter_, as_of)
    except InvalidFilter:
        # A value that Spark has and the filter language has not: Spark finds the rows without help.
        return table.snapshot(as_of)


def _is_native(written: Versions, slice_: FileSlice) -> bool:
    if slice_.base_file is None or slice_.log_files or few_changes.is_in_s3(written.table):
        return False
    return written.layout_of(slice_.base_file.schema_version) == written.table.schema_version


def _native_files(base_path: str, slices: Sequence[FileSlice]) -> list[str]:
    """The base files of slices, by Spark's paths. A table in S3 has none, and its root no such path."""
    if not slices:
        return []
    root = slice_frames.spark_root(base_path)
    return [f"{root}/{slice_.base_file.path}" for slice_ in slices if slice_.base_file]


def _text(written: Versions, request: ScanRequest, slices: Sequence[FileSlice], filter_: Filter | None) -> str:
    """The partitions of slices that Python workers merge, as the text of an option."""
    by_name = {field.name: field for field in written.table.schema}
    fields = [by_name[name] for name in request.columns if name in by_name]
    struct = StructType.fromJson(msgspec.json.decode(request.schema))
    arrow = schema.arrow_of(struct)
    partitions = [
        SlicesPartition(
            slices=[stored_slices.of(slice_) for slice_ in portion],
            base_path=written.table.base_path,
            storage_options=written.storage_options,
            layout=field_ids.with_field_ids(arrow, fields),
            fields=written.all_fields(),
            ordering=format_reader.ordering_in(written.table, fields),
            filter=filter_,
            types={field.name: field.type for field in fields},
        )
        for portion in slice_frames.portions(slices, lambda slice_: [slice_])
    ]
    return text_of(partitions)


def text_of(partitions: Sequence[InputPartition]) -> str:
    """Partitions, each of which has ``batches``, as the text of an option for ``PlannedReader``."""
    return base64.b64encode(pickle.dumps(list(partitions))).decode()


class PlannedReader(DataSourceReader):  # type: ignore[misc]  # pyspark is untyped here
    """Reads the partitions that ``text_of`` has put into an option. Only this application makes such texts."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._partitions: list[InputPartition] = pickle.loads(base64.b64decode(options[PLAN_OPTION]))

    def partitions(self) -> list[InputPartition]:
        """The tasks; one at least, because Spark makes a task of its own out of none."""
        return self._partitions or [_NoRows(None)]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """The records of one task, on an executor."""
        yield from partition.batches()


class _NoRows(InputPartition):  # type: ignore[misc]  # pyspark is untyped here
    def batches(self) -> Iterator[pa.RecordBatch]:
        yield from ()
