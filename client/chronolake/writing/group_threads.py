"""Work on several file groups at the same time, by threads: Arrow's own work does not hold Python's lock."""

from __future__ import annotations

import contextvars
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

_Result = TypeVar("_Result")


def in_order(calls: Iterable[Callable[[], _Result]], threads: int) -> Generator[_Result]:
    """The results of calls, in their order. At most ``threads`` calls run, or have rows, at the same time.

    The calls are made by the caller's thread. When it raises or is closed, no call runs any more. One thread
    is the caller's own.
    """
    if threads == 1:
        for call in calls:
            result = call()
            # No variable holds the rows of one file group while those of the next one are made.
            del call
            yield result
        return
    running: deque[Future[_Result]] = deque()
    with ThreadPoolExecutor(threads, thread_name_prefix="chronolake-writes") as pool:
        try:
            for call in calls:
                # The loop of a client for an event loop is in the context.
                running.append(pool.submit(contextvars.copy_context().run, call))
                del call
                if len(running) == threads:
                    yield running.popleft().result()
            while running:
                yield running.popleft().result()
        finally:
            for future in running:
                future.cancel()
