"""Parts of the snapshot of a table: the slices of some partitions, or of some file groups.

A write asks for those that its rows concern, so it costs the same in a table of any size. All functions read
the table as of a completion time, so all answers for one time are of one state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, TypeVar

import pyarrow as pa

from chronolake.indexes.tables import BlockingTable
from chronolake.slices.stored_slices import StoredSlice
from chronolake_model.files import FileGroupName, FileSlice
from chronolake_model.filters import Filter
from chronolake_model.scans import PARTITIONS_MAX
from chronolake_model.slices import FILE_GROUPS_MAX
from chronolake_model.tables import SchemaField, Table

NUMBER: Final = "number"
_Name = TypeVar("_Name")


def last_completion(table: BlockingTable, as_of: str) -> str | None:
    """The last completion of the table at or before ``as_of``; None if there was none."""
    return table.file_groups(as_of=as_of).as_of


def of_partitions(
    table: BlockingTable, as_of: str, paths: Iterable[str], filter_: Filter | None = None
) -> list[FileSlice]:
    """The slices of partitions, with a filter only those that may have a matching record."""
    return [
        slice_
        for portion in _portions(sorted(set(paths)), PARTITIONS_MAX)
        for slice_ in table.scan(filter_, as_of, portion).slices
    ]


def of_file_groups(table: BlockingTable, as_of: str, names: pa.Table) -> tuple[list[FileSlice], pa.Table]:
    """The slices of those of the file groups that are live. ``names`` has partition paths and file ids.

    With the slices come the same two columns of them, and their numbers: the places in the list.
    """
    pairs = sorted(set(zip(*names.to_pydict().values(), strict=True)))
    slices = [
        group.slice
        for portion in _portions([FileGroupName(*pair) for pair in pairs], FILE_GROUPS_MAX)
        for group in table.file_groups(portion, as_of).file_groups
        if group.slice is not None
    ]
    live = [
        pa.array([slice_.partition_path for slice_ in slices], pa.string()),
        pa.array([slice_.file_id for slice_ in slices], pa.string()),
        pa.array(range(len(slices)), pa.int32()),
    ]
    return slices, pa.table(live, names=[*names.column_names, NUMBER])


def fields_of_slices(
    table: BlockingTable, definition: Table, slices: Iterable[StoredSlice]
) -> dict[int, list[SchemaField]]:
    """The columns of the schema versions of the files of slices, and of the definition."""
    used = {file.schema_version for slice_ in slices for file in slice_.files}
    return {**fields_of_versions(table, definition, used), definition.schema_version: definition.schema}


def fields_of_versions(
    table: BlockingTable, definition: Table, used: Iterable[int]
) -> dict[int, list[SchemaField]]:
    """The columns of these schema versions, but for the definition's."""
    return {version: table.schema(version).fields for version in {*used} - {definition.schema_version}}


def _portions(names: list[_Name], size: int) -> Iterator[list[_Name]]:
    return (names[first : first + size] for first in range(0, len(names), size))
