"""The file groups of a write whose index is not a hash: rows name them by number."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from chronolake_spark.read.slices.stored_slices import StoredSlice


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
