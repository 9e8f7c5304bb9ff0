"""Base files in storage: their layout, reading them back checked, writing them whole or not at all."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from chronolake import storage
from chronolake_spark import columns, errors

ROW_GROUP_ROWS = 500_000
_SAMPLE_ROWS = 20_000
_DICTIONARY_SHARE_MAX = 0.25


@dataclass(frozen=True, slots=True)
class Folder:
    """A table's folder in storage; paths given to its methods are relative to the table's base path."""

    filesystem: pafs.FileSystem
    root: str

    @classmethod
    def of(cls, base_path: str, storage_options: Mapping[str, str] | None = None) -> Folder:
        """The folder that a URI or a local path names; the options are those of ``chronolake.storage``."""
        return cls(*storage.open_filesystem(base_path, storage_options))

    def path(self, relative: str) -> str:
        """The path that the file system knows the file by."""
        return f"{self.root}/{relative}"

    def delete(self, relative: str) -> None:
        """Delete a file if it can be deleted; what stays is for the table's rollback to remove."""
        with contextlib.suppress(OSError):
            self.filesystem.delete_file(self.path(relative))


def relative_path(partition_path: str, file_name: str) -> str:
    """Where a data file lies below the table's base path."""
    return f"{partition_path}/{file_name}" if partition_path else file_name


def file_schema(table_schema: pa.Schema) -> pa.Schema:
    """The layout of a base file: Hudi's five columns, then the table's, all nullable."""
    meta = [pa.field(name, pa.string()) for name in columns.META]
    return pa.schema(meta + [pa.field(field.name, field.type) for field in table_schema])


def as_written_now(stored: pa.Table, schema: pa.Schema, names: Mapping[str, str]) -> pa.Table:
    """The rows of a base file in the layout ``schema``; ``names`` says what the file calls each column.

    A column that the file was written without is null; a type that was narrower is widened.
    """
    own = [
        stored[names[field.name]].cast(field.type) if field.name in names else pa.nulls(len(stored), field.type)
        for field in schema
    ]
    return pa.table(own, schema=schema)


@contextlib.contextmanager
def opened(folder: Folder, relative: str, size_bytes: int) -> Iterator[pq.ParquetFile]:
    """A base file to read. Raises ``BaseFileDamaged`` unless it is there with the size that was published."""
    try:
        source = folder.filesystem.open_input_file(folder.path(relative))
    except FileNotFoundError as exc:
        raise errors.BaseFileDamaged(
            f"the base file {folder.path(relative)} is on the table's timeline but not in storage; "
            "restore it, or restore the table to a savepoint before it was lost",
            {"path": relative},
        ) from exc
    with source:
        if source.size() != size_bytes:
            raise errors.BaseFileDamaged(
                f"the base file {folder.path(relative)} has {source.size()} bytes in storage and "
                f"{size_bytes} on the table's timeline: it was overwritten or cut off after it was published",
                {"path": relative},
            )
        with pq.ParquetFile(source) as file:
            yield file


def write(folder: Folder, relative: str, schema: pa.Schema, tables: Iterable[pa.Table]) -> int:
    """Write a base file and give its size in bytes; whatever fails, no file of that name is left behind."""
    path = folder.path(relative)
    if isinstance(folder.filesystem, pafs.LocalFileSystem):
        # Object storage has no folders: there it would make an object for each.
        folder.filesystem.create_dir(path.rpartition("/")[0], recursive=True)
    try:
        with folder.filesystem.open_output_stream(path) as sink:
            _write_rows(sink, schema, tables)
            return int(sink.tell())
    except BaseException:
        # Leaving the stream's block by an exception publishes what was written so far.
        folder.delete(relative)
        raise


def _write_rows(sink: pa.NativeFile, schema: pa.Schema, tables: Iterable[pa.Table]) -> None:
    groups = _in_row_groups(tables)
    first = next(groups, schema.empty_table())
    with pq.ParquetWriter(
        sink,
        schema,
        compression="zstd",
        use_dictionary=dictionary_columns(first),
        coerce_timestamps="us",
    ) as writer:
        writer.write_table(first, row_group_size=ROW_GROUP_ROWS)
        for group in groups:
            writer.write_table(group, row_group_size=ROW_GROUP_ROWS)


def dictionary_columns(table: pa.Table) -> list[str]:
    """The columns whose first rows repeat so much that a dictionary pays.

    On other columns it costs 2.4 times the writing time and makes the file larger (measured).
    """
    sample = table.slice(0, _SAMPLE_ROWS)
    limit = len(sample) * _DICTIONARY_SHARE_MAX
    return [
        field.name
        for field in sample.schema
        if not pa.types.is_nested(field.type)
        and not pa.types.is_boolean(field.type)
        and pc.count_distinct(sample[field.name], mode="all").as_py() <= limit
    ]


def _in_row_groups(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The same rows in tables of at least a row group each: each call of the writer starts a row group."""
    held: list[pa.Table] = []
    rows = 0
    for table in tables:
        held.append(table)
        rows += len(table)
        if rows >= ROW_GROUP_ROWS:
            yield pa.concat_tables(held)
            held, rows = [], 0
    if rows:
        yield pa.concat_tables(held)
