"""Rows of one run of an archive, by number or by key, from the files and row groups that have them."""

from __future__ import annotations

import contextlib
import functools
from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, Final, TypeVar
from uuid import UUID

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from chronolake_metastore.archive import rows
from chronolake_metastore.archive.rows import EVENT_ORDER, OUTCOME_KEY, Row
from chronolake_metastore.archive.storage import ArchiveDamaged, ArchiveStorage
from chronolake_metastore.domain.archives import (
    BLOCK_BYTES,
    ArchivedFile,
    ArchiveRun,
    ChainPlaces,
    ListedRun,
    RowKey,
)

_DECODED_AT_ONCE: Final = 1_000
_BOUNDS_BYTES: Final = 500
"""The share of what is known of a row group in the cache."""
_OPEN_BYTES: Final = 2 * BLOCK_BYTES
"""The share of an open file in the cache: a block, and its footer."""
_RUN_BYTES_OF_CHAIN: Final = 700
"""The share of what is known of a chain or a file of a run in the cache."""
_NUMBER_MAX: Final = 1 << 63
T = TypeVar("T")


class ReadCache:
    """The last reads of an archive, up to a number of bytes. The last one is kept whatever its size."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._entries: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()

    def get(self, key: Hashable, load: Callable[[], tuple[T, int]]) -> T:
        """The entry, which ``load`` gives with its size if it is not there."""
        if key in self._entries:
            self._entries.move_to_end(key)
        else:
            self._entries[key] = load()
            self._bytes += self._entries[key][1]
            while self._bytes > self._bytes_max and len(self._entries) > 1:
                _, (_, size) = self._entries.popitem(last=False)
                self._bytes -= size
        value: T = self._entries[key][0]
        return value

    def run(self, storage: ArchiveStorage, listed: ListedRun) -> RunReader:
        """A reader of a run, which keeps what it reads here."""

        def load() -> tuple[RunReader, int]:
            run = storage.run(listed)
            size = _RUN_BYTES_OF_CHAIN * (len(run.events) + len(run.outcomes) + len(run.files))
            return RunReader(storage, listed, run, self), size

        return self.get(listed.name, load)


class RunReader:
    """The rows of one run. Methods block, and raise ``ArchiveDamaged`` or ``ConfigurationError``."""

    def __init__(self, storage: ArchiveStorage, listed: ListedRun, run: ArchiveRun, cache: ReadCache) -> None:
        self._storage = storage
        self._cache = cache
        self.listed = listed
        self.run = run
        self.events = ChainPlaces(run.events)
        self.outcomes = ChainPlaces(run.outcomes)
        for table, expected in (
            ("event", self.events.rows),
            (EVENT_ORDER, self.events.rows),
            ("outcome", self.outcomes.rows),
            (OUTCOME_KEY, self.outcomes.rows),
        ):
            if self.count(table) != expected:
                raise self.damaged(table, f"{expected} rows", f"{self.count(table)}")

    def count(self, table: str) -> int:
        """The number of rows of a table or an index."""
        return sum(file.bounds.rows for file in self._files(table))

    def rows(self, table: str, begin: int, end: int) -> Iterator[Row]:
        """The rows with the numbers from ``begin`` to before ``end``, which the run must have."""
        if begin < end and not 0 <= begin < end <= self.count(table):
            raise self.damaged(table, f"{end} rows", f"{self.count(table)}")
        file_begin = 0
        for file in self._files(table):
            file_end = file_begin + file.bounds.rows
            if begin < file_end and file_begin < end:
                for group_begin, batch in self._groups(file, begin - file_begin, end - file_begin):
                    low = max(begin - file_begin - group_begin, 0)
                    yield from self._decoded(file, batch, low, end - file_begin - group_begin)
            file_begin = file_end

    def row(self, table: str, number: int) -> Row:
        """The row with this number, which the run must have."""
        return next(self.rows(table, number, number + 1))

    def between(self, table: str, low: RowKey, high: RowKey, instant: int | None = None) -> Iterator[Row]:
        """The rows with keys from ``low`` to ``high``; ``instant`` leaves files and row groups out."""
        for file, number in self._groups_between(table, low, high, instant):
            batch = self._group(file, number)
            with self._damage(file):
                keys = _Keys(table, batch)
                begin, end = bisect_left(keys, low), bisect_right(keys, high)
            yield from self._decoded(file, batch, begin, end)

    def _groups_between(
        self, table: str, low: RowKey, high: RowKey, instant: int | None = None
    ) -> Iterator[tuple[ArchivedFile, int]]:
        """The files, and the numbers of their row groups, that may have rows from ``low`` to ``high``."""
        for file in self._files(table):
            if file.bounds.last < low or high < file.bounds.first or _lacks(file.bounds.instants, instant):
                continue
            for number, bounds in enumerate(self._bounds(file)):
                if bounds.first <= high and low <= bounds.last and not _lacks(bounds.instants, instant):
                    yield file, number

    def _bounds(self, file: ArchivedFile) -> Sequence[_GroupBounds]:
        """The bounds of each row group of a file."""

        def load() -> tuple[Sequence[_GroupBounds], int]:
            metadata = self._metadata(file)
            bounds = [_bounds(file.table, metadata.row_group(n)) for n in range(metadata.num_row_groups)]
            return bounds, _BOUNDS_BYTES * len(bounds)

        return self._cache.get((self.listed.name, file.name, "bounds"), load)

    def parts(
        self,
        index: str,
        table_id: UUID,
        numbers: Sequence[int],
        columns: Sequence[str],
        load: Callable[[pa.RecordBatch], tuple[T, int]],
    ) -> Iterator[T]:
        """The row groups of an index that may have entries of a table with any of these sorted numbers.

        Each is the result of ``load``, which gives its size too, for these columns of all entries of the table
        in it. Results are kept in memory.
        """
        if not numbers:
            return
        for file, number in self._groups_between(index, (table_id, numbers[0]), (table_id, numbers[-1])):
            bounds = self._bounds(file)[number]
            (first_id, least), (last_id, greatest) = bounds.first, bounds.last
            if first_id != last_id:
                yield self._part(file, number, table_id, tuple(columns), load)
            elif bisect_left(numbers, least) < bisect_right(numbers, greatest):
                yield self._part(file, number, None, tuple(columns), load)

    def parts_at(
        self,
        index: str,
        table_id: UUID,
        times: range,
        columns: Sequence[str],
        load: Callable[[pa.RecordBatch], tuple[T, int]],
    ) -> list[tuple[tuple[int, int], Callable[[], T]]]:
        """As ``parts``, of row groups that may have any of these times, with the bounds of each one's times."""
        low, high = (table_id, -_NUMBER_MAX), (table_id, _NUMBER_MAX)
        found: list[tuple[tuple[int, int], Callable[[], T]]] = []
        for file, number in self._groups_between(index, low, high):
            bounds = self._bounds(file)[number]
            if bounds.instants and bounds.instants[0] < times.stop and times.start <= bounds.instants[1]:
                of_table = table_id if bounds.first[0] != bounds.last[0] else None
                part = functools.partial(self._part, file, number, of_table, tuple(columns), load)
                found.append((bounds.instants, part))
        return found

    def firsts(self, index: str, table_id: UUID, numbers: range) -> Iterator[int]:
        """The least number of a range that each row group of an index may have of a table."""
        low, high = (table_id, numbers.start), (table_id, numbers.stop - 1)
        for file, number in self._groups_between(index, low, high):
            of_first, first = self._bounds(file)[number].first
            yield max(first, numbers.start) if of_first == table_id else numbers.start

    def columns(self, table: str, numbers: range, *names: str) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Columns of a range of rows, which the run must have, by row groups; each with its first number."""
        for begin, file, number in self._places_of(table, numbers):
            batch = self._part(file, number, None, names, lambda batch: (batch, batch.nbytes))
            low = max(numbers.start - begin, 0)
            yield begin + low, batch.slice(low, numbers.stop - begin - low)

    def bytes_between(self, table: str, begin: int, end: int) -> int:
        """The bytes of the row groups that have any of the rows from ``begin`` to before ``end``."""
        places = self._places_of(table, range(begin, end))
        return sum(self._bounds(file)[number].bytes for _, file, number in places)

    def _places_of(self, table: str, numbers: range) -> Iterator[tuple[int, ArchivedFile, int]]:
        """The row groups that have any of these rows, each with the number of its first row."""
        places = self._places(table)
        for place in range(bisect_right(places, numbers.start, key=lambda place: place[1]), len(places)):
            begin, _, file, number = places[place]
            if begin >= numbers.stop:
                return
            yield begin, file, number

    def _places(self, table: str) -> Sequence[tuple[int, int, ArchivedFile, int]]:
        """The row groups of a table: the rows from the first to before the last number, file and number."""

        def load() -> tuple[Sequence[tuple[int, int, ArchivedFile, int]], int]:
            places, begin = [], 0
            for file in self._files(table):
                for number, bounds in enumerate(self._bounds(file)):
                    places.append((begin, begin + bounds.rows, file, number))
                    begin += bounds.rows
            return places, _BOUNDS_BYTES * len(places)

        return self._cache.get((self.listed.name, table, "places"), load)

    def _part(
        self,
        file: ArchivedFile,
        number: int,
        table_id: UUID | None,
        columns: tuple[str, ...],
        load: Callable[[pa.RecordBatch], tuple[T, int]],
    ) -> T:
        """A part of a row group that ``load`` makes, of one of its tables if it has several."""

        def read() -> tuple[T, int]:
            key = list(rows.columns_of(file.table))[:2] if table_id else []
            batch = self._read_group(file, number, [*columns, *(name for name in key if name not in columns)])
            with self._damage(file):
                if table_id is not None:
                    keys = _Keys(file.table, batch)
                    begin = bisect_left(keys, (table_id, -_NUMBER_MAX))
                    batch = batch.slice(begin, bisect_right(keys, (table_id, _NUMBER_MAX)) - begin)
                return load(batch.select(columns))

        return self._cache.get((self.listed.name, file.name, number, table_id, columns), read)

    def after(self, index: str, key: RowKey) -> int:
        """The number of the first entry of an index after ``key``."""
        begin = 0
        for file in self._files(index):
            if key < file.bounds.last:
                for group_begin, batch in self._groups(file, 0, file.bounds.rows):
                    keys = _Keys(index, batch)
                    if key < keys[len(keys) - 1]:
                        return begin + group_begin + bisect_right(keys, key)
            begin += file.bounds.rows
        return begin

    def outcome_keys(self) -> array[int]:
        """The hashes of the request ids of all outcomes, sorted: eight bytes each."""
        keys: array[int] = array("q")
        for file in self._files(OUTCOME_KEY):
            self._metadata(file)
            with self._damage(file):
                column = self._parquet(file).read(["key"]).column(0)
                for chunk in column.chunks:
                    keys.frombytes(memoryview(chunk.buffers()[1])[8 * chunk.offset :][: 8 * len(chunk)])
        return keys

    def damaged(self, name: str, expected: str, found: str) -> ArchiveDamaged:
        """A finding on a table of the run."""
        return ArchiveDamaged(f"{self.listed.name}/{name}", expected, found)

    def _files(self, table: str) -> list[ArchivedFile]:
        return [file for file in self.run.files if file.table == table]

    def _groups(self, file: ArchivedFile, begin: int, end: int) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The row groups of a file that have rows of a range, each with the number of its first row."""
        metadata = self._metadata(file)
        group_begin = 0
        for number in range(metadata.num_row_groups):
            group_end = group_begin + metadata.row_group(number).num_rows
            if begin < group_end and group_begin < end:
                yield group_begin, self._group(file, number)
            group_begin = group_end

    def _metadata(self, file: ArchivedFile) -> pq.FileMetaData:
        with self._damage(file):
            metadata = self._parquet(file).metadata
        if metadata.num_rows != file.bounds.rows:
            raise self.damaged(file.name, f"{file.bounds.rows} rows", f"{metadata.num_rows}")
        return metadata

    def _decoded(self, file: ArchivedFile, batch: pa.RecordBatch, begin: int, end: int) -> Iterator[Row]:
        for low in range(begin, min(end, batch.num_rows), _DECODED_AT_ONCE):
            with self._damage(file):
                part = batch.slice(low, min(_DECODED_AT_ONCE, end - low))
                decoded = list(rows.decoded(file.table, part))
            yield from decoded

    def _group(self, file: ArchivedFile, number: int) -> pa.RecordBatch:
        def load() -> tuple[pa.RecordBatch, int]:
            batch = self._read_group(file, number)
            return batch, batch.nbytes

        return self._cache.get((self.listed.name, file.name, number), load)

    def _read_group(
        self, file: ArchivedFile, number: int, columns: Sequence[str] | None = None
    ) -> pa.RecordBatch:
        with self._damage(file):
            parquet = self._parquet(file)
            group = parquet.read_row_group(number, columns=columns, use_threads=False)
            [batch] = group.combine_chunks().to_batches()
        return batch

    def _parquet(self, file: ArchivedFile) -> pq.ParquetFile:
        return self._cache.get(
            (self.listed.name, file.name),
            lambda: (rows.opened(file.table, self._storage.opened(self.listed, file)), _OPEN_BYTES),
        )

    @contextlib.contextmanager
    def _damage(self, file: ArchivedFile) -> Iterator[None]:
        try:
            yield
        except (ValueError, pa.ArrowException) as exc:
            raise self.damaged(file.name, f"rows of {file.table}", str(exc)[:200]) from exc


