"""The batcher: waiting requests run together, and each is answered when its batch is durable.

While one batch commits, the next gathers. So the busier the server is, the more requests share a round trip and
a flush to disk, and a request that arrives alone is not delayed.
"""

from __future__ import annotations

import asyncio
import signal
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final, Generic, Protocol, TypeVar

import msgspec

from chronolake_metastore import errors, telemetry
from chronolake_metastore.metrics import Metrics
from chronolake_metastore.settings import Settings
from chronolake_metastore.store.postgres.transaction import Session, TransactionRaced
from chronolake_model.backoff import Backoff

BACKOFF: Final = Backoff(first_seconds=0.05, max_seconds=1.0)
RACES_MAX: Final = 20
"""How often a batch is retried without a pause after a race with another transaction; then with pauses."""

OVERDUE_SECONDS: Final = 0.05
"""How long a batch may take before another lane starts with requests that share no key with it."""

RequestT = TypeVar("RequestT")
ResultT = TypeVar("ResultT")
_log = telemetry.logger(__name__)


async def run_until(run: Callable[[], Awaitable[ResultT]], metrics: Metrics, give_up_at: float) -> ResultT:
    """Give the result of ``run``, retried while the database is unavailable or another transaction races it.

    Raises ``DatabaseUnavailable`` or ``Overloaded`` at ``give_up_at``, by ``time.monotonic``. It runs at least
    twice: the first failure may only show that the connection was lost earlier.
    """
    tries = races = 0
    while True:
        try:
            return await run()
        except TransactionRaced as exc:
            races += 1
            if races <= RACES_MAX:
                continue
            pause = BACKOFF.pause_seconds(tries)
            failure: errors.Unavailable = errors.Overloaded(
                "other transactions keep changing the rows that this request needs; send it again later"
            )
            _log.warning("other transactions came first; trying again", reason=type(exc).__name__, wait=pause)
        except errors.DatabaseUnavailable as exc:
            failure = exc
            pause = BACKOFF.pause_seconds(tries)
            if not isinstance(exc, errors.ConnectionLost):
                _log.warning("database too busy; trying again", reason=exc.context.get("reason"), wait=pause)
        if tries and time.monotonic() + pause > give_up_at:
            raise failure
        tries += 1
        metrics.database_retries.inc()
        await asyncio.sleep(pause)


class Entry(Protocol):
    """A request that waits: its keys, such as the tables it names, its number of files, and its bytes."""

    @property
    def keys(self) -> frozenset[str]: ...

    @property
    def files(self) -> int: ...

    @property
    def size_bytes(self) -> int: ...


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds of the queue (``length_max`` entries, ``bytes_max``), and of one batch."""

    length_max: int
    bytes_max: int
    group_max: int
    group_bytes_max: int
    files_max: int


EntryT = TypeVar("EntryT", bound=Entry)


class BatchQueue(Generic[EntryT]):
    """The waiting requests, for any number of lanes. A key is in one running batch at a time.

    The larger a batch is, the less each of its requests costs. So a lane takes all waiting requests, and no
    other lane starts while it runs. Only if a batch takes long (another server has locked one of its tables, or
    a disk stalls), another lane starts with requests that share no key with a running batch.
    """

    def __init__(self, bounds: Bounds, *, overdue_seconds: float) -> None:
        self._bounds = bounds
        self._bytes = 0
        self._overdue_seconds = overdue_seconds
        self._waiting: deque[EntryT] = deque()
        self._running: list[list[EntryT]] = []
        self._idle: deque[asyncio.Future[None]] = deque()
        self._is_called = False
        self._fresh: list[EntryT] | None = None
        self._overdue: asyncio.TimerHandle | None = None

    def put(self, entry: EntryT) -> None:
        """Add ``entry`` to the end. Raises ``Overloaded`` if too many wait."""
        bounds = self._bounds
        if len(self._waiting) >= bounds.length_max:
            raise errors.Overloaded(f"{bounds.length_max} commands are waiting already; send it again later")
        if self._waiting and self._bytes + entry.size_bytes > bounds.bytes_max:
            raise errors.Overloaded(
                f"commands of {self._bytes} bytes are waiting already, and {bounds.bytes_max} may; send it "
                "again later"
            )
        self._waiting.append(entry)
        self._bytes += entry.size_bytes
        self._call_next()

    async def take(self) -> list[EntryT]:
        """The next batch: all waiting requests that share no key with a running batch, up to the bounds.

        It has at least one request. The caller must call ``done`` with it.
        """
        turn = asyncio.get_running_loop().create_future()
        self._idle.append(turn)
        self._call_next()
        while True:
            await turn
            self._is_called = False
            if group := self._next_group():
                self._begin(group)
                return group
            # All waiting requests share a key with a running batch; ``done`` wakes this lane.
            turn = asyncio.get_running_loop().create_future()
            self._idle.append(turn)

    def done(self, group: list[EntryT]) -> None:
        """The batch has ended: its keys are free again."""
        self._running = [other for other in self._running if other is not group]
        if self._fresh is group:
            self._no_longer_fresh(group)
        self._call_next()

    def disband(self) -> list[EntryT]:
        """All requests that wait or are in a batch, removed from the queue."""
        left = [entry for group in self._running for entry in group] + list(self._waiting)
        self._running.clear()
        self._waiting.clear()
        self._bytes = 0
        return left

    def _call_next(self) -> None:
        # The batch is made when the lane wakes, so requests that arrive until then join it.
        if not self._waiting or self._is_called or self._fresh is not None:
            return
        while self._idle:
            turn = self._idle.popleft()
            if not turn.done():  # cancelled
                self._is_called = True
                turn.set_result(None)
                return

    def _begin(self, group: list[EntryT]) -> None:
        self._running.append(group)
        self._fresh = group
        loop = asyncio.get_running_loop()
        self._overdue = loop.call_later(self._overdue_seconds, self._let_others_begin, group)

    def _let_others_begin(self, group: list[EntryT]) -> None:
        if self._fresh is group:
            self._no_longer_fresh(group)
            self._call_next()

    def _no_longer_fresh(self, group: list[EntryT]) -> None:
        assert self._fresh is group and self._overdue is not None
        self._overdue.cancel()
        self._fresh = self._overdue = None

    def _next_group(self) -> list[EntryT]:
        taken = {key for group in self._running for entry in group for key in entry.keys}
        group: list[EntryT] = []
        passed_over: list[EntryT] = []
        files = size_bytes = 0
        while self._waiting and len(group) < self._bounds.group_max:
            entry = self._waiting[0]
            if taken and not taken.isdisjoint(entry.keys):
                # No later request with one of its keys goes first; otherwise it could wait for ever.
                taken |= entry.keys
                passed_over.append(self._waiting.popleft())
                continue
            files += entry.files
            size_bytes += entry.size_bytes
            if group and (files > self._bounds.files_max or size_bytes > self._bounds.group_bytes_max):
                break
            group.append(self._waiting.popleft())
        self._waiting.extendleft(reversed(passed_over))
        self._bytes -= sum(entry.size_bytes for entry in group)
        return group


class Waiting(msgspec.Struct, Generic[RequestT, ResultT]):
    """A waiting request, with the keys that no other batch under way may have, and its number of files."""

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
            return await run_until(lambda: self._work.run(self._session, requests), self._metrics, give_up_at)
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
