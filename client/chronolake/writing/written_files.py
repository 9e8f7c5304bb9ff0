"""Base files as tasks write them: the marker first, then the rows, with column stats and key filters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from chronolake.indexes.stored_keys import KeyCollector
from chronolake.slices import base_files
from chronolake.slices.base_files import TableFolder
from chronolake.slices.column_stats import StatsCollector
from chronolake.writing.task_markers import TaskMarkers
from chronolake_model.files import ColumnStats
from chronolake_model.markers import Marker
from chronolake_model.tables import SchemaField


@dataclass(frozen=True, slots=True)
class FileFormat:
    """The columns of base files; with ``has_key_filters`` the footers get key ranges and bloom filters."""

    schema: pa.Schema
    fields: Sequence[SchemaField]
    has_key_filters: bool

    def collector(self) -> StatsCollector:
        """A collector of the column stats of one file."""
        return StatsCollector(self.schema, {field.name: field.field_id for field in self.fields})


@dataclass(frozen=True, slots=True)
class WrittenBaseFile:
    """A file in storage: its size, its rows, and their column stats."""

    size_bytes: int
    records: int
    column_stats: list[ColumnStats]


def write_base_file(
    folder: TableFolder,
    markers: TaskMarkers,
    marker: Marker,
    format_: FileFormat,
    tables: Iterable[pa.Table],
    records_max: int,
) -> WrittenBaseFile:
    """Write a base file, whose marker is created before. ``records_max`` is the number of its rows, or more."""
    markers.create([marker])
    counter = _Counter()
    collector = format_.collector()
    metadata: base_files.FooterMetadata = dict
    tables = map(counter.seen, collector.watch(tables))
    if format_.has_key_filters:
        keys = KeyCollector(records_max)
        tables, metadata = keys.watch(tables), keys.metadata
    size = base_files.write(folder, marker.path, format_.schema, tables, metadata)
    return WrittenBaseFile(size, counter.rows, collector.stats())


class _Counter:
    """Counts rows while they are written."""

    def __init__(self) -> None:
        self.rows = 0

    def seen(self, table: pa.Table) -> pa.Table:
        self.rows += len(table)
        return table
