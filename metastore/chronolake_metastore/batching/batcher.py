"""The batcher: waiting requests run together, and each is answered when its batch is durable.

While one batch commits, the next gathers. So the busier the server is, the more requests share a round trip and
a flush to disk, and a request that arrives alone is not delayed.
"""

from __future__ import annotations

import asyncio
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final, Generic, TypeVar

import msgspec

from chronolake_metastore import errors, telemetry
from chronolake_metastore.batching import retry
from chronolake_metastore.batching.queue import BatchQueue, Bounds
from chronolake_metastore.metrics import Metrics
from chronolake_metastore.settings import Settings
from chronolake_metastore.store.postgres.transaction import Session

OVERDUE_SECONDS: Final = 0.05
"""How long a batch may take before another lane starts with requests that share no key with it."""

RequestT = TypeVar("RequestT")
ResultT = TypeVar("ResultT")
_log = telemetry.logger(__name__)


class Waiting(msgspec.Struct, Generic[RequestT, ResultT]):
    """A waiting request, with the keys that no other batch under way may have, and its weight."""

    request: RequestT
    answer: asyncio.Future[ResultT]
    keys: frozenset[str]
    files: int
    size_bytes: int
    arrived_at: float
    """By ``time.monotonic``."""


class Work(ABC, Generic[RequestT, ResultT]):
    """The work on a batch. ``name`` names the requests in the log."""

    name: str

    @abstractmethod
    async def run(self, session: Session, requests: Sequence[RequestT]) -> Sequence[ResultT | Exception]:
        """Run a batch, and give the results in the order of ``requests``.

        Raises ``DatabaseUnavailable``, ``TransactionRaced`` or another error that ended the transaction: it is
        unknown then what was done, and the same may be run again.
        """

    @abstractmethod
    def describe(self, request: RequestT) -> dict[str, str]:
        """The fields of the log line for a failed request."""

    @abstractmethod
    def answer(
        self, batch: Sequence[Waiting[RequestT, ResultT]], results: Sequence[ResultT | Exception]
    ) -> None:
        """Answer each request with its result."""


class Lane(Generic[RequestT, ResultT]):
    """One connection, one batch at a time."""

    def __init__(
        self,
        session: Session,
        work: Work[RequestT, ResultT],
        settings: Settings,
        metrics: Metrics,
        interval_seconds: float = 0.0,
    ) -> None:
        self._session = session
        self._work = work
        self._settings = settings
        self._metrics = metrics
        self._interval_seconds = interval_seconds

    async def run(self, queue: BatchQueue[Waiting[RequestT, ResultT]]) -> None:
        """Run batches of ``queue`` until cancelled; a batch takes at least ``interval_seconds``."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                batch = await queue.take()
                started = loop.time()
                try:
                    await self._run_batch(batch)
                    if (left := started + self._interval_seconds - loop.time()) > 0:
                        await asyncio.sleep(left)
                finally:
                    queue.done(batch)
        finally:
            await self._session.close()

    async def _run_batch(self, batch: Sequence[Waiting[RequestT, ResultT]]) -> None:
        give_up_at = batch[0].arrived_at + self._settings.retry_seconds
        self._work.answer(batch, await self._run([waiting.request for waiting in batch], give_up_at))

    async def _run(self, requests: Sequence[RequestT], give_up_at: float) -> Sequence[ResultT | Exception]:
        try:
            return await retry.run_until(
                lambda: self._work.run(self._session, requests), self._metrics, give_up_at
            )
        except errors.Unavailable as exc:
            return [exc] * len(requests)
        except Exception as exc:
            # A bug, met by one request at least: it must not fail the others.
            if len(requests) == 1:
                _log.exception(f"{self._work.name} failed", **self._work.describe(requests[0]))
                return [exc]
            _log.warning(
                f"{self._work.name}: a batch failed; its requests run one by one", requests=len(requests)
            )
            return [(await self._run([request], give_up_at))[0] for request in requests]


class Batcher(Generic[RequestT, ResultT]):
    """Takes requests from any number of tasks and answers each when it is durable.

    Each queue has lanes of its own.
    """

    def __init__(
        self,
        lanes: Sequence[Sequence[Lane[RequestT, ResultT]]],
        settings: Settings,
        *,
        files_max: int,
        overdue_seconds: float = OVERDUE_SECONDS,
    ) -> None:
        bounds = Bounds(
            length_max=settings.queue_max,
            bytes_max=settings.queue_bytes_max,
            group_max=settings.group_max,
            group_bytes_max=settings.group_bytes_max,
            files_max=files_max,
        )
        self._is_stopped = False
        self._queues = [
            (BatchQueue[Waiting[RequestT, ResultT]](bounds, overdue_seconds=overdue_seconds), of_queue)
            for of_queue in lanes
        ]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run batches while the block runs. Requests that still wait at its end are not run."""
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(lane.run(queue)) for queue, lanes in self._queues for lane in lanes]
            for task in running:
                task.add_done_callback(self._lane_ended)
            try:
                yield
            finally:
                self._is_stopped = True
                for task in running:
                    task.cancel()
                for queue, _ in self._queues:
                    for waiting in queue.disband():
                        resolve(waiting.answer, _stopping())

    async def submit(
        self, request: RequestT, keys: frozenset[str], files: int, size_bytes: int, queue: int = 0
    ) -> ResultT:
        """Wait for the result of one request. Raises ``Overloaded``, or the error of the request.

        Requests with a common key are never in two batches at a time. A caller that is cancelled does not undo
        its request.
        """
        self.refuse_if_stopped()
        answer: asyncio.Future[ResultT] = asyncio.get_running_loop().create_future()
        waiting = Waiting(request, answer, keys, files, size_bytes, time.monotonic())
        self._queues[queue][0].put(waiting)
        return await answer

    def refuse_if_stopped(self) -> None:
        """Raise ``DatabaseUnavailable`` if the lanes do not run any more."""
        if self._is_stopped:
            raise _stopping()

    def _lane_ended(self, lane: asyncio.Task[None]) -> None:
        if not lane.cancelled():
            # Waiting requests would never run: a server that stops is better than one that does not answer.
            self._is_stopped = True
            _log.critical("a lane ended; the server stops", exc_info=lane.exception())
            signal.raise_signal(signal.SIGTERM)


def resolve(answer: asyncio.Future[ResultT], result: ResultT | Exception) -> None:
    """Answer a request, unless its caller has cancelled it."""
    if answer.done():
        return
    if isinstance(result, Exception):
        answer.set_exception(result)
    else:
        answer.set_result(result)


def _stopping() -> errors.DatabaseUnavailable:
    return errors.DatabaseUnavailable(
        "the server stops; send the request again to another one, with the same idempotency key"
    )
