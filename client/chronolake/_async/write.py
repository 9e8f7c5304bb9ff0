"""One write: an instant from its begin to its completion or rollback, and the lease in between."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Container, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self, TypeVar

from chronolake import calls, errors
from chronolake._async.deletions import AsyncFileDeleter, marked_in_storage
from chronolake._async.lease import AsyncLeaseRenewal
from chronolake._async.transport import AsyncTransport
from chronolake._concurrency import awaiting as concurrency
from chronolake._http import RENAMES_MAX
from chronolake._location import TableLocation
from chronolake._progress import BEST_EFFORT_SECONDS, RECONCILIATIONS_MAX, Progress, together_call
from chronolake.calls.base import Call
from chronolake_model import operations
from chronolake_model.files import FileGroupName, WriteStat
from chronolake_model.instants import (
    CompletedTogether,
    ConflictingInstant,
    Instant,
    StagedWriteStats,
    TouchedFileGroup,
)
from chronolake_model.markers import DeletedFile, Marker, MarkerOutcome, file_at
from chronolake_model.times import Moment, digits_of
from chronolake_model.vocabulary import State
from chronolake_storage.deletions import DeletionResult, Files, Source, delete_files

_Answer = TypeVar("_Answer")


class AsyncWrite:
    """An instant and its writer. Tasks of one event loop may share it.

    As a context manager it renews its lease in the background, completes when the block ends, and rolls back
    when the block raises::

        async with await table.begin(operation=Operation.UPSERT) as write:
            write.add(stat)

    If the block executes a plan and raises, the instant returns to requested, so that the plan can be executed
    again. If it lost a conflict with a completed instant, it is rolled back, because every other execution
    would lose too.

    Without a context manager the lease is not renewed: call ``heartbeat`` before it ends.

    Async only: a block that occupies the event loop, without ``await``, sends no heartbeats either.
    """

    def __init__(self, transport: AsyncTransport, instant: Instant, location: TableLocation) -> None:
        self._transport = transport
        self._progress = Progress(instant)
        self._location = location
        self._renewal: AsyncLeaseRenewal | None = None

    @property
    def table(self) -> str:
        """The table's name."""
        return self.instant.table

    @property
    def requested_time(self) -> str:
        """The instant's requested time, which identifies it in its table."""
        return self.instant.requested_time

    @property
    def instant(self) -> Instant:
        """The instant as of the last answer; ``refresh`` fetches it."""
        return self._progress.instant

    @property
    def stats(self) -> tuple[WriteStat, ...]:
        """The write stats added so far."""
        return self._progress.stats

    @property
    def extra_metadata(self) -> dict[str, str]:
        """Metadata that is published with the instant; fill it before ``complete``."""
        return self._progress.extra_metadata

    @property
    def lost(self) -> errors.RequestRefused | None:
        """The error that stopped the renewal: the instant was rolled back, or its table was dropped.

        None while the lease is renewed. A long write can check it to stop early; ``complete`` raises it.
        """
        return self._renewal.lost if self._renewal else None

    async def mark(self, *markers: Marker) -> list[MarkerOutcome]:
        """Create the markers of data files, before the files are written.

        Returns for each marker whether it is new or existed. All are created, 10,000 at most, or none. If the
        base path is a local folder that exists, it is claimed for the table first, see
        ``AsyncTable.claim_storage``. Raises ``InstantRolledBack`` and ``LeaseLive`` (another writer has taken
        the instant: stop), ``WriteConflict`` when the table detects conflicts early and another writer has
        marked one of the file groups, ``IllegalTransition``, ``InvalidMarker``, and ``StorageFailed`` when the
        folder is claimed for another table. The server does not check direct markers: creating them raises only
        ``StorageFailed``.
        """
        if self._progress.has_direct_markers:
            stored_markers = self._location.stored_markers(self._progress.marked_by)
            return await concurrency.run_blocking(stored_markers.create, markers)
        await concurrency.run_blocking(self._location.claim_if_present)
        return (await self._transport.send(self._progress.mark_call(markers))).outcomes

    async def left_over(self, write_stats: Iterable[WriteStat] = ()) -> list[DeletedFile]:
        """The marked files that were not added: failed or repeated attempts of tasks may have left them.

        ``complete`` deletes them. ``write_stats`` are the ones that ``complete`` will get. For a rollback these
        are the files of its target that are still to be deleted, and for a clean those of its plan.
        """
        written = self._progress.written_files(write_stats)
        pages = self._pages()
        listed = [file for source in self._progress.sources async for page in pages[source] for file in page]
        return [file for file in dict.fromkeys(listed) if file not in written]

    async def report_deletions(self, files: Iterable[DeletedFile]) -> int:
        """Report that ``files`` were deleted from storage; returns the number of files recorded.

        Raises ``InvalidDeletion`` when a file was never marked or is published, ``InstantRolledBack``,
        ``LeaseLive``, ``IllegalTransition``.
        """
        return sum([(await self._command(call)).files for call in self._progress.deletion_calls(files)])

    def add(self, stat: WriteStat) -> None:
        """Add a written file, to be published by ``complete``."""
        self._progress.add(stat)

    def replace(self, file_group: FileGroupName) -> None:
        """Add a file group that this replacecommit or clustering replaces."""
        self._progress.replace(file_group)

    def clean_before(self, completion_time: Moment) -> None:
        """Set the bound of a clean: files that left the latest slices by this completion time may be deleted.

        After it completes, reads as of earlier times are refused, except those that savepoints pin.
        """
        self._progress.cleaned_before = digits_of(completion_time)

    def with_schema(self, schema_version: int) -> None:
        """Set the version of the schema of the files; by default it is the table's when the instant began."""
        self._progress.schema_version = schema_version

    async def inflight(self) -> Instant:
        """Move the instant from requested to inflight. Raises ``IllegalTransition``, ``InstantRolledBack``."""
        return self._progress.update(await self._command(self._progress.inflight_call()))

    async def complete(
        self,
        write_stats: Iterable[WriteStat] = (),
        extra_metadata: Mapping[str, str] | None = None,
        *,
        replaced_file_groups: Iterable[FileGroupName] = (),
        schema_version: int | None = None,
        based_on_reads: bool = False,
        keys_looked_up: bool = False,
        buckets: int | None = None,
    ) -> Instant:
        """Complete the instant: publish the files that were added and ``write_stats``, all at once.

        The file groups given to ``replace``, and ``replaced_file_groups``, are replaced in the same moment.
        Thousands of files are staged in parts first, so that other writers of the table wait only briefly.
        Marked files that are not published, see ``left_over``, are deleted from storage first, and so are the
        files in the plan of a rollback or a clean. If a file cannot be deleted, ``StorageFailed`` is raised and
        nothing is published. Where clients publish for Hudi's readers, by the table's property
        ``hudi.publisher``, this client does so afterwards, as far as it can. ``schema_version`` is the version
        that the files were written with, as in ``with_schema``. With ``based_on_reads`` log files conflict as
        base files do: say so if they depend on what was read of their file groups after the instant was begun.
        With ``keys_looked_up`` the instant conflicts with others that insert into the same partitions: say so
        in a table without a bucket index if the keys to insert were looked up after the instant was begun.
        ``buckets`` is for a clustering that resizes the table: the number of its plan.

        Raises ``WriteConflict`` (another instant wrote the same file groups first: roll back, write anew),
        ``UnreconciledMarkers`` (tasks that still run mark new files each time), ``InstantRolledBack`` and
        ``LeaseLive`` (another writer has taken the instant: stop), ``IllegalTransition``, ``InvalidWriteStat``,
        ``InvalidPlan``. After ``ConnectionFailed`` or ``ServerUnavailable`` the outcome is unknown: repeat
        the same call to get it; it is sent with the same idempotency key.
        """
        if self.lost is not None:
            raise self.lost
        stats = list(write_stats)
        await self._prepare()
        staged = [await self._stage(call) for call in self._progress.staging_calls(stats)]
        call = self._progress.complete_call(
            stats,
            extra_metadata,
            replaced_file_groups,
            schema_version,
            staged,
            based_on_reads=based_on_reads,
            keys_looked_up=keys_looked_up,
            buckets=buckets,
        )
        answer = await _reconciled(lambda: self._command(call), lambda: self._delete_files(stats))
        # The answer is recorded at once: if the next step is interrupted, the instant must not be rolled back.
        instant = self._progress.update(answer)
        await self._delete_direct_markers()
        if self._location.is_client_publisher and not self._location.is_publication_off:
            from chronolake._async import publishing  # noqa: PLC0415  # slow

            await publishing.publish_if_possible(self._transport, self._location, instant.table)
        return instant

    async def conflicts(
        self, file_groups: Iterable[TouchedFileGroup] | None = None
    ) -> ConflictingInstant | None:
        """The conflict for which ``complete`` would be refused now, or None. Changes nothing.

        It checks ``file_groups``; by default those that were added and replaced so far. Another write may still
        cause a conflict later.
        """
        touched = self._progress.touched() if file_groups is None else list(file_groups)
        if not touched:
            return None
        return (await self._transport.send(self._progress.conflicts_call(touched))).conflict

    async def rollback(self, reason: str = "") -> Instant:
        """Roll the instant back: its files are never published.

        The files that it has marked are deleted from storage, unless the table's property
        ``deletions.executor`` leaves that to the server. Raises ``IllegalTransition`` when the instant has
        completed: its files are published, so keep them. Raises ``StorageFailed`` when files could not be
        deleted: the instant is rolled back, and ``AsyncTable.finish_rollbacks`` can finish the rollback.
        """
        return await self._rollback(reason, retry_seconds=None, execute=self._location.is_client_executor)

    async def return_to_requested(self, reason: str = "") -> Instant:
        """Stop the execution of the plan, and return it to requested for another execution.

        Raises ``IllegalTransition`` for an ordinary write: roll it back instead.
        """
        return await self._return_to_requested(reason, retry_seconds=None)

    async def heartbeat(self, lease_seconds: int | None = None) -> Instant:
        """Renew the lease from now, for ``lease_seconds`` or the same period as before.

        Raises ``InstantRolledBack`` when the instant was rolled back after the lease had ended.
        """
        return self._progress.update(await self._transport.send(self._progress.heartbeat_call(lease_seconds)))

    async def refresh(self) -> Instant:
        """Fetch the instant again."""
        return self._progress.update(await self._transport.send(self._progress.refresh_call()))

    async def __aenter__(self) -> Self:
        self._renewal = AsyncLeaseRenewal(
            self._renew, lease_seconds=self.instant.lease_seconds, name=self.requested_time
        )
        self._renewal.start()
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, exc: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        try:
            if exc is not None:
                await self._give_up(exc)
            elif not self._progress.is_settled():
                await self._finish()
        finally:
            await self._stop_renewal()

    async def _finish(self) -> None:
        """Complete the instant, and roll it back when the server or the storage refuses.

        The lease is still renewed, because publishing many files, or waiting for a server that restarts, may
        take longer than the lease. When the outcome is unknown, nothing is rolled back.
        """
        try:
            await self.complete()
        except (errors.RequestRefused, errors.StorageFailed) as refused:
            await self._give_up(refused)
            raise

    async def _give_up(self, exc: BaseException) -> None:
        """Roll back, or return to requested, because of ``exc``; a failure is added to ``exc`` as a note."""
        await self._stop_renewal()
        if self._progress.is_gone(exc, self.lost):
            return
        reason = f"{type(exc).__name__}: {exc}"
        try:
            if self._progress.keeps_plan_after(exc):
                await self._return_to_requested(reason, retry_seconds=BEST_EFFORT_SECONDS)
                return
            # An interrupted program or a cancelled task must end soon, so it deletes no files.
            execute = self._location.is_client_executor and isinstance(exc, Exception)
            await self._rollback(reason, retry_seconds=BEST_EFFORT_SECONDS, execute=execute)
        except errors.ChronolakeError as failure:
            self._progress.note_on(exc, failure)

    async def _stop_renewal(self) -> None:
        if self._renewal is not None:
            await self._renewal.stop()

    async def _renew(self) -> None:
        # No retries here: the renewal loop decides when to try again.
        self._progress.update(await self._transport.send(self._progress.heartbeat_call(None), retry_seconds=0))

    async def _rollback(self, reason: str, *, retry_seconds: float | None, execute: bool) -> Instant:
        call = self._progress.rollback_call(reason, execute=execute)
        instant = await self._command(call, retry_seconds=retry_seconds)
        self._progress.is_given_up = True
        self._progress.update(instant)
        if execute:
            await finish_rollback(self._transport, self._location, instant, self._progress.writer)
        return instant

    async def _prepare(self) -> None:
        """Claim the folder, delete the files of a rollback or a clean, and report direct markers."""
        await concurrency.run_blocking(self._location.claim_if_present)
        if self._progress.is_planned_deletion:
            await self._delete_files()
        else:
            await self.hand_over_direct_markers()

    async def hand_over_direct_markers(self) -> None:
        """Report the markers in storage to the server, if this write has such."""
        if not self._progress.has_direct_markers:
            return
        stored_markers = self._location.stored_markers(self._progress.marked_by)
        markers = await concurrency.run_blocking(stored_markers.list_all)
        for call in self._progress.hand_over_calls(markers):
            await self._transport.send(call)

    async def delete_marked(self, files: Sequence[DeletedFile]) -> None:
        """Delete marked files of failed attempts from storage, and report them. Raises ``StorageFailed``."""
        await self._delete([Source.MARKERS], {Source.MARKERS: _one_page(files)}, frozenset())

    async def _delete_files(self, write_stats: Iterable[WriteStat] = ()) -> None:
        """Delete the files of ``left_over`` from storage, and report them. Raises ``StorageFailed``."""
        written = self._progress.written_files(write_stats)
        await self._delete(self._progress.sources, self._pages(), written)

    async def _delete(
        self,
        sources: Iterable[Source],
        pages: Mapping[Source, AsyncIterator[Files]],
        published: Container[DeletedFile],
    ) -> None:
        result = DeletionResult()
        deleter = AsyncFileDeleter(
            self._location,
            self._progress.deleting,
            pages=pages,
            report=self.report_deletions,
            marked_by=self._progress.marked_by,
        )
        await deleter.run(delete_files(sources, result, published))
        if result.failures:
            files = len(result.deleted) + len(result.failures)
            raise errors.StorageFailed(
                f"{len(result.failures)} of {files} files could not be deleted; they stay on the list of files "
                f"to delete. The first failure: {result.first_failure}"
            )

    def _pages(self) -> dict[Source, AsyncIterator[Files]]:
        return {
            Source.PLAN: self._planned_files(),
            Source.MARKERS: self._marked_files(),
            Source.DIRECT_MARKERS: marked_in_storage(self._location, self._progress.marked_by),
        }

    async def _planned_files(self) -> AsyncIterator[Files]:
        reported: set[DeletedFile] = set()
        # A rollback deletes all files in its plan again: a reported one may have been rewritten since.
        if not self._progress.is_rollback:
            pages = await self._transport.all_pages(self._progress.reported_deletions_call())
            reported = {file for page in pages for file in page.files}
        async for planned in self._transport.pages(self._progress.planned_files_call()):
            yield [file for file in map(file_at, planned.files) if file not in reported]

    async def _marked_files(self) -> AsyncIterator[Files]:
        async for page in self._transport.pages(self._progress.markers_call()):
            # A file may have two markers, of two kinds.
            yield sorted({DeletedFile(marker.partition_path, marker.file_name) for marker in page.markers})

    async def _delete_direct_markers(self) -> None:
        """Delete the markers in storage. Markers that cannot be deleted do no harm."""
        if self._progress.deletes_markers:
            stored_markers = self._location.stored_markers(self._progress.marked_by)
            with contextlib.suppress(errors.StorageFailed):
                await concurrency.run_blocking(stored_markers.delete_all)

    async def _return_to_requested(self, reason: str, *, retry_seconds: float | None) -> Instant:
        instant = await self._command(self._progress.return_call(reason), retry_seconds=retry_seconds)
        self._progress.is_given_up = True
        return self._progress.update(instant)

    async def _stage(self, call: Call[StagedWriteStats]) -> int:
        version = self._progress.staged_under(call)
        if version is not None:
            return version
        return self._progress.has_staged(call, (await self._command(call)).version)

    async def _command(self, call: Call[_Answer], *, retry_seconds: float | None = None) -> _Answer:
        key = self._progress.key_of(call)
        try:
            answer = await self._transport.send(call, key=key, retry_seconds=retry_seconds)
        except errors.RequestRefused:
            self._progress.forget_key(call)
            raise
        self._progress.forget_key(call)
        return answer


