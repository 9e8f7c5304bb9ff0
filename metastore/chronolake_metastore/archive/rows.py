"""Rows of the log as Parquet: the columns of each table, written and read in batches.

Numbers and times are stored as differences and words in dictionaries, so that a small commit costs little. A
request id that is a UUID is stored as its 16 bytes. What follows from the other rows is not stored: the hashes
of a chain, except every hundredth, and an event's request id where it is that of the outcome after it.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq

from chronolake_metastore.domain.archives import RowBounds

BATCH_ROWS: Final = 20_000
BATCH_BYTES: Final = 32 * 1024 * 1024
"""The rows of a row group are in memory together, up to either bound."""
FILE_BYTES_MAX: Final = 32 * 1024 * 1024
"""A file that has this size is finished, and the next row group begins another."""
_LEVEL: Final = 9
Row = tuple[Any, ...]


class ColumnForm(enum.Enum):
    """How a column is stored."""

    ID = enum.auto()
    NUMBER = enum.auto()
    TIME = enum.auto()
    """Microseconds since 1970 in a row."""
    WORD = enum.auto()
    """A text with few values."""
    TEXT = enum.auto()
    BYTES = enum.auto()
    FLAG = enum.auto()
    KEY = enum.auto()
    """A request id, in two columns: as a UUID if it is one, otherwise as a text."""


_ID, _NUMBER, _TIME, _WORD = ColumnForm.ID, ColumnForm.NUMBER, ColumnForm.TIME, ColumnForm.WORD
_TEXT, _BYTES, _KEY = ColumnForm.TEXT, ColumnForm.BYTES, ColumnForm.KEY
COLUMNS: Final[Mapping[str, Mapping[str, ColumnForm]]] = {
    "event": {
        "table_id": _ID,
        "version": _NUMBER,
        "transaction_id": _NUMBER,
        "position": _NUMBER,
        "type": _WORD,
        "instant": _TIME,
        "time": _TIME,
        "actor": _WORD,
        "request_id": _KEY,
        "answers": _NUMBER,
        "payload": _TEXT,
        "checkpoint": _BYTES,
    },
    "event_entry": {
        "table_id": _ID,
        "version": _NUMBER,
        "list": _WORD,
        "ordinal": _NUMBER,
        "instant": _TIME,
        "partition_path": _WORD,
        "name": _TEXT,
    },
    "write_stat": {
        "table_id": _ID,
        "version": _NUMBER,
        "ordinal": _NUMBER,
        "kind": _WORD,
        "partition_path": _WORD,
        "file_id": _WORD,
        "file_name": _TEXT,
        **dict.fromkeys(("size_bytes", "records", "inserts", "updates", "deletes"), _NUMBER),
        "column_stats": _TEXT,
        "has_field_ids": ColumnForm.FLAG,
    },
    "deleted_file": {
        "table_id": _ID,
        "version": _NUMBER,
        "ordinal": _NUMBER,
        "requested_time": _TIME,
        "partition_path": _WORD,
        "file_name": _TEXT,
    },
    "outcome": {
        "chain_id": _ID,
        "number": _NUMBER,
        "request_id": _KEY,
        "fingerprint": _BYTES,
        "table_id": _ID,
        "version": _NUMBER,
        "code": _WORD,
        "result": _BYTES,
        "dialect": _WORD,
        "answer_digest": _BYTES,
        "recorded_at": _TIME,
        **dict.fromkeys(("command", "actor", "address"), _WORD),
        "checkpoint": _BYTES,
    },
    "refusal": {
        "chain_id": _ID,
        "number": _NUMBER,
        "transaction_id": _NUMBER,
        "position": _NUMBER,
        "refused_at": _TIME,
        **dict.fromkeys(("actor", "address", "command", "table_name"), _WORD),
        "table_id": _ID,
        "version": _NUMBER,
        "instant": _TIME,
        "code": _WORD,
        "detail": _TEXT,
        "context": _TEXT,
    },
}
"""The columns of each table of the log, in the order of its rows: chain and number come first.

