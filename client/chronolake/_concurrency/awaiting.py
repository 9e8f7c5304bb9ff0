"""Waiting, blocking work and background tasks for an event loop; ``blocking`` has the same names."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from chronolake_storage import protocols

if TYPE_CHECKING:
    import pyarrow as pa

_Answer = TypeVar("_Answer")
_Result = TypeVar("_Result")
_Element = TypeVar("_Element")

Stream: TypeAlias = AsyncGenerator[_Element, None]
"""An iterator that can be closed early."""
if TYPE_CHECKING:
    RecordBatches: TypeAlias = AsyncIterator[pa.RecordBatch]

_LOOP: Final[ContextVar[asyncio.AbstractEventLoop]] = ContextVar("chronolake_loop")

sleep = asyncio.sleep
run_protocol = protocols.run


async def run_blocking(work: Callable[..., _Result], *arguments: Any) -> _Result:
    """The result of work that blocks, done by a thread.

    The work may send calls by the ``blocking_send`` of a transport of this loop.
    """
    _LOOP.set(asyncio.get_running_loop())
    return await asyncio.to_thread(work, *arguments)


def blocking_send(send: Callable[[Any], Awaitable[_Answer]]) -> Callable[[Any], _Answer]:
    """``send`` for work that runs in ``run_blocking``: the loop sends, and the thread waits."""

    def send_by_loop(call: Any) -> _Answer:
        async def sending() -> _Answer:
            return await send(call)

        return asyncio.run_coroutine_threadsafe(sending(), _LOOP.get()).result()

    return send_by_loop


def blocking_table(table: Any) -> Any:
    """A table of this loop, for work that runs in ``run_blocking``: the loop runs its methods."""
    return _Blocking(table, asyncio.get_running_loop())


class _Blocking:
    """An object of the client for an event loop, whose methods block."""

    def __init__(self, target: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._target = target
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._target, name)
        if not inspect.isroutine(value):
            return value

        def call(*arguments: Any, **named: Any) -> Any:
            return self._waited(value(*arguments, **named))

        return call

    def _waited(self, answer: Any) -> Any:
        if isinstance(answer, AsyncIterator):
            return iter(self._result(_all(answer)))
        if inspect.iscoroutine(answer):
            answer = self._result(answer)
        is_of_client = type(answer).__module__.startswith("chronolake._async")
        return _Blocking(answer, self._loop) if is_of_client else answer

    def _result(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()


async def _all(elements: AsyncIterator[Any]) -> list[Any]:
    return [element async for element in elements]


def reader_of(batches: AsyncGenerator[Any, None]) -> RecordBatches:
    """Record batches of a stream that begins with their schema; each batch has the schema."""

    async def without_schema() -> AsyncIterator[Any]:
        await anext(batches)
        async for batch in batches:
            yield batch

    return without_schema()


class BackgroundTask:
    """Runs ``run`` beside the caller until it ends or is stopped; an error that it raises is a bug."""

    def __init__(self, run: Callable[[], Awaitable[None]], *, name: str) -> None:
        self._run = run
        self._name = name
        self._task: asyncio.Task[None] | None = None
        self.is_stopped = False

    def start(self) -> None:
        """Begin to run."""
        # A TaskGroup would wrap an exception of the caller's own block in a group.
        self._task = asyncio.create_task(self._started(), name=self._name)

    async def pause(self, seconds: float) -> bool:
        """Wait for so long, called by ``run``; False when it is time to end."""
        await asyncio.sleep(seconds)
        return not self.is_stopped

    async def stop(self) -> None:
        """Cancel the task, and wait for its end. It may be called again."""
        self.is_stopped = True
        task, self._task = self._task, None
        if task is None:
            return
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled() and (bug := task.exception()) is not None:
            raise bug

    async def _started(self) -> None:
        await self._run()
