"""``SparkTable.explain``: which file groups, base files and log files a read or a write will touch, and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, TypeAlias

from pyspark.sql import DataFrame

import chronolake
from chronolake_model.file_names import bucket_of
from chronolake_model.files import FileSlice, Snapshot
from chronolake_model.filters import And, Filter, Not, Or
from chronolake_model.tables import Table
from chronolake_model.times import Moment
from chronolake_model.vocabulary import IndexType, TableType
from chronolake_spark import columns, explanations, filters, progress, record_locating, stored_slices, write
from chronolake_spark.explanations import Explanation, Part
from chronolake_spark.filters import FilterOrText
from chronolake_spark.format_options import View

WriteName: TypeAlias = Literal["insert", "upsert", "bulk_insert", "delete", "merge", "overwrite"]
_GroupKey: TypeAlias = tuple[str, int]
_BY_SPARK: Final = "read by Spark's own Parquet reader"
_MERGED: Final = "merged by Arrow in the executors, because of the log files"
_IN_S3: Final = "read by Arrow in the executors, because Spark has no file system for S3"


def read(
    table: chronolake.Table,
    as_of: Moment | None,
    filter_: FilterOrText | None,
    view: View,
    names: Sequence[str] | None,
) -> Explanation:
    """What ``SparkTable.read`` with these parameters touches. Raises as it does."""
    definition = table.reload().definition
    snapshot = table.snapshot(as_of)
    wanted = None if filter_ is None else filters.parse(filter_, definition.schema)
    chosen, pruned = _pruned(table, snapshot, wanted)
    if view is View.READ_OPTIMIZED:
        without_base = [slice_ for slice_ in chosen if slice_.base_file is None]
        pruned += _part("because they have log files only", without_base)
        chosen = stored_slices.base_only(chosen)
    return _explanation(
        definition,
        "read",
        snapshot,
        view=str(view),
        filter=None if filter_ is None else str(filter_),
        columns=list(names or [field.name for field in definition.schema]),
        touched=explanations.groups_of(chosen),
        parts=explanations.parts_of(chosen, lambda slice_: _way(definition, slice_)),
        pruned=pruned,
    )


def written(
    table: chronolake.Table,
    operation: WriteName,
    df: DataFrame | None,
    filter_: FilterOrText | None,
    *,
    replaces_all: bool,
) -> Explanation:
    """What a write touches: one of the rows of ``df``, or one that changes records that match a filter.

    With a frame the places of its rows are computed, in a Spark job. Raises as the write does.
    """
    definition = table.reload().definition
    snapshot = table.snapshot()
    wanted = None if filter_ is None else filters.parse(filter_, definition.schema)
    chosen, pruned = _pruned(table, snapshot, wanted)
    new_groups = 0
    is_based_on_reads = operation in {"insert", "merge"} or (operation == "delete" and df is None)
    if df is not None:
        places = _places(df, definition, operation)
        is_based_on_reads |= operation == "upsert" and bool(write.lacking(df, definition))
        if not (operation == "overwrite" and replaces_all):
            with_rows = _with_rows(definition, chosen, places, whole_partitions=operation == "overwrite")
            pruned += _part("because no row of the frame belongs there", _without(chosen, with_rows))
            chosen = with_rows
        new_groups = _new_groups(definition, operation, places, chosen)
    is_read = is_based_on_reads or operation == "delete"
    return _explanation(
        definition,
        operation,
        snapshot,
        filter=None if filter_ is None else str(filter_),
        columns=[field.name for field in definition.schema],
        touched=explanations.groups_of(chosen),
        parts=explanations.parts_of(chosen, lambda _: _change(definition, operation, is_read=is_read)),
        pruned=pruned,
        new_groups=new_groups,
        conflicts=_conflicts(definition, operation, is_based_on_reads=is_based_on_reads),
    )


def _explanation(table: Table, operation: str, snapshot: Snapshot, **values: Any) -> Explanation:
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


def _pruned(
    table: chronolake.Table, snapshot: Snapshot, wanted: Filter | None
) -> tuple[list[FileSlice], list[Part]]:
    """The slices that may have a matching record, and the others by the reason why they have none."""
    if wanted is None or snapshot.as_of is None:
        return snapshot.slices, []
    chosen = table.scan(wanted, snapshot.as_of).slices
    by_partition = _of_partitions(wanted, table.definition.partition_fields)
    in_partitions = snapshot.slices if by_partition is None else table.scan(by_partition, snapshot.as_of).slices
    return chosen, [
        *_part("by their partition", _without(snapshot.slices, in_partitions)),
        *_part("by the column statistics of their files", _without(in_partitions, chosen)),
    ]


def _of_partitions(filter_: Filter, names: Sequence[str]) -> Filter | None:
    """The part of the filter that names partition columns only."""
    if isinstance(filter_, And):
        parts = [part for part in filter_.filters if _of_partitions(part, names) is not None]
        return And(parts) if parts else None
    return filter_ if _columns(filter_) <= set(names) else None


def _columns(filter_: Filter) -> set[str]:
    match filter_:
        case And() | Or():
            return {name for part in filter_.filters for name in _columns(part)}
        case Not():
            return _columns(filter_.filter)
        case _:
            return {filter_.column}


def _part(what: str, slices: Sequence[FileSlice]) -> list[Part]:
    return [Part(what, explanations.groups_of(slices))] if slices else []


def _without(slices: Sequence[FileSlice], others: Sequence[FileSlice]) -> list[FileSlice]:
    keys = {(other.partition_path, other.file_id) for other in others}
    return [slice_ for slice_ in slices if (slice_.partition_path, slice_.file_id) not in keys]


def _way(table: Table, slice_: FileSlice) -> str:
    if slice_.log_files:
        return _MERGED
    return _IN_S3 if table.base_path.startswith("s3://") else _BY_SPARK


def _places(df: DataFrame, table: Table, operation: WriteName) -> set[_GroupKey]:
    keys_only = operation in {"delete", "merge"}
    rows = write.tagged(df, table, keys_only=keys_only, may_lack=operation == "upsert")
    rows = rows.select(columns.PARTITION_PATH, columns.BUCKET)
    with progress.described(df.sparkSession, f"explain {table.name}"):
        return {tuple(row) for row in rows.distinct().collect()}


def _with_rows(
    table: Table, slices: Sequence[FileSlice], places: set[_GroupKey], *, whole_partitions: bool
) -> list[FileSlice]:
    """The slices that can have the rows of these places, as far as it is known before the write."""
    if whole_partitions or table.index.type is not IndexType.BUCKET:
        partition_paths = {path for path, _ in places}
        return [slice_ for slice_ in slices if slice_.partition_path in partition_paths]
    return [slice_ for slice_ in slices if (slice_.partition_path, bucket_of(slice_.file_id)) in places]


def _new_groups(table: Table, operation: WriteName, places: set[_GroupKey], chosen: Sequence[FileSlice]) -> int:
    """The file groups that the rows open; 0 where the index finds that out only during the write."""
    if table.index.type is not IndexType.BUCKET or operation == "delete":
        return 0
    if operation == "overwrite":
        return len(places)
    return len(places - {(slice_.partition_path, bucket_of(slice_.file_id)) for slice_ in chosen})


def _change(table: Table, operation: WriteName, *, is_read: bool) -> str:
    if operation == "overwrite":
        return "replaced"
    if table.type is TableType.MERGE_ON_READ:
        return "get a log file" + (", after their keys are read" if is_read else ", and are not read")
    if operation == "bulk_insert":
        return "rewritten with the new rows, whose keys are not looked up"
    return "read and rewritten, if a row changes them"


def _conflicts(table: Table, operation: WriteName, *, is_based_on_reads: bool) -> str:
    if operation == "overwrite":
        return "with each write that changes one of the replaced file groups before this one completes"
    if table.index.type is not IndexType.BUCKET and operation in {"insert", "upsert", "merge"}:
        if table.index.type is IndexType.RECORD:
            return (
                "with each write that changes one of these file groups, or inserts keys into any partition, "
                "before this one completes"
            )
        return (
            "with each write that changes the base file of one of these file groups, or inserts keys into one "
            "of its partitions, before this one completes"
        )
    is_append = table.type is TableType.MERGE_ON_READ
    is_based_on_reads = is_based_on_reads or record_locating.depends_on_reads(table)
    if is_append and not is_based_on_reads:
        return "none: log files are appended. Two writes that open the same new file group conflict"
    reason = ", because it depends on what it read" if is_append else ""
    return f"with each write that changes one of these file groups before this one completes{reason}"
