"""Tables (``tables``, by ``make_tables.py``) and timelines (``hudi_1_2_0``) that Hudi 1.2.0 has written."""

from __future__ import annotations

import json
import tarfile
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import hudi
import pyarrow as pa
import pyarrow.parquet as pq

import chronolake
from chronolake.slices import arrow_types, slice_reader, stored_slices
from chronolake.slices.base_files import TableFolder
from chronolake.slices.slice_reader import SliceReader
from chronolake_hudi.timeline_files import Layout
from chronolake_model.file_names import base_file_name, relative_path
from chronolake_model.files import FileSlice
from chronolake_model.partition_paths import Spelling, partition_path
from chronolake_model.vocabulary import Operation
from tests.fix_stores import Store
from tests.published import parquet

_FOLDER: Final = Path(__file__).parent / "hudi_1_2_0"

TABLES = Path(__file__).parent / "tables"
COPY_ON_WRITE = ("cow8", "cow9", "plain8", "archived8", "evolved9")
MERGE_ON_READ = ("mor8", "mor9")
VERSION_6 = ("cow6", "archived6", "compacted6")
VERSION_6_LOGS = ("mor6", "logs6", "logcompacted6")
"""With log files that are not compacted."""
COLUMNS = ("day", "id", "name", "price", "ts")
Rows = list[list[Any]]
_META = ("commit_time", "commit_seqno", "record_key", "partition_path", "file_name")
_ARROW_SCHEMA = pa.schema(
    [
        *((f"_hoodie_{name}", pa.string()) for name in _META),
        ("id", pa.int64()),
        ("name", pa.string()),
        ("price", pa.float64()),
        ("day", pa.string()),
        ("ts", pa.int64()),
    ]
)


def unpacked(name: str, folder: Path) -> Path:
    """A table of its own in a folder."""
    unpack(TABLES / f"{name}.tar.gz", folder)
    return folder / name


def unpack(path: Path, folder: Path) -> None:
    """Unpack an archive of the project."""
    # Python has no filters before 3.11.4, and warns later where none is named.
    filters: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    with tarfile.open(path) as archive:
        archive.extractall(folder, **filters)


def rows_of_hudi(name: str) -> Rows:
    """The rows that Hudi itself read when the table was made, without columns that came later."""
    rows: Rows = json.loads((TABLES / "rows.json").read_text())[name]
    # Columns are in the order of their names.
    return [[row[0], row[1], row[2], *row[-2:]] for row in rows]


def stored(path: Path, store: Store) -> None:
    """Copy a table into a store."""
    files = store.files()
    for file in sorted(path.rglob("*")):
        if file.is_file():
            files.put(file.relative_to(path).as_posix(), file.read_bytes())


def rows_by_hudi_rs(place: Path | str, options: Mapping[str, str] | None = None) -> Rows:
    """The rows that hudi-rs reads."""
    table = hudi.HudiTable(str(place), dict(options or {}))
    return _rows(pa.Table.from_batches(table.read()))


def rows_by_snapshot(table: chronolake.Table, path: Path, as_of: str | None = None) -> Rows:
    """The rows in the base files of Chronolake's snapshot, of a copy-on-write table."""
    slices = table.snapshot(as_of).slices
    assert not any(slice_.log_files for slice_ in slices)
    files = [pq.ParquetFile(path / slice_.base_file.path).read() for slice_ in slices if slice_.base_file]
    return _rows(pa.concat_tables([file.select(COLUMNS) for file in files]))


def slices_by_hudi_rs(path: Path) -> dict[str, tuple[str | None, list[str]]]:
    """The base file and the log files of each file group, by hudi-rs."""
    table = hudi.HudiTableBuilder.from_base_uri(str(path)).build()
    return {
        slice_.file_id: (slice_.base_file_relative_path(), sorted(slice_.log_files_relative_paths()))
        for slice_ in table.get_file_slices()
    }


def slices_by_snapshot(table: chronolake.Table) -> dict[str, tuple[str | None, list[str]]]:
    """The same by Chronolake."""
    return {
        slice_.file_id: (
            None if slice_.base_file is None else slice_.base_file.path,
            sorted(file.path for file in slice_.log_files),
        )
        for slice_ in table.snapshot().slices
    }


