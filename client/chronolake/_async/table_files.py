"""The files of a table: its snapshots, scans, file groups and changes, as of completion times."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from chronolake import calls
from chronolake._async import arrow
from chronolake._async.stored_table import AsyncStoredTable
from chronolake._concurrency import awaiting as concurrency
from chronolake_model.cuts import AsOf
from chronolake_model.files import Changes, FileGroupName, Snapshot
from chronolake_model.filters import Filter
from chronolake_model.slices import (
    BucketName,
    FileGroupHistory,
    FoundFileGroups,
    Partitions,
    PendingFileGroups,
    ReplacedFileGroups,
)
from chronolake_model.times import Moment
from chronolake_model.vocabulary import View

if TYPE_CHECKING:
    import pyarrow as pa


class AsyncTableFiles(AsyncStoredTable):
    """The methods of ``AsyncTable`` that list files."""

    async def snapshot(
        self,
        as_of: AsOf | None = None,
        partition_path: str | None = None,
        *,
        view: View = View.MERGED,
        before_or_on: Moment | None = None,
    ) -> Snapshot:
        """The live file slices as of a completion time, by default as of now.

        ``as_of`` is an instant's digits, an aware datetime, an instant that has completed, ``"latest"``,
        ``"earliest"``, the first time as of which the table can be read, or a cut of the client's ``cut``; the
        same holds for the other methods. Raises ``ValueError`` for a cut without this table.
        ``view`` selects the slice of each file group. With ``before_or_on``, only slices with this base instant
        time or an earlier one are returned. All pages are as of the same time. Raises ``HistoryCleaned``.
        """
        call = calls.files.snapshot(self.name, self.moment(as_of), partition_path, view, before_or_on)
        return calls.base.merge_pages(await self._transport.all_pages(call), "slices")

    def snapshot_batches(
        self, as_of: AsOf | None = None, partition_path: str | None = None
    ) -> concurrency.RecordBatches:
        """The snapshot as record batches, with a row for each data file; needs pyarrow.

        Each batch is fetched when it is needed. After the first batch nothing is retried, so
        ``ConnectionFailed`` may be raised between two batches.
        """
        return arrow.batches(
            self._transport, calls.files.snapshot(self.name, self.moment(as_of), partition_path)
        )

    async def snapshot_arrow(self, as_of: AsOf | None = None, partition_path: str | None = None) -> pa.Table:
        """The snapshot as an Arrow table; needs pyarrow."""
        return await arrow.table(
            self._transport, calls.files.snapshot(self.name, self.moment(as_of), partition_path)
        )

    async def scan(
        self,
        filter: Filter | None,
        as_of: AsOf | None = None,
        partition_paths: Iterable[str] | None = None,
    ) -> Snapshot:
        """A snapshot without the file slices that cannot contain a matching record; see ``chronolake.col``.

        Without a filter, it is the snapshot of these partitions. The server prunes by partition paths and by
        the column statistics of the files. The slices returned may still have no matching record: filter the
        records too. Raises ``InvalidFilter``.
        """
        call = calls.files.scan(self.name, self.moment(as_of), partition_paths, filter)
        return calls.base.merge_pages(await self._transport.all_pages(call), "slices")

    def scan_batches(
        self, filter: Filter, as_of: AsOf | None = None, partition_paths: Iterable[str] | None = None
    ) -> concurrency.RecordBatches:
        """The scan as record batches, see ``snapshot_batches``."""
        return arrow.batches(
            self._transport, calls.files.scan(self.name, self.moment(as_of), partition_paths, filter)
        )

    async def scan_arrow(
        self, filter: Filter, as_of: AsOf | None = None, partition_paths: Iterable[str] | None = None
    ) -> pa.Table:
        """The scan as an Arrow table; needs pyarrow."""
        return await arrow.table(
            self._transport, calls.files.scan(self.name, self.moment(as_of), partition_paths, filter)
        )

    async def file_groups(
        self,
        names: Iterable[FileGroupName] = (),
        as_of: AsOf | None = None,
        *,
        buckets: Iterable[BucketName] = (),
    ) -> FoundFileGroups:
        """The live slices of some file groups, and of those of buckets, as of a completion time, in this order.

        10,000 of each at most. It costs the same in a table of any size. Raises ``HistoryCleaned``.
        """
        call = calls.files.file_groups(self.name, names, buckets, self.moment(as_of))
        return calls.base.merge_pages(await self._transport.all_pages(call), "file_groups")

    async def file_group(
        self, file_id: str, partition_path: str = "", as_of: AsOf | None = None
    ) -> FileGroupHistory:
        """A file group with all its slices as of ``as_of``, newest last, and the instant that replaced it.

        It has no slices if the group did not exist.
        """
        call = calls.files.file_group(self.name, file_id, partition_path, self.moment(as_of))
        return calls.base.merge_pages(await self._transport.all_pages(call), "slices")

    async def partitions(self, as_of: AsOf | None = None) -> Partitions:
        """The partition paths with live file slices as of ``as_of``, and their totals."""
        call = calls.files.partitions(self.name, self.moment(as_of))
        return calls.base.merge_pages(await self._transport.all_pages(call), "partitions")

    async def replaced_file_groups(self, as_of: AsOf | None = None) -> ReplacedFileGroups:
        """The file groups that were replaced as of ``as_of``, each with the instant that replaced it."""
        call = calls.files.replaced_file_groups(self.name, self.moment(as_of))
        return calls.base.merge_pages(await self._transport.all_pages(call), "file_groups")

    async def pending_file_groups(self, as_of: AsOf | None = None) -> PendingFileGroups:
        """The file groups in the plans of table services that were pending as of ``as_of``."""
        call = calls.files.pending_file_groups(self.name, self.moment(as_of))
        return calls.base.merge_pages(await self._transport.all_pages(call), "file_groups")

    async def changes(self, from_: AsOf | None = None, to: AsOf | None = None) -> Changes:
        """The instants that completed in (from_, to], and the file groups that they changed.

        By default the range is from the beginning up to now. The answer's ``to`` is the start of the next
        range. Both may be ``"earliest"``, the first time as of which the table can be read, or ``"latest"``,
        its last completion. Raises ``HistoryCleaned`` for a time before the earliest.
        """
        call = calls.files.changes(self.name, self.moment(from_), self.moment(to))
        return calls.files.merge_changes(await self._transport.all_pages(call))

    def changes_batches(self, from_: AsOf | None = None, to: AsOf | None = None) -> concurrency.RecordBatches:
        """The changes as record batches, see ``snapshot_batches``; the schema's metadata has ``to``."""
        return arrow.batches(
            self._transport, calls.files.changes(self.name, self.moment(from_), self.moment(to))
        )

    async def changes_arrow(self, from_: AsOf | None = None, to: AsOf | None = None) -> pa.Table:
        """The changes as an Arrow table; needs pyarrow."""
        return await arrow.table(
            self._transport, calls.files.changes(self.name, self.moment(from_), self.moment(to))
        )
