"""The file groups of a write whose index is not a hash: rows name them by number. No Spark."""

from __future__ import annotations

import msgspec

from chronolake_spark.stored_slices import StoredSlice


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