class _Keys:
    """The keys of rows, for a binary search."""

    def __init__(self, table: str, batch: pa.RecordBatch) -> None:
        self._columns = [batch.column(name) for name in list(rows.columns_of(table))[:2]]

    def __len__(self) -> int:
        return len(self._columns[0])

    def __getitem__(self, number: int) -> RowKey:
        first, second = (column[number] for column in self._columns)
        return first.as_py(), second.value if isinstance(second, pa.TimestampScalar) else second.as_py()


class _GroupBounds(msgspec.Struct, frozen=True):
    """The bounds of a row group: numbers are lower and higher than any if it has several chains or tables."""

    rows: int
    first: RowKey
    last: RowKey
    instants: tuple[int, int] | None
    bytes: int


def _bounds(table: str, group: pq.RowGroupMetaData) -> _GroupBounds:
    """The bounds of a row group of a table whose rows are sorted by chain or table, and number."""
    of_chain, of_number = group.column(0).statistics, group.column(1).statistics
    instants, column = None, rows.instant_column(table)
    if column is not None and (statistics := group.column(column).statistics).has_min_max:
        instants = statistics.min_raw, statistics.max_raw
    first, last = (UUID(bytes=of_chain.min), -_NUMBER_MAX), (UUID(bytes=of_chain.max), _NUMBER_MAX)
    if first[0] == last[0]:
        first, last = (first[0], of_number.min_raw), (last[0], of_number.max_raw)
    return _GroupBounds(group.num_rows, first, last, instants, group.total_byte_size)


def _lacks(instants: tuple[int, int] | None, instant: int | None) -> bool:
    return instants is not None and instant is not None and not instants[0] <= instant <= instants[1]
