"""Rows in memory, by bucket, with a count of their bytes. Pure: it writes nothing."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from chronolake_model.slices import BucketName

COLUMN_BYTES: Final = 512
"""Bytes of a column of a piece beside its values; in small pieces they are the larger part."""
_SMALL_ROWS: Final = 4_096
"""Pieces with fewer rows are put together."""


def size_of(rows: pa.Table) -> int:
    """The bytes that a piece takes in memory."""
    return int(rows.nbytes) + COLUMN_BYTES * int(rows.num_columns)


class _Buffer:
    """The rows of one bucket: those that were held back by an earlier flush, and new ones in their order."""

    def __init__(self, held: pa.Table | None = None) -> None:
        self._held = held
        self._pieces: list[pa.Table] = []
        self.new_bytes = 0
        """The bytes of the new rows, which a flush can write before the barrier."""
        self.count = 0 if held is None else len(held)

    @property
    def bytes(self) -> int:
        return self.new_bytes + (0 if self._held is None else size_of(self._held))

    def add(self, rows: pa.Table) -> None:
        self.count += len(rows)
        # Each row is copied a few times only: a piece is put together with one that is no larger.
        while self._pieces and len(self._pieces[-1]) <= len(rows) < _SMALL_ROWS:
            last = self._pieces.pop()
            self.new_bytes -= size_of(last)
            rows = pa.concat_tables([last, rows]).combine_chunks()
        self._pieces.append(rows)
        self.new_bytes += size_of(rows)

    def rows(self) -> pa.Table:
        held = [] if self._held is None else [self._held]
        return pa.concat_tables([*held, *self._pieces], promote_options="default")


class Buffers:
    """The rows of all buckets of a task."""

    def __init__(self) -> None:
        self._buffers: dict[BucketName, _Buffer] = {}
        self.bytes = 0
        """The bytes of all rows."""

    def __len__(self) -> int:
        return len(self._buffers)

    def count(self, bucket: BucketName) -> int:
        """The number of rows of a bucket."""
        return self._buffers[bucket].count

    def first(self, bytes_max: int) -> list[BucketName]:
        """Some buckets that together have this number of bytes; one of them may have more."""
        buckets: list[BucketName] = []
        total = 0
        for bucket, buffer in self._buffers.items():
            total += buffer.bytes
            if buckets and total > bytes_max:
                break
            buckets.append(bucket)
        return buckets

    def rows(self, bucket: BucketName) -> pa.Table:
        """The rows of a bucket, in the order of their arrival."""
        return self._buffers[bucket].rows()

    def add(self, bucket: BucketName, rows: pa.Table) -> None:
        """Add rows to a bucket."""
        buffer = self._buffers.setdefault(bucket, _Buffer())
        self.bytes -= buffer.new_bytes
        buffer.add(rows)
        self.bytes += buffer.new_bytes

    def flushed(self, bucket: BucketName, held: pa.Table | None = None) -> None:
        """Forget the rows of a bucket but those that the flush has held back."""
        self.bytes -= self._buffers.pop(bucket).bytes
        if held is not None and len(held):
            self._buffers[bucket] = _Buffer(held)
            self.bytes += self._buffers[bucket].bytes

    def flushable(self, bucket: BucketName) -> int:
        """The bytes of a bucket that a flush can write before the barrier."""
        return self._buffers[bucket].new_bytes if bucket in self._buffers else 0

    def largest(self) -> BucketName | None:
        """The bucket with the most bytes that a flush can write before the barrier."""
        bucket = max(self._buffers, key=self.flushable, default=None)
        return bucket if bucket is not None and self.flushable(bucket) else None

    def clear(self) -> None:
        """Forget all rows."""
        self._buffers.clear()
        self.bytes = 0