async def _one_page(files: Files) -> AsyncIterator[Files]:
    yield files


async def complete_together(writes: Sequence[AsyncWrite]) -> list[Instant]:
    """Complete all writes, or none; see ``AsyncClient.complete_together``."""
    if not writes:
        return []
    for write in writes:
        if write.lost is not None:
            raise write.lost
    for write in writes:
        await write._prepare()
    answer = await _reconciled(lambda: _complete_by_names(writes), lambda: _delete_files_of(writes))
    updated = [write._progress.update(instant) for write, instant in zip(writes, answer.instants, strict=True)]
    for write in writes:
        await write._delete_direct_markers()
    return updated


async def _complete_by_names(writes: Sequence[AsyncWrite]) -> CompletedTogether:
    """Complete all writes. If tables were renamed, the command is sent again under their present names."""
    for _ in range(RENAMES_MAX):
        names = [write.table for write in writes]
        try:
            return await _send_together(writes)
        except errors.NotFound as refused:
            if "renamed_to" not in refused.context:
                raise
            for write in writes:
                await write.refresh()
            if [write.table for write in writes] == names:
                raise
    return await _send_together(writes)


async def _send_together(writes: Sequence[AsyncWrite]) -> CompletedTogether:
    # The first write keeps the idempotency key, so a repeated call with the same writes is the same command.
    return await writes[0]._command(together_call([write._progress for write in writes]))