``checkpoint`` is the hash of every ``CHECKPOINT_EVERY``-th entry of a chain.
"""
EVENT_ORDER: Final = "event_order"
OUTCOME_KEY: Final = "outcome_key"
INSTANT: Final = "instant"
INDEXES: Final[Mapping[str, Mapping[str, ColumnForm]]] = {
    EVENT_ORDER: {"transaction_id": _NUMBER, "position": _NUMBER, "event_row": _NUMBER},
    OUTCOME_KEY: {"key": _NUMBER, "outcome_row": _NUMBER},
    INSTANT: {
        "table_id": _ID,
        "requested_time": _TIME,
        **dict.fromkeys(("begun_as", "operation", "writer", "state"), _WORD),
        "completed_at": _TIME,
        "first_version": _NUMBER,
        "version": _NUMBER,
    },
}
"""The indexes of a run: the order of its events across tables, its outcomes by the hash of the request id, and
what its events changed in each instant (``domain.archived_instants``).

The first two name rows by their number in the run, from 0.
"""
_INSTANTS: Final = {"event_entry": "instant", "deleted_file": "requested_time", INSTANT: "completed_at"}
"""The columns of times by which rows are found beside their keys; files and row groups have their bounds."""
_UUID_SUFFIX: Final = "_uuid"
_ARROW: Final = {
    ColumnForm.ID: pa.uuid(),
    ColumnForm.NUMBER: pa.int64(),
    ColumnForm.TIME: pa.timestamp("us", tz="UTC"),
    ColumnForm.WORD: pa.string(),
    ColumnForm.TEXT: pa.string(),
    ColumnForm.BYTES: pa.binary(),
    ColumnForm.FLAG: pa.bool_(),
}
_IN_DIFFERENCES: Final = frozenset({ColumnForm.NUMBER, ColumnForm.TIME})
_IN_DICTIONARY: Final = frozenset({ColumnForm.ID, ColumnForm.WORD})


def columns_of(table: str) -> Mapping[str, ColumnForm]:
    """The columns of a table of the log or of an index."""
    return INDEXES[table] if table in INDEXES else COLUMNS[table]


def stored_columns(table: str) -> dict[str, ColumnForm]:
    """The columns of the file, where each request id is two of them."""
    columns: dict[str, ColumnForm] = {}
    for name, form in columns_of(table).items():
        if form is ColumnForm.KEY:
            columns |= {f"{name}{_UUID_SUFFIX}": ColumnForm.ID, name: ColumnForm.TEXT}
        else:
            columns[name] = form
    return columns


def instant_column(table: str) -> int | None:
    """The column of a time by which rows of a table are found beside their keys."""
    return list(columns_of(table)).index(_INSTANTS[table]) if table in _INSTANTS else None


class BoundsOfRows:
    """The bounds of rows that are added one after the other."""

    def __init__(self, table: str) -> None:
        self._instant = instant_column(table)
        self._rows = 0
        self._first: Row = ()
        self._last: Row = ()
        self._instants: tuple[int, int] | None = None

    def add(self, row: Row) -> None:
        """Add the next row."""
        self._rows += 1
        self._first, self._last = self._first or row[:2], row[:2]
        if self._instant is not None and row[self._instant] is not None:
            instant = row[self._instant]
            least, greatest = self._instants or (instant, instant)
            self._instants = min(least, instant), max(greatest, instant)

    def result(self) -> RowBounds | None:
        """The bounds; None without rows."""
        if not self._rows:
            return None
        (of_first, first), (of_last, last) = self._first, self._last
        return RowBounds(self._rows, (of_first, first), (of_last, last), self._instants)


class RowWriter:
    """Writes the rows of one table into files in a folder, one after the other."""

    def __init__(self, folder: Path, table: str) -> None:
        self._folder = folder
        self._table = table
        self._columns = stored_columns(table)
        self._schema = pa.schema([pa.field(name, _ARROW[form]) for name, form in self._columns.items()])
        self._batch: list[Row] = []
        self._batch_bytes = 0
        self._writer: pq.ParquetWriter | None = None
        self._bounds = BoundsOfRows(table)
        self._name = ""
        self.files: dict[str, RowBounds] = {}
        """The names of the finished files, with the bounds of their rows."""

    def add(self, row: Row) -> None:
        """Add the next row."""
        self._batch.append(row)
        self._batch_bytes += sum(len(value) for value in row if isinstance(value, str | bytes))
        if len(self._batch) == BATCH_ROWS or self._batch_bytes >= BATCH_BYTES:
            self._flush()

    def close(self) -> None:
        """Finish the last file. Without rows there is none."""
        if self._batch:
            self._flush()
        self._finish()

    def _flush(self) -> None:
        if self._writer is None:
            suffix = f"-{len(self.files) + 1}" if self.files else ""
            self._name = f"{self._table}{suffix}.parquet"
            self._writer = self._open(self._name)
        self._writer.write_batch(self._encoded(), row_group_size=BATCH_ROWS)
        for row in self._batch:
            self._bounds.add(row)
        self._batch, self._batch_bytes = [], 0
        if (self._folder / self._name).stat().st_size >= FILE_BYTES_MAX:
            self._finish()

    def _finish(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None
            bounds = self._bounds.result()
            assert bounds is not None
            self.files[self._name] = bounds
            self._bounds = BoundsOfRows(self._table)

    def _open(self, name: str) -> pq.ParquetWriter:
        forms = self._columns.items()
        return pq.ParquetWriter(
            self._folder / name,
            self._schema,
            compression="zstd",
            compression_level=_LEVEL,
            # A request id is different in each row.
            use_dictionary=[
                name for name, form in forms if form in _IN_DICTIONARY and not name.endswith(_UUID_SUFFIX)
            ],
            column_encoding={
                **{name: "DELTA_BINARY_PACKED" for name, form in forms if form in _IN_DIFFERENCES},
                **{name: "PLAIN" for name, form in forms if form in (ColumnForm.TEXT, ColumnForm.BYTES)},
            },
            write_statistics=[*list(columns_of(self._table))[:2], *_INSTANTS.get(self._table, "").split()],
        )

    def _encoded(self) -> pa.RecordBatch:
        arrays = []
        for form, values in zip(columns_of(self._table).values(), zip(*self._batch, strict=True), strict=True):
            if form is ColumnForm.KEY:
                ids = [_uuid_of(value) for value in values]
                texts = [None if found else text for text, found in zip(values, ids, strict=True)]
                arrays += [_array(ColumnForm.ID, ids), _array(ColumnForm.TEXT, texts)]
            else:
                arrays.append(_array(form, values))
        return pa.record_batch(arrays, schema=self._schema)


def opened(table: str, source: BinaryIO | pa.BufferReader) -> pq.ParquetFile:
    """A file of this table; raises ``ValueError`` when it is another."""
    words = [name for name, form in columns_of(table).items() if form is ColumnForm.WORD]
    parquet = pq.ParquetFile(source, read_dictionary=words if table == INSTANT else None)
    if parquet.schema_arrow.names != list(stored_columns(table)):
        raise ValueError(f"it has not the columns of {table}")
    return parquet


def read(table: str, content: bytes) -> Iterator[Row]:
    """The rows of a file. Raises ``ValueError`` when it is not a file of this table."""
    for batch in opened(table, pa.BufferReader(content)).iter_batches(BATCH_ROWS):
        yield from decoded(table, batch)


def decoded(table: str, batch: pa.RecordBatch) -> Iterator[Row]:
    """The rows of a part of a file."""
    columns = []
    for name, form in columns_of(table).items():
        values = _values(form, batch.column(name))
        if form is ColumnForm.KEY:
            ids = batch.column(f"{name}{_UUID_SUFFIX}").to_pylist()
            values = [text if key is None else str(key) for text, key in zip(values, ids, strict=True)]
        columns.append(values)
    yield from zip(*columns, strict=True)


def _array(form: ColumnForm, values: Sequence[Any]) -> pa.Array:
    match form:
        case ColumnForm.ID:
            storage = pa.array([None if value is None else value.bytes for value in values], pa.binary(16))
            return pa.ExtensionArray.from_storage(_ARROW[form], storage)
        case ColumnForm.TIME:
            return pa.array(values, pa.int64()).cast(_ARROW[form])
        case _:
            return pa.array(values, _ARROW[form])


def _values(form: ColumnForm, array: pa.Array) -> list[Any]:
    values: list[Any] = (array.cast(pa.int64()) if form is ColumnForm.TIME else array).to_pylist()
    return values


def _uuid_of(text: str | None) -> UUID | None:
    """The UUID that a text is, in the form that ``str`` gives it."""
    if text is None or len(text) != len(str(UUID(int=0))):
        return None
    try:
        found = UUID(text)
    except ValueError:
        return None
    return found if str(found) == text else None
