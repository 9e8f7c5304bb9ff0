"""Work on several file groups at the same time, by threads: Arrow's own work does not hold Python's lock."""

from __future__ import annotations

import contextvars
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TypeVar

_Result = TypeVar("_Result")


def in_order(calls: Iterable[Callable[[], _Result]], threads: int) -> Generator[_Result]:
    """The results of calls, in their order. At most ``threads`` calls run at the same time.

    The calls are made by the caller's thread, the next one while those before it run: so one more than those
    that run has rows. When it raises or is closed, no call runs any more. One thread is the caller's own.
    """
    if threads == 1:
        for call in calls:
            result = call()
            # No variable holds the rows of one file group while those of the next one are made.
            del call
            yield result
        return
    started: deque[Future[_Result]] = deque()
    with ThreadPoolExecutor(threads, thread_name_prefix="chronolake-writes") as pool:
        try:
            for call in calls:
                _wait(started, threads)
                # The loop of a client for an event loop is in the context.
                started.append(pool.submit(contextvars.copy_context().run, call))
                del call
                while started and started[0].done():
                    yield started.popleft().result()
            while started:
                yield started.popleft().result()
        finally:
            for future in started:
                future.cancel()


def _wait(started: Iterable[Future[_Result]], threads: int) -> None:
    """Wait until a thread is free. Raises the error of a call that has failed."""
    while len(running := [future for future in started if not future.done()]) >= threads:
        wait(running, return_when=FIRST_COMPLETED)
    for future in started:
        if future.done():
            future.result()
