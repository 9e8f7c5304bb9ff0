"""Which file groups, base files and log files a read of a table touches, and why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import chronolake
from chronolake.slices import stored_slices
from chronolake_model import filter_text
from chronolake_model.cuts import AsOf
from chronolake_model.files import FileSlice, Snapshot
from chronolake_model.filters import And, Filter, columns_of
from chronolake_model.tables import Table
from chronolake_model.vocabulary import IndexType
from chronolake_spark.common.format_options import QueryView
from chronolake_spark.explain import explanations
from chronolake_spark.explain.explanations import Explanation, Part
from chronolake_spark.read import few_changes

_BY_SPARK: Final = "read by Spark's own Parquet reader"
_IN_PARTS: Final = "read by Spark's own Parquet reader, but for the records that log files change"
_MERGED: Final = "merged by Arrow in the executors, because of the log files"
_IN_S3: Final = "read by Arrow in the executors, because Spark has no file system for S3"


def explain(
    table: chronolake.Table,
    as_of: AsOf | None,
    wanted: Filter | None,
    view: QueryView,
    names: Sequence[str] | None,
) -> Explanation:
    """Explain which file groups ``SparkTable.read`` with these parameters touches. Raises as it does."""
    definition = table.reload().definition
    snapshot = table.snapshot(as_of)
    chosen, pruned = split(table, snapshot, wanted)
    if view is QueryView.READ_OPTIMIZED:
        without_base = [slice_ for slice_ in chosen if slice_.base_file is None]
        pruned += part("because they have log files only", without_base)
        chosen = stored_slices.base_only(chosen)
    return explanation_of(
        definition,
        "read",
        snapshot,
        view=str(view),
        filter=None if wanted is None else filter_text.written(wanted),
        columns=list(names or [field.name for field in definition.schema]),
        touched=explanations.groups_of(chosen),
        parts=explanations.parts_of(chosen, _way_of(definition, chosen)),
        pruned=pruned,
    )


def explanation_of(table: Table, operation: str, snapshot: Snapshot, **values: Any) -> Explanation:
    """The explanation of a read or a write as of a snapshot."""
    index = str(table.index.type)
    if table.index.type is IndexType.BUCKET:
        where = "per partition" if table.partition_fields else "in all"
        index = f"{index}, buckets {where}: {table.index.buckets}; a record's bucket follows from its key"
    elif table.index.type is IndexType.RECORD and table.partition_fields:
        index = (
            f"{index}; a key is unique in the whole table, so a row may also move a record out of any partition"
        )
    return Explanation(
        table=table.name,
        operation=operation,
        type=str(table.type),
        index=index,
        as_of=snapshot.as_of,
        **values,
    )


def split(
    table: chronolake.Table, snapshot: Snapshot, wanted: Filter | None
) -> tuple[list[FileSlice], list[Part]]:
    """The slices that may have a matching record, and the others by the reason why they have none."""
    if wanted is None or snapshot.as_of is None:
        return snapshot.slices, []
    chosen = table.scan(wanted, snapshot.as_of).slices
    by_partition = _of_partitions(wanted, table.definition.partition_fields)
    in_partitions = snapshot.slices if by_partition is None else table.scan(by_partition, snapshot.as_of).slices
    return chosen, [
        *part("by their partition", without(snapshot.slices, in_partitions)),
        *part("by the column statistics of their files", without(in_partitions, chosen)),
    ]


def _of_partitions(filter_: Filter, names: Sequence[str]) -> Filter | None:
    """The part of the filter that names partition columns only."""
    if isinstance(filter_, And):
        inner = [inner for inner in filter_.filters if _of_partitions(inner, names) is not None]
        return And(inner) if inner else None
    return filter_ if columns_of(filter_) <= set(names) else None


def part(what: str, slices: Sequence[FileSlice]) -> list[Part]:
    """The part of an explanation for some slices; empty if there are none."""
    return [Part(what, explanations.groups_of(slices))] if slices else []


def without(slices: Sequence[FileSlice], others: Sequence[FileSlice]) -> list[FileSlice]:
    """The slices of file groups of which ``others`` has none."""
    keys = {(other.partition_path, other.file_id) for other in others}
    return [slice_ for slice_ in slices if (slice_.partition_path, slice_.file_id) not in keys]


def _way_of(table: Table, slices: Sequence[FileSlice]) -> Callable[[FileSlice], str]:
    in_parts = {(slice_.partition_path, slice_.file_id) for slice_ in few_changes.chosen(table, slices)}

    def way(slice_: FileSlice) -> str:
        if slice_.log_files:
            return _IN_PARTS if (slice_.partition_path, slice_.file_id) in in_parts else _MERGED
        return _IN_S3 if few_changes.is_in_s3(table) else _BY_SPARK

    return way
