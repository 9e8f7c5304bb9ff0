"""One write, awaited: ``_write`` for an event loop, with the lease renewed by a task."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self, TypeVar

from chronolake import _deletions, calls, errors
from chronolake._lease import lost_by, pause_seconds_of
from chronolake._markers import DirectMarkers, Location
from chronolake._needed import in_thread
from chronolake._progress import BEST_EFFORT_SECONDS, RECONCILIATIONS_MAX, Progress, together_call
from chronolake._transport import AsyncTransport
from chronolake.calls.base import Call
from chronolake_model.files import FileGroupName, WriteStat
from chronolake_model.instants import Conflict, Instant, StagedWriteStats, TouchedFileGroup
from chronolake_model.markers import DeletedFile, Marker, MarkerOutcome, file_at
from chronolake_model.times import Moment, digits_of
from chronolake_model.vocabulary import State

_Answer = TypeVar("_Answer")


class AsyncWrite:
    """An instant in the hands of a writer; as ``Write``, with ``async with`` and ``await``.

    The block's lease is renewed by a task: a block that never awaits is silent.
    """

    def __init__(self, transport: AsyncTransport, instant: Instant, location: Location) -> None:
        self._transport = transport
        self._location = location
        self._progress = Progress(instant)
        self._renewal: asyncio.Task[None] | None = None
        self._lost: errors.RequestRefused | None = None

    @property
    def table(self) -> str:
        """The table's name."""
        return self.instant.table

    @property
    def requested_time(self) -> str:
        """The instant's requested time, which names it."""
        return self.instant.requested_time

    @property
    def instant(self) -> Instant:
        """The instant as last heard of; ``refresh`` asks again."""
        return self._progress.instant

    @property
    def stats(self) -> tuple[WriteStat, ...]:
        """The write stats added so far."""
        return self._progress.stats

    @property
    def extra_metadata(self) -> dict[str, str]:
        """As ``Write.extra_metadata``."""
        return self._progress.extra_metadata

    @property
    def lost(self) -> errors.RequestRefused | None:
        """As ``Write.lost``."""
        return self._lost

    async def mark(self, *markers: Marker) -> list[MarkerOutcome]:
        """As ``Write.mark``; direct markers are created by threads."""
        if self._progress.has_direct_markers:
            return await in_thread(self._direct_markers().create, markers)
        await in_thread(self._location.claim_if_present)
        return (await self._transport.send(self._progress.mark_call(markers))).outcomes

    async def left_over(self, write_stats: Iterable[WriteStat] = ()) -> list[DeletedFile]:
        """As ``Write.left_over``."""
        if self._progress.is_planned_clean:
            pages = self._transport.pages(self._progress.deletions_call())
            planned = self._transport.pages(self._progress.planned_files_call())
            paths = [path async for page in planned for path in page.files]
            return self._progress.without_reported(paths, [one async for page in pages for one in page.files])
        of = self._progress.marked_by
        direct = self._progress.has_direct_markers
        marked = await in_thread(self._location.direct_markers(of).marked) if direct else []
        async for page in self._transport.pages(self._progress.markers_call()):
            marked += page.markers
        return self._progress.without_stats(marked, write_stats)

    async def report_deletions(self, files: Iterable[DeletedFile]) -> int:
        """As ``Write.report_deletions``."""
        return sum([(await self._command(call)).files for call in self._progress.deletion_calls(files)])

    def add(self, stat: WriteStat) -> None:
        """Remember a written file, to be published by ``complete``."""
        self._progress.add(stat)

    def replace(self, file_group: FileGroupName) -> None:
        """As ``Write.replace``."""
        self._progress.replace(file_group)

    def clean_before(self, completion_time: Moment) -> None:
        """As ``Write.clean_before``."""
        self._progress.cleaned_before = digits_of(completion_time)

    def with_schema(self, schema_version: int) -> None:
        """As ``Write.with_schema``."""
        self._progress.schema_version = schema_version

    async def inflight(self) -> Instant:
        """As ``Write.inflight``."""
        return self._progress.learn(await self._command(self._progress.inflight_call()))

    async def complete(
        self,
        write_stats: Iterable[WriteStat] = (),
        extra_metadata: Mapping[str, str] | None = None,
        *,
        replaced_file_groups: Iterable[FileGroupName] = (),
        schema_version: int | None = None,
    ) -> Instant:
        """As ``Write.complete``."""
        if self._lost is not None:
            raise self._lost
        stats = list(write_stats)
        await self._prepare()
        staged = [await self._stage(call) for call in self._progress.staging_calls(stats)]
        call = self._progress.complete_call(stats, extra_metadata, replaced_file_groups, schema_version, staged)
        done = await _reconciled(lambda: self._command(call), lambda: self._delete_left(stats))
        await self._forget_direct_markers()
        return self._progress.learn(done)

    async def conflicts(self, file_groups: Iterable[TouchedFileGroup] | None = None) -> Conflict | None:
        """As ``Write.conflicts``."""
        touched = self._progress.touched() if file_groups is None else list(file_groups)
        if not touched:
            return None
        return (await self._transport.send(self._progress.conflicts_call(touched))).conflict

    async def rollback(self, reason: str = "") -> Instant:
        """As ``Write.rollback``."""
        return await self._rollback(reason, retry_seconds=None, execute=self._location.executes)

    async def return_to_requested(self, reason: str = "") -> Instant:
        """As ``Write.return_to_requested``."""
        return await self._return_to_requested(reason, retry_seconds=None)

    async def heartbeat(self, lease_seconds: int | None = None) -> Instant:
        """As ``Write.heartbeat``."""
        call = self._progress.heartbeat_call(lease_seconds)
        return self._progress.learn(await self._transport.send(call))

    async def refresh(self) -> Instant:
        """Ask how the instant stands now."""
        return self._progress.learn(await self._transport.send(self._progress.refresh_call()))

    async def __aenter__(self) -> Self:
        # A TaskGroup would wrap the block's own exception in a group; this task is ended in __aexit__ instead,
        # and can fail by nothing but a bug, which ending it brings to light.
        self._renewal = asyncio.create_task(self._renew(), name=f"chronolake-lease-{self.requested_time}")
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
        try:
            await self.complete()
        except (errors.RequestRefused, errors.StorageFailed) as refused:
            await self._give_up(refused)
            raise

    async def _give_up(self, exc: BaseException) -> None:
        await self._stop_renewal()
        if self._progress.is_gone(exc, self._lost):
            return
        reason = f"{type(exc).__name__}: {exc}"
        try:
            if self._progress.keeps_plan_after(exc):
                await self._return_to_requested(reason, retry_seconds=BEST_EFFORT_SECONDS)
                return
            # Whoever cancels the task wants it to end, and not to delete files first.
            execute = self._location.executes and isinstance(exc, Exception)
            await self._rollback(reason, retry_seconds=BEST_EFFORT_SECONDS, execute=execute)
        except errors.ChronolakeError as failure:
            self._progress.note_on(exc, failure)

    async def _stop_renewal(self) -> None:
        task, self._renewal = self._renewal, None
        if task is None:
            return
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled() and (bug := task.exception()) is not None:
            raise bug

    async def _renew(self) -> None:
        arrived = True
        while True:
            await asyncio.sleep(pause_seconds_of(self.instant.lease_seconds, arrived))
            try:
                call = self._progress.heartbeat_call(None)
                self._progress.learn(await self._transport.send(call, retry_seconds=0))
                arrived = True
            except errors.RequestRefused as refused:
                self._lost = lost_by(refused)
                return
            except errors.ChronolakeError:
                arrived = False

    async def _rollback(self, reason: str, *, retry_seconds: float | None, execute: bool) -> Instant:
        call = self._progress.rollback_call(reason, execute=execute)
        answer = await self._command(call, retry_seconds=retry_seconds)
        self._progress.given_up_here = True
        self._progress.learn(answer)
        if execute:
            await finish_rollback(self._transport, self._location, answer, self._progress.writer)
        return answer

    async def _prepare(self) -> None:
        """As ``Write._prepare``; storage is reached by threads, here and below."""
        await in_thread(self._location.claim_if_present)
        if self._progress.is_planned_clean:
            await self._delete_left()
        elif self._progress.is_rollback:
            planned = self._transport.pages(self._progress.planned_files_call())
            await self._delete([file_at(path) async for page in planned for path in page.files])
            if self._progress.goes_by_markers:
                await self._delete_left()
        elif self._progress.has_direct_markers:
            listed = await in_thread(lambda: [*self._direct_markers().listed()])
            for call in self._progress.hand_over_calls(listed):
                await self._transport.send(call)

    async def _delete_left(self, write_stats: Iterable[WriteStat] = ()) -> None:
        await self._delete(await self.left_over(write_stats))

    async def _delete(self, files: Sequence[DeletedFile]) -> None:
        failures: list[str] = []
        for part in _deletions.parts(files):
            deleted = await in_thread(self._location.delete, self._progress.deleting, part)
            await self.report_deletions(self._progress.to_report(deleted.gone))
            failures += deleted.failures
        _deletions.refuse(failures, len(files))

    async def _forget_direct_markers(self) -> None:
        if self._progress.has_direct_markers and self._progress.goes_by_markers:
            with contextlib.suppress(errors.StorageFailed):
                await in_thread(self._direct_markers().delete_all)

    def _direct_markers(self) -> DirectMarkers:
        return self._location.direct_markers(self._progress.marked_by)

    async def _return_to_requested(self, reason: str, *, retry_seconds: float | None) -> Instant:
        answer = await self._command(self._progress.return_call(reason), retry_seconds=retry_seconds)
        self._progress.given_up_here = True
        return self._progress.learn(answer)

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
            self._progress.answered(call)
            raise
        self._progress.answered(call)
        return answer


