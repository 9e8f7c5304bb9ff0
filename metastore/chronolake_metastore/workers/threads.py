"""Runs blocking work in a thread of its own, which does not delay the stop of the server."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar, cast

_Result = TypeVar("_Result")


async def in_thread(work: Callable[[], _Result]) -> _Result:
    """The result of ``work``, or the exception that it raises.

    A cancelled worker does not wait for the thread, because a store that does not answer may hold it for long,
    and the threads of ``asyncio.to_thread`` are waited for when the loop closes.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[_Result] = loop.create_future()

    def settle(answer: _Result | None, failure: BaseException | None) -> None:
        if done.done():
            return
        if failure is None:
            done.set_result(cast("_Result", answer))
        else:
            done.set_exception(failure)

    def run() -> None:
        answer: _Result | None = None
        failure: BaseException | None = None
        try:
            answer = work()
        except BaseException as exc:
            failure = exc
        # The loop is closed when the server has stopped meanwhile.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, answer, failure)

    threading.Thread(target=run, name="chronolake-storage", daemon=True).start()
    return await done