def insert(table: chronolake.Table, place: Path | Store, rows: Rows) -> str:
    """Write rows of the first day as a new file group, as any writer could: the requested time."""
    return _write(table, place, rows, Operation.INSERT, f"{uuid.uuid4()}-0")


def upsert(table: chronolake.Table, path: Path, row: list[Any]) -> str:
    """Update one row of the first day, in the file group that has it, or insert it: the requested time."""
    partition = partition_of(table)
    for slice_ in table.snapshot().slices:
        if slice_.partition_path == partition and slice_.base_file is not None:
            stored = pq.ParquetFile(path / slice_.base_file.path).read().select(COLUMNS).to_pylist()
            others = [[kept[name] for name in COLUMNS] for kept in stored if kept["id"] != row[1]]
            if len(others) < len(stored):
                return _write(table, path, [*others, row], Operation.UPSERT, slice_.file_id)
    return insert(table, path, [row])


def partition_of(table: chronolake.Table) -> str:
    """The partition path of the first day."""
    definition = table.definition
    fields = definition.partition_fields
    return partition_path(fields, ["2026-01-01"] * len(fields), Spelling.of(definition.properties))


def _write(table: chronolake.Table, place: Path | Store, rows: Rows, operation: Operation, file_id: str) -> str:
    store = Store(place.as_uri(), None) if isinstance(place, Path) else place
    with table.begin(operation=operation) as write:
        partition = partition_of(table)
        name = base_file_name(file_id, "0-0-0", write.requested_time)
        meta = {
            "_hoodie_commit_time": write.requested_time,
            "_hoodie_commit_seqno": f"{write.requested_time}_0_0",
            "_hoodie_partition_path": partition,
            "_hoodie_file_name": name,
        }
        records = [
            {**meta, "_hoodie_record_key": str(row[1]), **dict(zip(COLUMNS, row, strict=True))} for row in rows
        ]
        content = pa.Table.from_pylist(records, _ARROW_SCHEMA)
        body = parquet(content)
        store.files().put(relative_path(partition, name), body)
        stat = chronolake.WriteStat(partition, file_id, name, len(body), len(rows), inserts=len(rows))
        write.add(stat)
    return write.requested_time


def _rows(table: pa.Table) -> Rows:
    return sorted(
        ([row[name] for name in COLUMNS] for row in table.select(COLUMNS).to_pylist()),
        key=lambda row: row[1],
    )


def rows_by_slices(table: chronolake.Table, as_of: str | None = None) -> Rows:
    """The rows of a snapshot, by id."""
    snapshot = table.snapshot(as_of)
    rows = rows_of(table, snapshot.slices)
    assert _rows(table.to_arrow(snapshot.as_of, columns=COLUMNS)) == rows
    return rows


def rows_of(table: chronolake.Table, slices: list[FileSlice]) -> Rows:
    """The rows of file slices, by id."""
    definition = table.definition
    layout = arrow_types.file_layout(definition.schema)
    ordering = slice_reader.ordering_of(layout, definition.merge_fields)
    reader = SliceReader(
        TableFolder.of(definition.base_path, table.storage_options), layout, {1: definition.schema}, ordering
    )
    read = [rows for slice_ in slices for rows in reader.rows(stored_slices.of(slice_))]
    records = pa.concat_tables(read).select(COLUMNS).to_pylist() if read else []
    return sorted(([record[name] for name in COLUMNS] for record in records), key=lambda row: row[1])


def content(table: str, pattern: str) -> bytes:
    """The content of the only file of a table whose name fits."""
    [path] = (_FOLDER / table).glob(pattern)
    return path.read_bytes()


def layout_of(table: str) -> Layout:
    """The layout of a table's timeline: its name ends with its version."""
    return Layout.ONE if table.endswith("6") else Layout.TWO


def timelines() -> list[tuple[Layout, Path]]:
    """All files of all timelines."""
    return [(layout_of(path.parent.name), path) for path in sorted(_FOLDER.glob("*/2*"))]
