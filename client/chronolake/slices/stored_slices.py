"""File slices as executors get them: the base file and the log files that a reader merges.

The rows of a write whose index is not a hash name their file group by a number (``NumberedGroup``).
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from chronolake_model import decoding
from chronolake_model.files import Changes, DataFile, FileSlice
from chronolake_model.tables import Table
from chronolake_model.vocabulary import IndexType


class SliceFile(msgspec.Struct, frozen=True, array_like=True):
    """A base file or a log file; ``path`` is relative to the table's base path.

    ``schema_version`` is the version of the schema with which it was written, ``has_field_ids`` whether it
    carries the field ids of its columns.
    """

    path: str
    size_bytes: int
    schema_version: int
    has_field_ids: bool


class StoredSlice(msgspec.Struct, frozen=True, array_like=True):
    """The files of one file group that a reader merges. ``base`` is None if the group began with log files."""

    partition_path: str
    file_id: str
    base: SliceFile | None
    logs: list[SliceFile] = []

    @property
    def files(self) -> list[SliceFile]:
        """The base file, if there is one, and the log files."""
        return [*([] if self.base is None else [self.base]), *self.logs]

    def to_json(self) -> str:
        """The text of the slice."""
        return msgspec.json.encode(self).decode()


def from_json(text: str) -> StoredSlice:
    """The slice in a text of ``StoredSlice.to_json``."""
    return decoding.decode(text, StoredSlice)


def of(slice_: FileSlice) -> StoredSlice:
    """The slice as an answer of the server has it."""
    base = None if slice_.base_file is None else _file(slice_.base_file)
    return StoredSlice(slice_.partition_path, slice_.file_id, base, list(map(_file, slice_.log_files)))


def schema_versions(slices: Iterable[FileSlice]) -> set[int]:
    """The versions of the schema that the files of the slices were written with."""
    return {file.schema_version for slice_ in slices for file in files_of(slice_)}


def files_of(slice_: FileSlice) -> list[DataFile]:
    """The base file, if there is one, and the log files."""
    return [*([] if slice_.base_file is None else [slice_.base_file]), *slice_.log_files]


def base_only(slices: Iterable[FileSlice]) -> list[FileSlice]:
    """The slices that have a base file, without their log files: those of the read-optimised view."""
    return [msgspec.structs.replace(slice_, log_files=[]) for slice_ in slices if slice_.base_file is not None]


def may_have_moved(table: Table, changes: Changes) -> bool:
    """Whether a record may now be in any other file group than before, so that all of them are searched.

    One of a replaced file group may, as after a clustering; and where the index looks keys up, one that was
    deleted and inserted again.
    """
    is_looked_up = table.index.type is not IndexType.BUCKET
    return is_looked_up or any(group.after is None for group in changes.file_groups)


class NumberedGroup(msgspec.Struct, frozen=True, array_like=True):
    """A file group that a write may change or open.

    ``slice_`` is its current slice, None for a new group. With ``rewrites`` the rows are merged into its base
    file, also in a merge-on-read table.
    """

    number: int
    partition_path: str
    file_id: str
    slice_: StoredSlice | None = None
    rewrites: bool = False


def slices_of(groups: Iterable[NumberedGroup]) -> list[StoredSlice]:
    """The slices of those file groups that have one."""
    return [group.slice_ for group in groups if group.slice_ is not None]


def _file(file: DataFile) -> SliceFile:
    return SliceFile(file.path, file.size_bytes, file.schema_version, file.has_field_ids)
