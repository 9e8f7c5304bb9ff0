"""The methods of a table that concern its storage: rollbacks, cleans, readers, markers, sweeps, orphans."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from typing_extensions import override

from chronolake import calls
from chronolake._access import ServerAccess
from chronolake._async import arrow, deletions
from chronolake._async.markers import AsyncDirectMarkers, AsyncMarkers, AsyncServerMarkers
from chronolake._async.reading import AsyncReading
from chronolake._async.services import AsyncServices
from chronolake._async.timeline import AsyncTimeline
from chronolake._async.transport import AsyncTransport
from chronolake._async.write import AsyncWrite, finish_clean, finish_rollback
from chronolake._concurrency import awaiting as concurrency
from chronolake._http import default_writer
from chronolake._location import TableLocation
from chronolake._metastore import RestMetastore
from chronolake_model import operations, tables as model
from chronolake_model.cleans import CleanPolicy, CleanPreview, PlanClean
from chronolake_model.credentials import StorageAccess, TableCredentials
from chronolake_model.cuts import AsOf, moment_of
from chronolake_model.deletable import Deletable, FindDeletable, FindDeletableOrphans
from chronolake_model.files import FileGroupName
from chronolake_model.instants import LEASE_SECONDS_DEFAULT, Instant, RollbackInstant
from chronolake_model.markers import DeletedFile, Marker, MarkerOutcome, MarkersType
from chronolake_model.orphans import Orphans
from chronolake_model.publication import Publication, TakePublicationLease
from chronolake_model.readers import BeginReading, ReaderLease, RenewReading
from chronolake_model.sweeps import Swept
from chronolake_model.times import Moment, digits_of

if TYPE_CHECKING:
    from chronolake_storage.publications import Inspection


class AsyncStoredTable:
    """The methods of ``AsyncTable`` that concern its storage."""

    def __init__(
        self,
        transport: AsyncTransport,
        definition: model.Table,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        self._transport = transport.for_table(definition.table_id)
        self._storage_options = storage_options
        self._adopt(definition)

    def _adopt(self, definition: model.Table) -> None:
        """Use this definition from now on: its name, its properties and its storage."""
        self._definition = definition
        metastore = RestMetastore(concurrency.blocking_send(self._transport.send), definition)
        options = self._transport.keys.options_of(self._storage_options, definition)
        self._location = TableLocation(definition, options, metastore)

    @override
    def __repr__(self) -> str:
        columns = ", ".join(f"{field.name} {field.type}" for field in self._definition.schema)
        return f"<{type(self).__name__} {self.name} ({columns}), key {self._definition.record_key_fields}>"

    @property
    def name(self) -> str:
        """``namespace.table``."""
        return self._definition.name

    @property
    def definition(self) -> model.Table:
        """The table's definition, as last fetched."""
        return self._definition

    @property
    def access(self) -> ServerAccess:
        """As ``Client.access``."""
        return self._transport.endpoint.access

    @property
    def storage_options(self) -> dict[str, str]:
        """The storage options from the table's properties and from ``connect_async``, including secrets."""
        return self._location.options

    async def credentials(self, access: StorageAccess | str = StorageAccess.READ) -> TableCredentials:
        """Short-lived keys for the table's files in S3, for other programs: read, write or maintain.

        With the storage option ``credentials`` this client asks for them itself. Raises ``Forbidden``,
        ``CredentialsNotVended`` and ``CredentialsUnavailable``.
        """
        return await self._transport.send(calls.catalog.get_credentials(self.name, StorageAccess(access)))

    async def write(self, requested_time: str) -> AsyncWrite:
        """Open the write of an instant that was begun before, perhaps in another process.

        Its lease is renewed only while it is used as a context manager. Raises ``InstantNotFound``.
        """
        return self._as_write(await self.instant(requested_time))

    async def instant(self, requested_time: str) -> Instant:
        """One instant of the timeline. Raises ``InstantNotFound``."""
        return await self._transport.send(
            calls.call(operations.timeline.GET_INSTANT, self.name, requested_time)
        )

    async def rollback(
        self,
        requested_time: str,
        reason: str = "",
        *,
        writer: str | None = None,
        files_to_delete: Iterable[str] = (),
        execute: bool | None = None,
    ) -> Instant:
        """Roll back an instant whose writer is gone; ``writer`` is user@host:pid unless given.

        A writer other than the instant's own can roll it back only after its lease has ended. The rollback is
        an instant of its own, in ``rolled_back_by`` of the answer. It deletes the files that the instant has
        marked, or only ``files_to_delete``, which must be names of data files of the instant. If ``execute`` is
        false, the rollback waits for another executor, see ``finish_rollbacks``; if it is not given, the
        table's property ``deletions.executor`` decides.

        Raises ``LeaseLive``, ``InstantNotFound``, ``IllegalTransition``, ``InvalidPlan``; and ``StorageFailed``
        when files could not be deleted: the instant is rolled back, but its rollback is still pending.
        """
        execute = self._location.is_client_executor if execute is None else execute
        body = RollbackInstant(writer or default_writer(), reason, list(files_to_delete), execute=execute)
        call = calls.call(operations.timeline.ROLL_BACK_INSTANT, self.name, requested_time, body=body)
        rolled_back = await self._transport.send(call)
        if execute:
            await finish_rollback(self._transport, self._location, rolled_back, body.writer)
        return rolled_back

    async def finish_rollbacks(self, *, writer: str | None = None) -> list[Instant]:
        """Execute the pending rollbacks that have no executor with a live lease, and return them.

        Raises ``StorageFailed``, as ``rollback``, and ``MetastoreMoved``, also if there are none.
        """
        body = RollbackInstant(writer or default_writer())
        finished: list[Instant] = []
        pending = [instant async for instant in self.timeline.rollbacks().pending()]
        if not pending:
            await deletions.refuse_on_copy(self._transport)
        for rollback in pending:
            assert rollback.target is not None
            call = calls.call(operations.timeline.ROLL_BACK_INSTANT, self.name, rollback.target, body=body)
            rolled_back = await self._transport.send(call)
            if await finish_rollback(self._transport, self._location, rolled_back, body.writer):
                finished.append(await self.instant(rollback.requested_time))
        return finished

    async def clean(
        self,
        *,
        retain_commits: int | None = None,
        retain_hours: int | None = None,
        retain_versions: int | None = None,
        writer: str | None = None,
        execute: bool | None = None,
    ) -> list[Instant]:
        """Delete files that are not live any more, and return the cleans that deleted them.

        One policy determines which slices are kept: those that were live since the last ``retain_commits``
        completed writes (10 unless given), those that were live in the last ``retain_hours``, or the last
        ``retain_versions`` slices of each file group. As soon as a clean is planned, reads as of earlier times
        are refused, see ``definition.cleaned_before``. A plan has 10,000 files at most. An interrupted clean is
        resumed first. If ``execute`` is false, the clean waits for another executor; if it is not given, the
        table's property ``deletions.executor`` decides.

        Raises ``LeaseLive`` while another process executes a clean, and ``StorageFailed`` when files could not
        be deleted: then the clean is still pending.
        """
        policy = CleanPolicy(retain_commits, retain_hours, retain_versions)
        execute = self._location.is_client_executor if execute is None else execute
        call = calls.call(operations.timeline.PLAN_CLEAN, self.name, body=_plan_clean(policy, writer, execute))
        cleans: list[Instant] = []
        if execute and self._location.is_publication_off:
            # Until Hudi's readers find no table, the server keeps the files that they see.
            from chronolake._async import publishing  # noqa: PLC0415  # slow

            await publishing.publish_if_possible(self._transport, self._location, self.name)
        while (clean := (await self._transport.send(call)).clean) is not None:
            if not execute:
                return [clean]
            cleans.append(await finish_clean(self._transport, self._location, clean))
        return cleans

    async def preview_clean(
        self,
        *,
        retain_commits: int | None = None,
        retain_hours: int | None = None,
        retain_versions: int | None = None,
    ) -> CleanPreview:
        """The files that ``clean`` would delete now, 10,000 at most. Nothing changes."""
        policy = CleanPolicy(retain_commits, retain_hours, retain_versions)
        return await self._transport.send(calls.call(operations.timeline.PREVIEW_CLEAN, self.name, body=policy))

    def moment(self, as_of: AsOf | None) -> Moment | None:
        """The completion time of this table that ``as_of`` names; see ``chronolake_model.cuts.moment_of``."""
        return moment_of(as_of, self._definition)

    async def reading(
        self,
        as_of: AsOf | None = None,
        *,
        reader: str | None = None,
        lease_seconds: int = LEASE_SECONDS_DEFAULT,
        follows: bool = False,
    ) -> AsyncReading:
        """Take a reader's lease: no clean deletes files that the table had as of a completion time.

        ``as_of`` is the last completion unless given; it may be ``"earliest"``. Use the result as a context
        manager, which renews the lease::

            async with await table.reading() as reading:
                await table.snapshot(reading.as_of)

        ``reader`` is user@host:pid unless given. With ``follows`` the lease holds all later times too, so that
        the changes since ``as_of`` can be read; ``renew`` moves it forward. Raises ``HistoryCleaned`` when that
        time is cleaned.
        """
        moment = self.moment(as_of)
        time = None if moment is None else digits_of(moment)
        body = BeginReading(reader or default_writer(), time, lease_seconds, follows)
        return AsyncReading(
            self._transport,
            await self._transport.send(calls.call(operations.files.BEGIN_READING, self.name, body=body)),
        )

    async def resume_reading(self, lease_id: str, *, lease_seconds: int | None = None) -> AsyncReading:
        """Renew the lease of a reader that ended without releasing it, as after a crash.

        Raises ``ReaderNotFound`` when the lease has ended.
        """
        call = calls.call(operations.files.RENEW_READING, self.name, lease_id, body=RenewReading(lease_seconds))
        return AsyncReading(self._transport, await self._transport.send(call))

    def readers(self) -> AsyncIterator[ReaderLease]:
        """The leases of readers that have not ended."""
        return self._transport.entries(calls.files.list_readers(self.name), lambda page: page.readers)

    async def create_markers(
        self, requested_time: str, markers: Iterable[Marker], *, writer: str | None = None
    ) -> list[MarkerOutcome]:
        """Create markers of a pending instant, 10,000 at most; see ``AsyncWrite.mark``.

        This is for tasks that have only the requested time of the instant. ``writer`` is the instant's writer.
        """
        await concurrency.run_blocking(self._location.claim_if_present)
        return await self.markers_of(requested_time, writer=writer).create(markers)

    def markers(self, requested_time: str, *, unpublished: bool = False) -> AsyncIterator[Marker]:
        """The markers of an instant, by path, fetched page by page.

        ``unpublished`` leaves out markers whose data files the instant has published. Raises
        ``InstantNotFound``, and ``ValueError`` for ``unpublished`` with direct markers: only the server knows
        the published files.
        """
        return self.markers_of(requested_time).listed(unpublished)

    async def has_marker(self, requested_time: str, marker: Marker) -> bool:
        """Whether an instant has this marker. Raises ``InstantNotFound``, ``ValueError``."""
        return await self.markers_of(requested_time).check(marker)

    async def delete_markers(self, requested_time: str) -> int:
        """Delete the markers of an instant that has completed or was rolled back, and return their number.

        The completion has deleted them, if they were at most 1,000. Raises ``IllegalTransition`` while the
        instant, or the rollback that deletes the marked files, is pending. This is not checked for direct
        markers.
        """
        return await self.markers_of(requested_time).delete_all()

    def markers_of(
        self, requested_time: str, *, markers: MarkersType | None = None, writer: str | None = None
    ) -> AsyncMarkers:
        """The markers of an instant, to create, list, check and delete.

        ``markers`` says where they are kept; unless given, the table's property ``markers.type`` does.
        ``writer`` is the writer of the instant, for creating markers. Nothing is sent yet.
        """
        if MarkersType(markers or self._location.markers_type) is MarkersType.DIRECT:
            return AsyncDirectMarkers(self._location.stored_markers(requested_time))
        return AsyncServerMarkers(self._transport, self.name, requested_time, writer)

    async def sweep(self, *, grace_seconds: int | None = None) -> Swept:
        """Find and delete late files: files that were written again after their deletion was reported.

        A task may write a file late, if it did not learn that its attempt was stopped or its instant rolled
        back. So a sweep looks up the names of deleted files, ``grace_seconds`` after the last deletion of an
        instant was reported. Unless given, this is the table's property ``deletions.grace-seconds``, else 900,
        and at least the instant's lease. A shorter time is safe if no writer is running. An instant with late
        files is swept again later. Raises ``StorageFailed`` when the storage does not answer, and
        ``MetastoreMoved``, also if nothing is due.
        """
        from chronolake._async import sweeps  # noqa: PLC0415  # slow

        return await sweeps.sweep(self._transport, self._location, self.name, grace_seconds)

    def planned_file_groups(self, requested_time: str) -> AsyncIterator[FileGroupName]:
        """All file groups of the plan of an instant, in its order. Raises ``InstantNotFound``."""
        call = calls.timeline.planned_file_groups(self.name, requested_time)
        return self._transport.entries(call, lambda page: page.file_groups)

    def deletions(self, requested_time: str) -> AsyncIterator[DeletedFile]:
        """The files that were reported deleted for an instant, by path; for a rollback those of its target.

        A late task may write one of them again, see ``sweep``. Raises ``InstantNotFound``.
        """
        call = calls.files.list_deletions(self.name, requested_time)
        return self._transport.entries(call, lambda page: page.files)

    async def deletable(
        self, requested_time: str, files: Iterable[DeletedFile], *, writer: str | None = None
    ) -> Deletable:
        """Ask which of up to 10,000 files may not be deleted for an instant.

        The answer's ``refused`` has these files and the reasons; all others may be deleted. A rollback deletes
        files of its target, a clean those of its plan, and a write those of its own attempts that it does not
        publish. ``writer`` is the writer that deletes them: without one, no file of a pending instant may be
        deleted. The answer holds only at that moment. Raises ``InstantNotFound``, ``BasePathShared``,
        ``MetastoreMoved``.
        """
        call = calls.call(
            operations.files.FIND_DELETABLE, self.name, requested_time, body=FindDeletable(list(files), writer)
        )
        return await self._transport.send(call)

    async def deletable_orphans(
        self, files: Iterable[DeletedFile], *, unknown_instants: bool = False
    ) -> Deletable:
        """Ask which of up to 10,000 files may not be deleted as orphans; see ``deletable``.

        With ``unknown_instants``, files of past instants that the table never had may be deleted. Raises as
        ``deletable``.
        """
        body = FindDeletableOrphans(list(files), unknown_instants)
        return await self._transport.send(
            calls.call(operations.files.FIND_DELETABLE_ORPHANS, self.name, body=body)
        )

    async def publication(self) -> Publication:
        """How far the table is published for Hudi's readers, and why not further."""
        return await self._transport.send(calls.call(operations.streams.GET_PUBLICATION, self.name))

    async def inspect_publication(self, *, reads_contents: bool = True) -> Inspection | None:
        """The differences of storage from the publication; None where nothing was published, or it is off.

        Of a table that is hidden because publication is off, only the file that shows it nevertheless differs.
        Nothing is changed. Without ``reads_contents``, only the listing is compared. Raises ``StorageFailed``.
        """
        from chronolake._async import publishing  # noqa: PLC0415  # slow

        return await publishing.inspect(
            self._transport, self._location, self.name, reads_contents=reads_contents
        )

    async def publish(
        self, *, publisher: str | None = None, lease_seconds: int = LEASE_SECONDS_DEFAULT
    ) -> Publication:
        """Publish the table for Hudi's readers up to the end of its log; if publication is off, hide it.

        ``publisher`` is user@host:pid unless given. Raises ``LeaseLive`` while another publisher is at it,
        ``NotPublished`` when publication is paused, or off and never begun, with the reason,
        ``PublicationFenced`` when another publisher took over meanwhile, and ``StorageFailed``: then the next
        call continues.
        """
        body = TakePublicationLease(publisher or default_writer(), lease_seconds)
        from chronolake._async import publishing  # noqa: PLC0415  # slow

        return await publishing.publish(self._transport, self._location, self.name, body)

    @property
    def services(self) -> AsyncServices:
        """The table services: ``await table.services.plan()``, ``preview()``, ``status()``."""
        return AsyncServices(self._transport, self.name)

    @property
    def timeline(self) -> AsyncTimeline:
        """The timeline, with filters named as in Hudi: ``await table.timeline.completed().last()``."""
        return AsyncTimeline(self._transport, self.name)

    def published_batches(self) -> concurrency.RecordBatches:
        """Every published file that is not cleaned, superseded or not, in no order, as record batches.

        The columns are ``path``, ``size_bytes``, ``requested_time`` and ``completion_time``; see
        ``snapshot_batches``.
        """
        return arrow.batches(self._transport, calls.call(operations.files.GET_PUBLISHED, self.name))

    async def orphans(self) -> Orphans:
        """The files in storage that are not published, each with the reason; needs pyarrow.

        The whole storage is listed once. A file that is written meanwhile is not reported, or is reported as
        pending. Raises ``StorageFailed``.
        """
        from chronolake._async import orphans  # noqa: PLC0415  # slow

        return await orphans.find(self, self._transport, self._location)

    async def delete_orphans(self, report: Orphans, *, unknown_instants: bool = False) -> Orphans:
        """Delete the files of a report that can never be published, and return the report with the results.

        These are files of instants that were rolled back, or that completed without publishing them; with
        ``unknown_instants`` also files of instants that the table never had. Files of pending instants, and
        files that are not data files, are never deleted. Raises ``MetastoreMoved``.
        """
        if report.table != self.name:
            raise ValueError(f"the report is for table {report.table}, not for {self.name}")
        from chronolake._async import orphans  # noqa: PLC0415  # slow

        await deletions.refuse_on_copy(self._transport)
        return await orphans.delete(report, self._location, unknown_instants=unknown_instants)

    async def claim_storage(self) -> None:
        """Claim the base path for this table, unless it has claimed it already.

        A writer without direct markers must call it once before it writes the first data file.
        ``AsyncWrite.mark`` and ``AsyncWrite.complete`` call it for a local folder that exists. Raises
        ``StorageFailed`` when the base path is claimed for another table or by another metastore, or overlaps
        that of another table.
        """
        await concurrency.run_blocking(self._location.claim)

    async def remove_undone_of_hudi(self, paths: Sequence[str]) -> None:
        """Remove files of Hudi's timeline of instants that were pending when the table was adopted, and undone.

        ``paths`` are relative to the base path. Raises ``StorageFailed``.
        """
        await concurrency.run_blocking(lambda: self._location.remove_undone(paths))

    async def remove_index_files(self, paths: Sequence[str]) -> None:
        """Remove files of the table's own record index, which no process reads any more.

        ``paths`` are relative to the base path. Raises ``StorageFailed``.
        """
        await concurrency.run_blocking(lambda: self._location.remove_index_files(paths))

    def _as_write(self, instant: Instant) -> AsyncWrite:
        return AsyncWrite(self._transport, instant, self._location)


def _plan_clean(policy: CleanPolicy, writer: str | None, execute: bool) -> PlanClean:
    return PlanClean(
        policy.retain_commits,
        policy.retain_hours,
        policy.retain_versions,
        writer=writer or default_writer(),
        execute=execute,
    )
