"""Brings the rows of a task together by file group, in Arrow: it costs less than a sort by Spark.

Rows are collected in runs of some megabytes, and each run is grouped. A task holds ``HELD_BYTES_MAX`` of them
in memory. Further runs are spilled to a file without a name on the local disk, which ends with the process.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chronolake.slices import columns
from chronolake.writing import group_threads
from chronolake.writing.stored_groups import GroupNumber

Run: TypeAlias = "tuple[GroupNumber, pa.RecordBatch]"
"""Rows that come together and are of one file group."""
HELD_BYTES_MAX: Final = 256 * 2**20
"""The bytes of rows that a task holds in memory before it spills."""
_RUN_BYTES: Final = 16 * 2**20
_BATCH_ROWS: Final = 10_000
_LOCAL_FOLDERS: Final = "SPARK_LOCAL_DIRS"
"""The environment variable by which Spark names the folders for temporary files to its Python workers."""


def by_file_group(
    batches: Iterable[pa.RecordBatch], held_bytes_max: int = HELD_BYTES_MAX, *, threads: int = 1
) -> Iterator[pa.RecordBatch]:
    """The same rows, one file group after the other, grouped by threads. Those of one group keep their order.

    Without the column of partition paths all rows are of one partition, and without that of buckets a partition
    counts as one file group. Small file groups share a batch.
    """
    pieces: dict[GroupNumber, list[pa.RecordBatch | int]] = defaultdict(list)
    held = 0
    with contextlib.closing(Spill()) as spill:
        runs = (functools.partial(_grouped, run) for run in _runs(batches))
        with contextlib.closing(group_threads.in_order(runs, threads)) as grouped_runs:
            for grouped in grouped_runs:
                held += sum(rows.nbytes for _, rows in grouped)
                for group, rows in grouped:
                    pieces[group].append(rows if held <= held_bytes_max else spill.add(rows))
        small: list[pa.RecordBatch] = []
        for group in sorted(pieces):
            of_group = [
                piece if isinstance(piece, pa.RecordBatch) else spill.read(piece) for piece in pieces.pop(group)
            ]
            if _is_large(of_group):
                yield from of_group
                continue
            small += of_group
            if _is_large(small):
                yield pa.concat_batches(small)
                small = []
        if small:
            yield pa.concat_batches(small)


def _is_large(batches: Sequence[pa.RecordBatch]) -> bool:
    return sum(map(len, batches)) >= _BATCH_ROWS or sum(batch.nbytes for batch in batches) >= _RUN_BYTES


class Spill:
    """Batches in a temporary file, which is made for the first one."""

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()
        self._writer: pa.RecordBatchFileWriter | None = None
        self._reader: pa.RecordBatchFileReader | None = None
        self._count = 0
        self._is_closed = False

    def add(self, rows: pa.RecordBatch) -> int:
        """Write a batch, and give its number. Raises ``ValueError`` after ``close``."""
        if self._is_closed:
            raise ValueError("the spilled rows were removed: their write was cancelled")
        if self._writer is None:
            folder = os.environ.get(_LOCAL_FOLDERS, "").split(",")[0]
            temporary_file = tempfile.TemporaryFile(dir=folder or None)  # noqa: SIM115 - the stack closes it
            self._file = self._stack.enter_context(temporary_file)
            options = pa.ipc.IpcWriteOptions(compression="lz4")
            self._writer = pa.ipc.new_file(self._file, rows.schema, options=options)
        self._writer.write_batch(rows)
        self._count += 1
        return self._count - 1

    def read(self, number: int) -> pa.RecordBatch:
        """A batch by its number, after all were added."""
        if self._reader is None:
            assert self._writer is not None, "no batch was added"
            self._writer.close()
            self._reader = pa.ipc.open_file(self._file)
        return self._reader.get_batch(number)

    def close(self) -> None:
        """Remove the file."""
        self._is_closed = True
        self._stack.close()


def _runs(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows in larger batches, none of which exceeds what one array can hold."""
    held: list[pa.RecordBatch] = []
    held_bytes = 0
    for batch in batches:
        if held and held_bytes + batch.nbytes > _RUN_BYTES:
            yield pa.concat_batches(held)
            held, held_bytes = [], 0
        held.append(batch)
        held_bytes += batch.nbytes
    if held:
        yield pa.concat_batches(held)


def _grouped(run: pa.RecordBatch) -> list[tuple[GroupNumber, pa.RecordBatch]]:
    """The rows of each file group of a run."""
    if not run.num_rows:
        return []
    numbers, groups = numbered(run)
    if len(groups) == 1:
        return [(groups[0], run)]
    # Numpy sorts small integers by their digits, which is much faster than by comparisons.
    digits = numbers.astype(np.uint16) if len(groups) <= np.iinfo(np.uint16).max else numbers
    rows = run.take(pa.array(np.argsort(digits, kind="stable")))
    ends = np.cumsum(np.bincount(numbers)).tolist()
    return [
        (group, rows.slice(start, end - start))
        for group, start, end in zip(groups, [0, *ends[:-1]], ends, strict=True)
    ]


def file_groups(runs: Iterable[Run]) -> Iterator[tuple[GroupNumber, pa.Table]]:
    """The rows of each file group, whose runs must come one after the other."""
    seen: set[GroupNumber] = set()
    held: list[pa.RecordBatch] = []
    current: GroupNumber | None = None
    for group, rows in runs:
        if group != current:
            if current is not None:
                yield current, pa.Table.from_batches(held)
            # The second part of a split group would be merged without the rows of the first part.
            assert group not in seen, f"rows of {group} do not come together"
            seen.add(group)
            current, held = group, []
        held.append(rows)
    if current is not None:
        yield current, pa.Table.from_batches(held)


def runs_of(batch: pa.RecordBatch) -> Iterator[Run]:
    """The batch cut where the file group changes."""
    if not batch.num_rows:
        return
    paths = batch[columns.PARTITION_PATH].dictionary_encode()
    codes, buckets = paths.indices.to_numpy(), batch[columns.BUCKET].to_numpy()
    changes = np.flatnonzero((codes[1:] != codes[:-1]) | (buckets[1:] != buckets[:-1])) + 1
    bounds = [0, *changes.tolist(), batch.num_rows]
    for start, end in itertools.pairwise(bounds):
        path = paths.dictionary[int(codes[start])].as_py()
        yield GroupNumber(path, int(buckets[start])), batch.slice(start, end - start)


def numbered(run: pa.RecordBatch) -> tuple[npt.NDArray[np.int32], list[GroupNumber]]:
    """The file groups of a run, and for each row the position of its own."""
    places = pa.repeat(pa.scalar(0), len(run))
    if columns.BUCKET in run.schema.names:
        places = run[columns.BUCKET].cast(pa.int64())
    paths = pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), [""])
    if columns.PARTITION_PATH in run.schema.names:
        paths = run[columns.PARTITION_PATH].dictionary_encode()
        path_numbers = paths.indices.to_numpy().astype(np.int64)
        places = pa.array(path_numbers << 32 | places.to_numpy())
    encoded = places.dictionary_encode()
    groups = [
        GroupNumber(paths.dictionary[place >> 32].as_py(), place & 0xFFFFFFFF)
        for place in encoded.dictionary.to_pylist()
    ]
    return encoded.indices.to_numpy(), groups
