"""Which file groups, base files and log files a write of a table will touch, and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from pyspark.sql import DataFrame

import chronolake
from chronolake.indexes import arrow_unique_keys
from chronolake.slices import columns
from chronolake_model import filter_text
from chronolake_model.file_names import bucket_of
from chronolake_model.files import FileSlice
from chronolake_model.filters import Filter
from chronolake_model.tables import Table
from chronolake_model.vocabulary import IndexType, TableType
from chronolake_spark.driver import progress
from chronolake_spark.explain import explanations, of_reads
from chronolake_spark.explain.explanations import Explanation
from chronolake_spark.write import writes

WriteName: TypeAlias = Literal["insert", "upsert", "bulk_insert", "delete", "merge", "overwrite"]
_GroupKey: TypeAlias = tuple[str, int]


def written(
    table: chronolake.Table,
    operation: WriteName,
    df: DataFrame | None,
    filter_: Filter | None,
    *,
    replaces_all: bool,
) -> Explanation:
    """Explain which file groups a write touches: of the rows of ``df``, or of records that match a filter.

    With a frame, a Spark job computes the places of its rows. Raises as the write does.
    """
    definition = table.reload().definition
    snapshot = table.snapshot()
    chosen, pruned = of_reads.split(table, snapshot, filter_)
    new_groups = 0
    is_based_on_reads = operation in {"insert", "merge"} or (operation == "delete" and df is None)
    if df is not None:
        places = _places(df, definition, operation)
        is_based_on_reads |= operation == "upsert" and bool(writes.lacking(df, definition))
        if not (operation == "overwrite" and replaces_all):
            with_rows = _with_rows(definition, chosen, places, whole_partitions=operation == "overwrite")
            left_out = of_reads.without(chosen, with_rows)
            pruned += of_reads.part("because no row of the frame belongs there", left_out)
            chosen = with_rows
        new_groups = _new_groups(definition, operation, places, chosen)
    is_read = is_based_on_reads or operation == "delete"
    return of_reads.explanation_of(
        definition,
        operation,
        snapshot,
        filter=None if filter_ is None else filter_text.written(filter_),
        columns=[field.name for field in definition.schema],
        touched=explanations.groups_of(chosen),
        parts=explanations.parts_of(chosen, lambda _: _change(definition, operation, is_read=is_read)),
        pruned=pruned,
        new_groups=new_groups,
        conflicts=_conflicts(definition, operation, is_based_on_reads=is_based_on_reads),
    )


def _places(df: DataFrame, table: Table, operation: WriteName) -> set[_GroupKey]:
    keys_only = operation in {"delete", "merge"}
    rows = writes.tagged(df, table, keys_only=keys_only, may_lack=operation == "upsert")
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
    is_based_on_reads = is_based_on_reads or arrow_unique_keys.depends_on_reads(table)
    if is_append and not is_based_on_reads:
        return "none: log files are appended. Two writes that open the same new file group conflict"
    reason = ", because it depends on what it read" if is_append else ""
    return f"with each write that changes one of these file groups before this one completes{reason}"
