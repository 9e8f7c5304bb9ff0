"""The files of a write by one process: its rows are placed, brought together by file group, and written."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import pyarrow as pa

from chronolake.indexes import arrow_locating, arrow_unique_keys, partial_snapshots
from chronolake.indexes.arrow_locating import KeyTreatment, LocatedRows
from chronolake.indexes.tables import BlockingTable
from chronolake.slices import base_files, stored_slices
from chronolake.slices.merge import Existing
from chronolake.slices.stored_slices import NumberedGroup
from chronolake.writing import (
    arrow_tags,
    bucket_writer,
    new_groups,
    row_checks,
    task_rows,
    writable_tables,
)
from chronolake.writing.bucket_writer import TaskAttempt, WriteJob
from chronolake.writing.choices import Replaces
from chronolake.writing.counts import RowCounts
from chronolake.writing.incoming import Incoming
from chronolake.writing.stored_groups import ServerLookup
from chronolake_model.file_names import write_token
from chronolake_model.files import FileGroupName, WriteStat
from chronolake_model.instants import Instant
from chronolake_model.markers import MarkersType
from chronolake_model.tables import Table
from chronolake_model.vocabulary import IndexType

THREADS_MAX: Final = 4
"""Each thread holds a row group of a base file in memory."""


class WriteResult(msgspec.Struct, frozen=True):
    """A write that has completed: its instant, and the counts of its rows."""

    instant: Instant
    counts: RowCounts


@dataclass(frozen=True, slots=True)
class FilesToPublish:
    """The files of an instant, and the parameters of its completion."""

    stats: Sequence[WriteStat]
    counts: RowCounts
    replaced: Sequence[FileGroupName]
    schema_version: int
    is_based_on_reads: bool
    keys_looked_up: bool


def write(
    table: BlockingTable, incoming: Incoming, instant: Instant, markers: MarkersType | None
) -> FilesToPublish:
    """Write the files of an instant. Raises the errors of ``bucket_writer.write``, and ``DuplicateKeys``."""
    treatment = incoming.treatment
    writable_tables.refuse_another_schema(incoming.table, instant)
    definition = writable_tables.in_present_buckets(incoming.table, instant)
    # As of the begin: what completes later the server takes for a conflict; no update is lost.
    as_of = instant.requested_time
    job_parts, batches = _placed(table, definition, incoming, as_of)
    job = WriteJob.of_table(
        definition,
        as_of,
        table.storage_options,
        existing=treatment.existing,
        kept_columns=incoming.kept_columns,
        **job_parts,
    )
    has_buckets = definition.index.type is IndexType.BUCKET
    lookup = ServerLookup(table, as_of, replaces=treatment.replaces is not None) if has_buckets else None
    threads = _threads(definition, table.storage_options)
    written = bucket_writer.write(
        task_rows.by_file_group(batches, threads=threads),
        job,
        TaskAttempt(0, write_token(0, 0, 0)),
        table.markers_of(as_of, markers=markers, writer=instant.writer),
        lookup,
        threads=threads,
    )
    if written.duplicates:
        raise row_checks.existing_keys(definition, written.duplicates, written.duplicate_key)
    stats = written.stats
    paths = {stat.partition_path for stat in stats}
    return FilesToPublish(
        stats,
        RowCounts.of(stats, read=written.rows, superseded=written.superseded, unchanged=written.unchanged),
        new_groups.replaced_by(treatment.replaces, table, as_of, paths),
        definition.schema_version,
        is_based_on_reads=treatment.is_based_on_reads
        or bool(incoming.kept_columns)
        or arrow_unique_keys.depends_on_reads(definition),
        # An overwrite must not miss concurrent inserts into the partitions that it replaces.
        keys_looked_up=not has_buckets,
    )


def _threads(definition: Table, storage_options: Mapping[str, str]) -> int:
    """The file groups that are written at the same time: of local files as many as there are processors."""
    folder = base_files.TableFolder.of(definition.base_path, storage_options)
    return min(os.cpu_count() or 1, THREADS_MAX) if folder.is_local else THREADS_MAX


def _placed(
    table: BlockingTable, definition: Table, incoming: Incoming, as_of: str
) -> tuple[Mapping[str, Any], Iterable[pa.RecordBatch]]:
    """The parameters of the job that say where rows go, and the rows with the numbers of their file groups."""
    if definition.index.type is IndexType.BUCKET:
        batches = iter(incoming.rows)
        if definition.index.buckets != incoming.table.index.buckets:
            batches = (arrow_tags.in_buckets(batch, definition) for batch in incoming.rows)
        versions = {definition.schema_version: definition.schema}
        return {"stored": {}, "versions": versions, "has_distinct_keys": incoming.has_distinct_keys}, batches
    located = _located(table, definition, incoming, as_of)
    return _of_groups(table, definition, located.groups), located.batches


def _located(table: BlockingTable, definition: Table, incoming: Incoming, as_of: str) -> LocatedRows:
    replaces = incoming.treatment.replaces
    has_unique_keys = definition.index.type is IndexType.RECORD and bool(definition.partition_fields)
    if not has_unique_keys or not incoming.rows.count:
        is_looked_up = replaces is None
        return arrow_locating.located(incoming.rows, table, definition, as_of, is_looked_up=is_looked_up)
    how = KeyTreatment(
        merges=incoming.treatment.existing is Existing.MERGE,
        replaces=replaces is not None,
        replaces_all=replaces is Replaces.TABLE,
        kept_columns=incoming.kept_columns,
    )
    return arrow_locating.of_unique_keys(incoming.rows, table, definition, as_of, how)


def _of_groups(table: BlockingTable, definition: Table, groups: Sequence[NumberedGroup]) -> dict[str, Any]:
    slices = stored_slices.slices_of(groups)
    versions = partial_snapshots.fields_of_slices(table, definition, slices)
    return {
        "stored": bucket_writer.stored_of(groups),
        "new_file_ids": bucket_writer.new_file_ids_of(groups),
        "rewritten": bucket_writer.rewritten(groups),
        "versions": versions,
    }