async def _delete_files_of(writes: Sequence[AsyncWrite]) -> None:
    for write in writes:
        await write._delete_files()


async def finish_clean(transport: AsyncTransport, location: TableLocation, clean: Instant) -> Instant:
    """Delete the files in the plan of a clean, and complete it. After ``StorageFailed`` it is still pending."""
    return await _executed(AsyncWrite(transport, clean, location))


async def finish_rollback(
    transport: AsyncTransport, location: TableLocation, rolled_back: Instant, writer: str
) -> bool:
    """Delete the files of an instant that was rolled back, and complete its rollback.

    Returns False and does nothing unless the rollback is inflight and ``writer`` is its executor. After
    ``StorageFailed`` the rollback is still pending.
    """
    if rolled_back.rolled_back_by is None:
        return False
    call = calls.call(operations.timeline.GET_INSTANT, rolled_back.table, rolled_back.rolled_back_by)
    instant = await transport.send(call)
    if instant.state is not State.INFLIGHT or instant.writer != writer:
        return False
    await _executed(AsyncWrite(transport, instant, location))
    return True


async def _executed(plan: AsyncWrite) -> Instant:
    """Execute and complete a plan that deletes files; returns its instant."""
    try:
        async with plan:
            pass
    except errors.IllegalTransition:
        # Another process with the same writer's name may have completed it first.
        if (await plan.refresh()).state is not State.COMPLETED:
            raise
    return plan.instant


async def _reconciled(
    complete: Callable[[], Awaitable[_Answer]], delete_left_over: Callable[[], Awaitable[object]]
) -> _Answer:
    """The answer of ``complete``. If left-over files cause a refusal, they are deleted, and it is retried."""
    for _ in range(RECONCILIATIONS_MAX):
        try:
            return await complete()
        except errors.UnreconciledMarkers:
            await delete_left_over()
    return await complete()
