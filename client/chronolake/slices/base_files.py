"""Base files in storage: their layout, checked reads, and atomic writes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from chronolake import storage
from chronolake.errors import ChronolakeError
from chronolake.slices import column_encodings, columns, errors
from chronolake_model.deletable import LogHead
from chronolake_storage.claims import Owner
from chronolake_storage.errors import ClaimRefused, StorageError
from chronolake_storage.guard import Deleting, Guard
from chronolake_storage.local import LocalFiles
from chronolake_storage.overlaps import TablePlace

ROW_GROUP_ROWS = 500_000
ROW_GROUP_BYTES = 128 * 2**20
"""Bytes in memory from which on a row group of fewer rows is full: readers and merges hold one of them."""
_ENCODED_ROWS = 16_384
_PAGE_BYTES = 256 * 2**10
"""Pages of this size are compressed where they are, in the processor's cache: writing takes 8 % less time."""
FooterMetadata: TypeAlias = Callable[[], Mapping[bytes, bytes]]
"""The metadata of the footer, asked for after all rows are written."""


@dataclass(frozen=True, slots=True)
class TableFolder:
    """A table's folder in storage; paths given to its methods are relative to the table's base path."""

    filesystem: pafs.FileSystem
    root: str

    @classmethod
    def of(cls, base_path: str, storage_options: Mapping[str, str] | None = None) -> TableFolder:
        """The folder that a URI or a local path names; the options are those of ``chronolake.storage``."""
        return cls(*storage.open_filesystem(base_path, storage_options))

    @property
    def is_local(self) -> bool:
        """Whether it is on a local disk."""
        return isinstance(self.filesystem, pafs.LocalFileSystem)

    def path(self, relative: str) -> str:
        """The path of a file in the file system."""
        return f"{self.root}/{relative}"

    def create(self, relative: str) -> pa.NativeFile:
        """A new file to write. On a local disk no link is followed below the base path."""
        if self.is_local:
            descriptor = LocalFiles(self.root).open_new(relative)
            return _opened(descriptor)
        return self.filesystem.open_output_stream(self.path(relative))


def _opened(descriptor: int) -> pa.NativeFile:
    """An open file, written by Arrow itself where the system names open files: a file of Python copies all."""
    try:
        opened = pa.OSFile(f"/dev/fd/{descriptor}", mode="wb")
    except OSError:
        return pa.PythonFile(os.fdopen(descriptor, "wb"), mode="w")
    os.close(descriptor)
    return opened


class UnreportedFiles:
    """The metastore's side of the guard on an executor: unreported files of an attempt are never needed.

    So an executor need not reach the server. The file names have the attempt's own write token, so no other
    attempt writes these files, and no instant can publish them before they are reported.
    """

    def owner(self) -> Owner | None:
        """As ``Metastore.owner``: an executor takes no claim over."""
        return None

    def tables(self) -> Iterable[TablePlace]:
        """As ``Metastore.tables``: an executor makes no first claim, because it cannot compare folders."""
        raise ClaimRefused("the claim of the table's base path, which the driver made, does not exist any more")

    def needed_files(
        self, _deleting: Deleting, _paths: Sequence[str], _recorded: LogHead | None
    ) -> Mapping[str, str]:
        """As ``Metastore.needed_files``."""
        return {}

    def is_hidden(self) -> bool:
        """As ``Metastore.is_hidden``: an executor deletes no files that were published."""
        return False


@dataclass(frozen=True, slots=True)
class Attempt:
    """The attempt of a task that writes files of an instant of a table."""

    base_path: str
    storage_options: Mapping[str, str]
    owner: Owner
    requested_time: str

    def discard(self, paths: Iterable[str]) -> None:
        """Delete files that were not reported. The rollback deletes those that could not be deleted here."""
        deleting = Deleting(self.requested_time, self.requested_time)
        with contextlib.suppress(StorageError, ChronolakeError):
            files = storage.open_files(self.base_path, self.storage_options)
            guard = Guard(files, self.owner, UnreportedFiles(), own_files_only=True)
            list(guard.delete(deleting, paths))


@contextlib.contextmanager
def open_base_file(
    folder: TableFolder,
    relative: str,
    size_bytes: int,
    *,
    has_dictionaries: bool = False,
    reads_columns: bool = False,
) -> Iterator[pq.ParquetFile]:
    """A base file to read. Raises ``BaseFileDamaged`` unless it exists with its published size.

    With ``has_dictionaries`` the columns ``columns.REPEATED`` are read as dictionaries. If it ``reads_columns``
    one by one, the bytes of a column on a local disk are read when it is decoded, and not those of all before.
    """
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
        repeated = columns.REPEATED if has_dictionaries else None
        at_once = not (reads_columns and folder.is_local)
        with pq.ParquetFile(source, read_dictionary=repeated, pre_buffer=at_once) as file:
            yield file


def write(
    folder: TableFolder,
    relative: str,
    schema: pa.Schema,
    tables: Iterable[pa.Table],
    metadata: FooterMetadata = dict,
) -> int:
    """Write a base file and return its size in bytes. After a failure, discard the partial file."""
    with folder.create(relative) as sink:
        # pyarrow closes the file when an exception leaves this block, so a partial file may appear.
        write_rows(sink, schema, tables, metadata, is_local=folder.is_local)
        return int(sink.tell())


def write_rows(
    sink: pa.NativeFile,
    schema: pa.Schema,
    tables: Iterable[pa.Table],
    metadata: FooterMetadata = dict,
    *,
    is_local: bool = False,
) -> None:
    """Write rows as the Parquet file of a base file, which may be for a local disk, or of a log block."""
    groups = _in_row_groups(tables)
    first = next(groups, schema.empty_table())
    dictionaries = column_encodings.dictionary_columns(first)
    differences = column_encodings.differences(first, dictionaries)
    # The stored Arrow schema would say which columns were dictionaries; nothing else is in it alone.
    with pq.ParquetWriter(
        sink,
        schema,
        compression=column_encodings.codecs(first, dictionaries, differences, is_local=is_local),
        use_dictionary=dictionaries,
        column_encoding=differences or None,
        write_statistics=column_encodings.with_statistics(schema),
        coerce_timestamps="us",
        store_schema=False,
        write_batch_size=_ENCODED_ROWS,
        data_page_size=_PAGE_BYTES,
    ) as writer:
        writer.write_table(first, row_group_size=ROW_GROUP_ROWS)
        # No variable holds a row group while the next one is read.
        del first
        for _ in map(lambda group: writer.write_table(group, row_group_size=ROW_GROUP_ROWS), groups):
            pass
        writer.add_key_value_metadata(metadata())


def _in_row_groups(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The same rows in tables of about a row group each: each call of the writer starts a row group.

    One is full if another table of the size of the last one would exceed the bounds: so a merge does not hold
    two row groups of a file that it rewrites.
    """
    held: list[pa.Table] = []
    rows, size = 0, 0
    for table in tables:
        held.append(table)
        rows += len(table)
        size += table.nbytes
        is_full = rows + len(table) > ROW_GROUP_ROWS or size + table.nbytes > ROW_GROUP_BYTES
        del table
        if is_full:
            yield _concatenated(held)
            held, rows, size = [], 0, 0
    if rows:
        yield _concatenated(held)


def _concatenated(tables: Sequence[pa.Table]) -> pa.Table:
    # After a second dictionary, the writer would write the texts themselves.
    return pa.concat_tables(tables).unify_dictionaries()