async def complete_together(writes: Sequence[AsyncWrite]) -> list[Instant]:
    """As ``_write.complete_together``."""
    if not writes:
        return []
    first = writes[0]
    for write in writes:
        if write.lost is not None:
            raise write.lost
    for write in writes:
        await write._prepare()
    call = together_call([write._progress for write in writes])
    answer = await _reconciled(lambda: first._command(call), lambda: _delete_left_of(writes))
    for write in writes:
        await write._forget_direct_markers()
    return [write._progress.learn(instant) for write, instant in zip(writes, answer.instants, strict=True)]


async def _delete_left_of(writes: Sequence[AsyncWrite]) -> None:
    for write in writes:
        await write._delete_left()


async def finish_clean(transport: AsyncTransport, location: Location, clean: Instant) -> Instant:
    """As ``_write.finish_clean``."""
    return await _executed(AsyncWrite(transport, clean, location))


async def finish_rollback(transport: AsyncTransport, location: Location, undone: Instant, writer: str) -> bool:
    """As ``_write.finish_rollback``."""
    if undone.rolled_back_by is None:
        return False
    instant = await transport.send(calls.instants.get(undone.table, undone.rolled_back_by))
    if instant.state is not State.INFLIGHT or instant.writer != writer:
        return False
    await _executed(AsyncWrite(transport, instant, location))
    return True


async def _executed(plan: AsyncWrite) -> Instant:
    """As ``_write._executed``."""
    try:
        async with plan:
            pass
    except errors.IllegalTransition:
        if (await plan.refresh()).state is not State.COMPLETED:
            raise
    return plan.instant


async def _reconciled(
    complete: Callable[[], Awaitable[_Answer]], delete_left: Callable[[], Awaitable[object]]
) -> _Answer:
    """As ``_write._reconciled``."""
    for _ in range(RECONCILIATIONS_MAX):
        try:
            return await complete()
        except errors.UnreconciledMarkers:
            await delete_left()
    return await complete()
