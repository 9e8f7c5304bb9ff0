"""Staged rows: a task writes its rows, sorted by file group, to files; the committer reads them group by group.

A staged file has the name of a base file of the instant, and a marker before it. So it is deleted before the
instant is published, with all other marked files that no write stat names, or by the rollback.
"""

from __future__ import annotations

import contextlib
import itertools
import uuid
from collections.abc import Iterable, Iterator, Sequence

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from chronolake_model.file_names import base_file_name
from chronolake_model.markers import Marker, MarkerKind
from chronolake_spark.common import columns
from chronolake_spark.read.slices import base_files
from chronolake_spark.read.slices.base_files import TableFolder
from chronolake_spark.write.tasks.stored_groups import GroupNumber
from chronolake_spark.write.tasks.task_markers import TaskMarkers

FILE_BYTES_MAX = 128 * 2**20
"""Bytes of rows, in memory, that a task holds before it writes them to a file."""


class StagedFile(msgspec.Struct, frozen=True, array_like=True):
    """A staged file: its row groups have the rows of ``groups``, one each."""

    path: str
    size_bytes: int
    groups: list[tuple[str, int]]


class Stager:
    """Stages the rows of one attempt of a task."""

    def __init__(
        self, folder: TableFolder, markers: TaskMarkers, requested_time: str, write_token: str
    ) -> None:
        self.folder = folder
        self._markers = markers
        self._requested_time = requested_time
        self._write_token = write_token

    def stage(self, tables: Iterable[pa.Table]) -> list[StagedFile]:
        """Stage tagged rows. Memory holds ``FILE_BYTES_MAX`` of them, and a sorted copy."""
        files = [self._write(held) for held in _portions(tables)]
        self._markers.refuse_given_up()
        return files

    def _write(self, rows: pa.Table) -> StagedFile:
        rows = _in_order(rows)
        name = base_file_name(f"{uuid.uuid4()}-0", self._write_token, self._requested_time)
        # Any partition will do: a marker must be in one.
        marker = Marker(rows[columns.PARTITION_PATH][0].as_py(), name, MarkerKind.CREATE)
        self._markers.create([marker])
        groups = []
        with self.folder.create(marker.path) as sink:
            with pq.ParquetWriter(sink, rows.schema, compression="zstd", use_dictionary=False) as writer:
                for start, end in itertools.pairwise(_bounds(rows)):
                    writer.write_table(rows.slice(start, end - start), row_group_size=end - start)
                    place_of = rows.slice(start, 1)
                    path = place_of[columns.PARTITION_PATH][0].as_py()
                    groups.append((path, place_of[columns.BUCKET][0].as_py()))
            size_bytes = int(sink.tell())
        return StagedFile(marker.path, size_bytes, groups)


def by_file_group(folder: TableFolder, files: Sequence[StagedFile]) -> Iterator[pa.RecordBatch]:
    """All staged rows, file group by file group."""
    places: dict[GroupNumber, list[tuple[int, int]]] = {}
    for number, file in enumerate(files):
        for row_group, group in enumerate(file.groups):
            places.setdefault(GroupNumber(*group), []).append((number, row_group))
    with contextlib.ExitStack() as stack:
        opened = [
            stack.enter_context(base_files.open_base_file(folder, file.path, file.size_bytes)) for file in files
        ]
        for group in sorted(places):
            for number, row_group in places[group]:
                yield from opened[number].read_row_group(row_group).to_batches()


def keys(folder: TableFolder, files: Iterable[StagedFile], names: Sequence[str]) -> pa.Table:
    """These columns of all staged rows."""
    tables = []
    for file in files:
        with base_files.open_base_file(folder, file.path, file.size_bytes) as parquet:
            tables.append(parquet.read(columns=list(names)).select(list(names)))
    return pa.concat_tables(tables)


def tables(folder: TableFolder, files: Iterable[StagedFile]) -> Iterator[pa.Table]:
    """All staged rows, of each file in the order of its file groups."""
    for file in files:
        with base_files.open_base_file(folder, file.path, file.size_bytes) as parquet:
            for row_group in range(parquet.num_row_groups):
                yield parquet.read_row_group(row_group)


def regrouped(stager: Stager, tables: Iterable[pa.Table]) -> Iterator[pa.RecordBatch]:
    """Rows in any order, file group by file group. If they are too many for memory, they are staged again."""
    portions = _portions(tables)
    first = next(portions, None)
    if first is None:
        return
    if (second := next(portions, None)) is None:
        yield from _in_order(first).to_batches()
        return
    files = stager.stage(itertools.chain([first, second], portions))
    del first, second
    yield from by_file_group(stager.folder, files)


def _in_order(rows: pa.Table) -> pa.Table:
    place = [(columns.PARTITION_PATH, "ascending"), (columns.BUCKET, "ascending")]
    return rows.sort_by(place).combine_chunks()


def _portions(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    held: list[pa.Table] = []
    held_bytes = 0
    for table in tables:
        held.append(table)
        held_bytes += table.nbytes
        if held_bytes >= FILE_BYTES_MAX:
            yield pa.concat_tables(held)
            held, held_bytes = [], 0
    if sum(map(len, held)):
        yield pa.concat_tables(held)


def _bounds(rows: pa.Table) -> list[int]:
    """Where the rows of each file group begin, and the end of the last."""
    paths = rows[columns.PARTITION_PATH].combine_chunks().dictionary_encode().indices.to_numpy()
    buckets = rows[columns.BUCKET].to_numpy()
    changes = np.flatnonzero((paths[1:] != paths[:-1]) | (buckets[1:] != buckets[:-1])) + 1
    return [0, *changes.tolist(), len(rows)]
