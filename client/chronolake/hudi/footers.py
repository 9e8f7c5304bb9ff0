"""Footers of the base files of a Hudi table: each is read once for all checks, within one time limit.

``check`` tells by them whether the files can be read. ``logs`` opens log files.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import msgspec

from chronolake.hudi import logs
from chronolake.hudi.stored import DAMAGED_ADVICE, READERS, StoredTable
from chronolake_hudi.errors import DamagedFile
from chronolake_model import meta_columns
from chronolake_model.adoption import AdoptTable
from chronolake_model.file_names import FileKind, relative_path

CHECK_SECONDS: Final = 600.0
"""How long the files of a table are opened for checks, in total."""
PROGRESS_SECONDS: Final = 5.0
_KEY_BOUNDS: Final = (b"hoodie_min_record_key", b"hoodie_max_record_key")
_FILES_AT_ONCE: Final = 64
REASONS_MAX: Final = 10
_INT_BITS: Final = 32


class Footer(msgspec.Struct, frozen=True):
    """The facts in a footer: ``schema`` is pyarrow's, ``bounds`` has the least and greatest value of columns.

    Bounds that are not known are empty.
    """

    records: int
    schema: Any
    bounds: Mapping[str, Sequence[str]]


class Footers:
    """The footers of a table's base files. ``filesystem`` is pyarrow's, ``root`` the base path in it.

    ``bounded`` are the columns whose bounds are needed. ``progress`` hears how many files were opened.
    """

    def __init__(
        self,
        filesystem: Any,
        root: str,
        *,
        bounded: Sequence[str] = (),
        progress: Callable[[str], None] = lambda message: None,
        seconds: float = CHECK_SECONDS,
    ) -> None:
        self._filesystem = filesystem
        self._root = root
        self._bounded = bounded
        self._progress = progress
        self._seconds_left = seconds
        self._found: dict[str, Footer | str] = {}
        # Most files of a table have one schema.
        self._schemas: dict[Any, Any] = {}

    def all_of(self, paths: Sequence[str]) -> Iterator[tuple[str, Footer | str]]:
        """Each path with its footer, or the reason why it cannot be read, whatever the time."""
        for part in _parts(paths):
            self._open(part)
            yield from ((path, self._found[path]) for path in part)

    def within_time(self, paths: Sequence[str]) -> Iterator[tuple[str, Footer | str]]:
        """The same for the files that were opened before, or can be opened before the time limit."""
        begun = reported = time.monotonic()
        for number, part in enumerate(_parts(paths)):
            if self._seconds_left > 0:
                self._open(part)
                now = time.monotonic()
                self._seconds_left -= now - begun
                begun = now
                if now - reported >= PROGRESS_SECONDS:
                    done = min((number + 1) * _FILES_AT_ONCE, len(paths))
                    self._progress(f"opened {done:,} of {len(paths):,} files")
                    reported = now
            yield from ((path, self._found[path]) for path in part if path in self._found)

    def _open(self, paths: Sequence[str]) -> None:
        new = [path for path in paths if path not in self._found]
        if new:
            with ThreadPoolExecutor(READERS) as readers:
                self._found.update(zip(new, readers.map(self._read, new), strict=True))

    def _read(self, path: str) -> Footer | str:
        import pyarrow as pa  # noqa: PLC0415  # an extra
        import pyarrow.parquet as pq  # noqa: PLC0415

        try:
            with self._filesystem.open_input_file(f"{self._root}/{path}") as file:
                metadata = pq.read_metadata(file)
                schema = metadata.schema.to_arrow_schema()
        except (pa.ArrowException, OSError) as exc:
            return f"it cannot be read as a Parquet file ({exc})"
        schema = schema.remove_metadata()
        bounds = {column: _bounds(metadata, column) for column in self._bounded}
        return Footer(metadata.num_rows, self._schemas.setdefault(schema, schema), bounds)


def with_records(table: StoredTable, footers: Footers) -> StoredTable:
    """The table with the records of the base files that no instant names. Raises ``DamagedFile``."""
    listed = {instant.requested_time for instant in table.instants}
    named = logs.writers_of(table)
    first = table.first_active or ""
    paths = [
        file.path
        for file, name in table.data_files
        if name.kind is FileKind.BASE
        and name.requested_time not in listed
        and name.requested_time < first
        and file.path not in named
    ]
    records: dict[str, int] = {}
    for path, footer in footers.all_of(paths):
        if isinstance(footer, str):
            raise DamagedFile(path, footer, DAMAGED_ADVICE)
        records[path] = footer.records
    return msgspec.structs.replace(table, records=records)


class CheckedFooters(msgspec.Struct, frozen=True):
    """Why files cannot be read, one sentence each, and how many of the files were opened."""

    reasons: list[str]
    files: int
    opened: int


def check(request: AdoptTable, footers: Footers) -> CheckedFooters:
    """Check the base files that come in, the newest first, until ``REASONS_MAX`` of them cannot be read."""
    files = [
        relative_path(stat.partition_path, stat.file_name)
        for instant in sorted(request.instants, key=lambda instant: instant.requested_time, reverse=True)
        for stat in instant.write_stats
        if not stat.file_name.startswith(".")
    ]
    types = {field.name: field.type for field in request.definition.schema}
    reasons: list[str] = []
    opened = 0
    for path, footer in footers.within_time(files):
        problem = _problem(footer, types)
        opened += 1
        if problem is not None:
            reasons.append(f"{path}: {problem}")
        if len(reasons) == REASONS_MAX:
            break
    return CheckedFooters(reasons, len(files), opened)


def _parts(paths: Sequence[str]) -> Iterator[Sequence[str]]:
    return (paths[at : at + _FILES_AT_ONCE] for at in range(0, len(paths), _FILES_AT_ONCE))


def _bounds(metadata: Any, column: str) -> list[str]:
    """The least and the greatest value of a column as texts; empty if they are not known."""
    # Hudi states those of record keys in the footer's metadata.
    stated = metadata.metadata or {}
    if column == meta_columns.RECORD_KEY and all(name in stated for name in _KEY_BOUNDS):
        return [stated[name].decode("utf-8", "replace") for name in _KEY_BOUNDS]
    index = next((at for at in range(metadata.num_columns) if metadata.schema.column(at).path == column), None)
    if index is None:
        return []
    chunks = [metadata.row_group(group).column(index).statistics for group in range(metadata.num_row_groups)]
    if not chunks or not all(chunk is not None and chunk.has_min_max for chunk in chunks):
        return []
    return [str(min(chunk.min for chunk in chunks)), str(max(chunk.max for chunk in chunks))]


def _problem(footer: Footer | str, types: Mapping[str, str]) -> str | None:
    if isinstance(footer, str):
        return f"{footer}; restore the file from a copy"
    if meta_columns.RECORD_KEY not in footer.schema.names:
        return f"it lacks the meta columns, such as {meta_columns.RECORD_KEY}; rewrite the table with Hudi"
    for column in footer.schema:
        wanted = types.get(column.name)
        if wanted is not None and _is_converted_by_hudi_alone(column.type, wanted):
            return (
                f"its column {column.name!r} is {column.type}, and the table's is {wanted} since a change of "
                "the schema: only Hudi converts this while it reads; rewrite the file with Hudi, as by a "
                "clustering, and adopt the table then"
            )
    return None


def _is_converted_by_hudi_alone(stored: Any, wanted: str) -> bool:
    """Whether our readers fail at a stored type, or lose digits of it, where Hudi's reader converts it."""
    from pyarrow import types as pt  # noqa: PLC0415  # an extra

    if pt.is_integer(stored):
        return wanted in ("string", "float") or (wanted == "double" and stored.bit_width > _INT_BITS)
    return pt.is_floating(stored) and wanted == "string"
