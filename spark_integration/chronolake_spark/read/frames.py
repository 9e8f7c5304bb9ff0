"""Reads: a snapshot, now or as of a completion time, and the changes in a range of completion times.

``slice_frames`` reads the slices: no folder is listed, and unpublished files are never read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from pyspark.sql import DataFrame, SparkSession, functions as sf

import chronolake
from chronolake.slices import columns, stored_slices
from chronolake_model.files import ChangedFileGroup, Changes, FileSlice, Snapshot
from chronolake_model.filters import Filter
from chronolake_model.names import listed
from chronolake_model.scans import PARTITIONS_MAX
from chronolake_model.tables import Table
from chronolake_model.vocabulary import IndexType
from chronolake_spark import errors
from chronolake_spark.common.format_options import QueryView
from chronolake_spark.driver import schema
from chronolake_spark.read import evolution, filters, slice_frames

GroupKey: TypeAlias = tuple[str, str]
"""Partition path and file id: a file group within its table."""


def snapshot(
    spark: SparkSession,
    table: chronolake.Table,
    contents: Snapshot,
    *,
    meta_columns: bool,
    view: QueryView = QueryView.SNAPSHOT,
    names: Sequence[str] | None = None,
) -> DataFrame:
    """The records of a snapshot, with the columns that the table has now, or those of ``names``."""
    slices = contents.slices
    if view is QueryView.READ_OPTIMIZED:
        slices = stored_slices.base_only(slices)
    # Fetched after the slices: so it knows every column that they may have.
    written = evolution.versions(table, table.reload().definition, slices)
    wanted = _names(written.table, names, meta_columns=meta_columns)
    return slice_frames.records(spark, written, slices, wanted)


@dataclass(frozen=True, slots=True)
class MatchingGroups:
    """File groups whose slice could hold a matching record, at a range's start and at its end."""

    before: frozenset[GroupKey]
    after: frozenset[GroupKey]


def could_match(table: chronolake.Table, changes: Changes, wanted: Filter) -> MatchingGroups:
    """The changed file groups that could match, as the server prunes them. Raises ``InvalidFilter``."""
    paths: list[str] | None = sorted({group.partition_path for group in changes.file_groups})
    if paths is not None and len(paths) > PARTITIONS_MAX:
        paths = None
    before, after = (
        # Before the first completion there was nothing.
        frozenset() if at is None else frozenset(map(_key, table.scan(wanted, at, paths).slices))
        for at in (changes.from_, changes.to)
    )
    return MatchingGroups(before, after)


def incremental(
    spark: SparkSession,
    table: chronolake.Table,
    changes: Changes,
    *,
    meta_columns: bool,
    matching: MatchingGroups | None = None,
) -> DataFrame:
    """The records that changed, each once in its last state, with ``_change_type``.

    An upsert is a record whose last change one of the range's instants made; a delete, one that was there
    before the range and is not after it, as it was before. Where the table was restored, records came back
    whose last change was made long before: all records of the file groups that it concerned are upserts.

    With ``matching``, records in other slices may be missing.
    """
    after = [group.after for group in changes.file_groups if group.after is not None]
    before = [group.before for group in changes.file_groups if group.before is not None]
    written = evolution.versions(table, table.reload().definition, [*before, *after])
    instants = [instant.requested_time for instant in changes.instants]
    wanted = [*columns.META, *(field.name for field in written.table.schema)]
    upserts = slice_frames.records(
        spark,
        written,
        [slice_ for slice_ in after if matching is None or _key(slice_) in matching.after],
        wanted,
        times=None if changes.restores else instants,
    )
    changed_groups = [
        group for group in changes.file_groups if matching is None or _key(group) in matching.before
    ]
    deletes = slice_frames.deletes(spark, written, changed_groups)
    if changed_groups and stored_slices.may_have_moved(written.table, changes):
        has_unique_keys = written.table.index.type is IndexType.RECORD
        place = [columns.RECORD_KEY, *([] if has_unique_keys else [columns.PARTITION_PATH])]
        deletes = deletes.join(slice_frames.records(spark, written, after, place), place, "left_anti")
    shown = _names(written.table, None, meta_columns=meta_columns)
    changed = [
        schema.selected(rows, shown).withColumn(columns.CHANGE_TYPE, sf.lit(change))
        for rows, change in ((upserts, "upsert"), (deletes, "delete"))
    ]
    return changed[0].unionByName(changed[1])


def matching(rows: DataFrame, wanted: Filter, table: Table, judged_by: int) -> DataFrame:
    """The rows that match, if the server pruned by the columns that the rows have: those of ``judged_by``."""
    if table.schema_version != judged_by:
        raise errors.SchemaMismatch(
            f"the columns of {table.name} changed while it was read with a filter: read it again",
            {"schema_versions": [judged_by, table.schema_version]},
        )
    return rows.where(filters.condition(wanted, table.schema))


def projected(rows: DataFrame, names: Sequence[str], *, meta_columns: bool) -> DataFrame:
    """The columns ``names`` of a frame, after Hudi's five."""
    return schema.selected(rows, [*(columns.META if meta_columns else ()), *listed(names)])


def _names(table: Table, names: Sequence[str] | None, *, meta_columns: bool) -> list[str]:
    own = {field.name: None for field in table.schema}
    shown = list(own) if names is None else listed(names)
    if unknown := [name for name in shown if name not in own]:
        raise errors.SchemaMismatch(
            f"{table.name} has no columns {', '.join(unknown)}; it has {', '.join(own)}", {"unknown": unknown}
        )
    return [*(columns.META if meta_columns else ()), *shown]


def _key(group: ChangedFileGroup | FileSlice) -> GroupKey:
    return group.partition_path, group.file_id
