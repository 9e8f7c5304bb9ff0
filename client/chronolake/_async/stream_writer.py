"""One stream of a table: instants of checkpoints, the files of its tasks, and acknowledgements."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Final, Self

import msgspec

from chronolake import calls, errors
from chronolake._async.lease import AsyncLeaseRenewal
from chronolake._async.transport import AsyncTransport
from chronolake._async.write import AsyncWrite
from chronolake._concurrency import awaiting as concurrency
from chronolake._location import TableLocation
from chronolake_model import operations
from chronolake_model.backoff import Backoff
from chronolake_model.files import WriteStat
from chronolake_model.instants import STAGED_MAX, Instant
from chronolake_model.markers import DeletedFile, MarkersType
from chronolake_model.streams import (
    AbortCheckpoint,
    CloseStream,
    CompleteCheckpoints,
    CompletedCheckpoints,
    RenewStream,
    ReportedWriteMetadata,
    ReportWriteMetadata,
    RequestInstant,
    RestartTask,
    Stream,
    StreamInstant,
)
from chronolake_model.vocabulary import Operation

_BACKOFF: Final = Backoff(first_seconds=0.05, max_seconds=1.0)
_RECONCILIATIONS_MAX: Final = 10_000
"""How often an acknowledgement deletes left-over files; the server names a hundred of them at a time."""


class AsyncStreamWriter:
    """A stream, as its coordinator and its tasks use it. Tasks of one event loop may share it.

    The coordinator of a job gets it from ``AsyncTable.open_stream``, and uses it as a context manager, which
    renews the lease in the background::

        async with await table.open_stream("orders", tasks=2) as stream:
            given = await stream.instant(checkpoint=-1, task="0")
            ...  # the task writes files with given.requested_time in their names
            await stream.report(given, "0", stats, last_batch=True)
            await stream.complete(1)

    Tasks in other processes get it from ``AsyncTable.stream``, with the epoch of the coordinator. At the end of
    the block nothing is completed, rolled back or closed: only the engine knows which checkpoints are complete.
    """

    def __init__(
        self,
        transport: AsyncTransport,
        location: TableLocation,
        table: str,
        name: str,
        epoch: int,
        lease_seconds: int,
    ) -> None:
        self._transport = transport
        self._location = location
        self._table = table
        self._name = name
        self._epoch = epoch
        self._lease_seconds = lease_seconds
        self._renewal: AsyncLeaseRenewal | None = None

    @property
    def name(self) -> str:
        """The name of the stream."""
        return self._name

    @property
    def epoch(self) -> int:
        """The epoch, which every request of the stream carries."""
        return self._epoch

    @property
    def lost(self) -> errors.RequestRefused | None:
        """The error that stopped the renewal of the lease: the stream was opened again, or closed."""
        return self._renewal.lost if self._renewal else None

    async def instant(
        self,
        checkpoint: int,
        task: str,
        *,
        attempt: int = 0,
        operation: Operation = Operation.UNKNOWN,
        blocking: bool = False,
        wait_seconds: float = 0.0,
    ) -> StreamInstant:
        """The instant of a checkpoint, for the first flush of a task after a barrier.

        ``checkpoint`` is the id of the last barrier that the task has passed, -1 before the first. A new
        instant begins although earlier ones are pending, unless it is ``blocking``. Blocking is for files that
        may conflict with other writes: new base files of file groups that exist. Raises ``InstantNotYet`` when
        after ``wait_seconds`` there is none, because of that or because too many are pending: buffer, and ask
        again. Do not wait in the thread that delivers acknowledgements. Raises ``CheckpointPassed``,
        ``StreamFenced``, ``StreamNotFound``.
        """
        body = RequestInstant(self._epoch, task, checkpoint, attempt, operation=operation, blocking=blocking)
        until, retries = time.monotonic() + wait_seconds, 0
        while True:
            try:
                return await self._transport.send(
                    calls.call(operations.streams.REQUEST_STREAM_INSTANT, self._table, self._name, body=body)
                )
            except errors.InstantNotYet:
                remaining = until - time.monotonic()
                if remaining <= 0:
                    raise
            await concurrency.sleep(min(remaining, _BACKOFF.pause_seconds(retries, 1.0)))
            retries += 1

    async def report(  # noqa: PLR0913  # one keyword per field of a report
        self,
        instant: StreamInstant,
        task: str,
        write_stats: Iterable[WriteStat] = (),
        *,
        attempt: int = 0,
        last_batch: bool = False,
        end_of_input: bool = False,
        bootstrap: bool = False,
        extra_metadata: Mapping[str, str] | None = None,
        based_on_reads: bool = False,
        keys_looked_up: bool = False,
    ) -> ReportedWriteMetadata:
        """Report files that a task wrote into the instant of a checkpoint; several reports are merged.

        Before a task passes the next barrier, it reports its ``last_batch``. A restored task may report the
        files of its state again with ``bootstrap``. The call may be repeated: each file counts once.
        ``extra_metadata`` is published with the instant. ``based_on_reads`` and ``keys_looked_up`` are those of
        ``AsyncWrite.complete``; they need an instant that began with ``blocking``. Raises ``StreamFenced``,
        ``InstantRolledBack``, ``InvalidWriteStat``, ``MayConflict``, ``WriteConflict``.
        """
        stats = list(write_stats)
        body = ReportWriteMetadata(
            self._epoch,
            task,
            instant.checkpoint,
            attempt,
            requested_time=instant.requested_time,
            bootstrap=bootstrap,
        )
        files = 0
        while len(stats) > STAGED_MAX:
            part = msgspec.structs.replace(body, write_stats=stats[:STAGED_MAX])
            files += (await self._report(part)).files
            stats = stats[STAGED_MAX:]
        last = msgspec.structs.replace(
            body,
            write_stats=stats,
            last_batch=last_batch,
            end_of_input=end_of_input,
            extra_metadata=dict(extra_metadata or {}),
            based_on_reads=based_on_reads,
            keys_looked_up=keys_looked_up,
        )
        answer = await self._report(last)
        return msgspec.structs.replace(answer, files=answer.files + files)

    async def end(self, task: str, checkpoint: int, *, attempt: int = 0) -> ReportedWriteMetadata:
        """Report that a task has no more input, and nothing more for the checkpoint."""
        body = ReportWriteMetadata(self._epoch, task, checkpoint, attempt, last_batch=True, end_of_input=True)
        return await self._report(body)

    async def complete(
        self, checkpoint: int | None = None, extra_metadata: Mapping[str, str] | None = None
    ) -> list[Instant]:
        """Acknowledge a checkpoint: the instants of all earlier ids complete, in their order.

        Without a ``checkpoint``, everything that is left, once all tasks have reported the end of their input.
        The completed instants are returned; those without files are rolled back. Marked files that no task has
        reported are deleted from storage first. Where clients publish for Hudi's readers, this client does so
        afterwards. The call may be repeated. If an instant cannot complete, those before it have completed and
        later ones have not; raises ``CheckpointIncomplete``, ``WriteConflict``, ``StorageFailed``,
        ``StreamFenced``.
        """
        await self._hand_over_direct_markers(checkpoint)
        call = calls.call(
            operations.streams.COMPLETE_CHECKPOINTS,
            self._table,
            self._name,
            body=CompleteCheckpoints(self._epoch, checkpoint, dict(extra_metadata or {})),
        )
        done: list[Instant] = []
        for _ in range(_RECONCILIATIONS_MAX):
            try:
                answer: CompletedCheckpoints = await self._transport.send(call)
                break
            except errors.UnreconciledMarkers as refused:
                done += await self._ended(refused)
                await self._delete_left_over(refused)
        else:
            answer = await self._transport.send(call)
        done += answer.instants
        if done and self._location.is_client_publisher and not self._location.is_publication_off:
            from chronolake._async import publishing  # noqa: PLC0415  # slow

            await publishing.publish_if_possible(self._transport, self._location, self._table)
        return done

    async def abort(self, checkpoint: int, reason: str = "") -> Stream:
        """Say that a checkpoint was aborted; its files stay, and the next checkpoint completes them."""
        body = AbortCheckpoint(self._epoch, checkpoint, reason)
        return await self._transport.send(
            calls.call(operations.streams.ABORT_CHECKPOINT, self._table, self._name, body=body)
        )

    async def restart_task(self, task: str, restored_checkpoint: int | None) -> int:
        """Drop the reports of a task after a checkpoint, because it restarts alone from it.

        Returns the ``attempt`` for its calls from now on; those of earlier attempts are refused. The other
        tasks go on. Each call is another restart.
        """
        body = RestartTask(self._epoch, task, restored_checkpoint)
        return (
            await self._transport.send(
                calls.call(operations.streams.RESTART_TASK, self._table, self._name, body=body)
            )
        ).attempt

    async def heartbeat(self, lease_seconds: int | None = None) -> Stream:
        """Renew the lease from now. Raises ``StreamFenced``."""
        body = RenewStream(self._epoch, lease_seconds)
        return await self._transport.send(
            calls.call(operations.streams.RENEW_STREAM, self._table, self._name, body=body)
        )

    async def close(self, reason: str = "") -> Stream:
        """Close the stream: the job has ended. Raises ``IllegalTransition`` while instants are pending."""
        body = CloseStream(self._epoch, reason)
        return await self._transport.send(
            calls.call(operations.streams.CLOSE_STREAM, self._table, self._name, body=body)
        )

    async def refresh(self) -> Stream:
        """The stream as it stands, with its buffer."""
        return await self._transport.send(calls.call(operations.streams.GET_STREAM, self._table, self._name))

    async def __aenter__(self) -> Self:
        self._renewal = AsyncLeaseRenewal(self._renew, lease_seconds=self._lease_seconds, name=self._name)
        self._renewal.start()
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, exc: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        if self._renewal is not None:
            await self._renewal.stop()

    async def _renew(self) -> None:
        # No retries here: the renewal loop decides when to try again.
        body = RenewStream(self._epoch)
        await self._transport.send(
            calls.call(operations.streams.RENEW_STREAM, self._table, self._name, body=body), retry_seconds=0
        )

    async def _report(self, body: ReportWriteMetadata) -> ReportedWriteMetadata:
        return await self._transport.send(
            calls.call(operations.streams.REPORT_WRITE_METADATA, self._table, self._name, body=body)
        )

    async def _ended(self, refused: errors.UnreconciledMarkers) -> list[Instant]:
        """The instants that completed before the one that the refusal is about."""
        instants = [await self._get(time) for time in refused.context["ended"]]
        return [instant for instant in instants if instant.completion_time is not None]

    async def _delete_left_over(self, refused: errors.UnreconciledMarkers) -> None:
        instant = await self._get(refused.context["checkpoint_instant"])
        files = [DeletedFile(**file) for file in refused.context["files"]]
        await AsyncWrite(self._transport, instant, self._location).delete_marked(files)

    async def _hand_over_direct_markers(self, checkpoint: int | None) -> None:
        """Report the markers in storage to the server, which compares them with what was reported."""
        if self._location.markers_type is not MarkersType.DIRECT:
            return
        for buffered in (await self.refresh()).checkpoints:
            if checkpoint is None or buffered.checkpoint < checkpoint:
                instant = await self._get(buffered.requested_time)
                await AsyncWrite(self._transport, instant, self._location).hand_over_direct_markers()

    async def _get(self, requested_time: str) -> Instant:
        return await self._transport.send(
            calls.call(operations.timeline.GET_INSTANT, self._table, requested_time)
        )
