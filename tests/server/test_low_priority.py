"""Work in a process of its own, with a lower priority than the server's."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

import pytest

from chronolake_metastore import errors, low_priority

SPAN = "(time := __import__('time')) and (time.monotonic(), time.sleep(0.3), time.monotonic())"
"""When a process begins and ends to work. It cannot import the tests."""


def test_the_result_of_a_function_comes_back() -> None:
    assert asyncio.run(low_priority.run(divmod, 17, 5)) == (3, 2)


def test_the_process_has_a_lower_priority_than_the_server() -> None:
    assert asyncio.run(low_priority.run(os.nice, 0)) == min(os.nice(0) + low_priority.NICENESS, 19)


@pytest.mark.parametrize("status", [1, 3])
def test_a_process_that_ends_without_a_result_is_a_failure(status: int) -> None:
    with pytest.raises(RuntimeError, match=f"ended with {status}"):
        asyncio.run(low_priority.run(sys.exit, status))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_request_of_a_killed_process_may_be_sent_again(number: signal.Signals) -> None:
    with pytest.raises(errors.Overloaded, match="was killed"):
        asyncio.run(low_priority.run(signal.raise_signal, number))


def test_a_crashed_process_is_a_failure() -> None:
    with pytest.raises(RuntimeError, match=f"ended with -{signal.SIGABRT}"):
        asyncio.run(low_priority.run(signal.raise_signal, signal.SIGABRT))


def test_a_function_that_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(low_priority, "SECONDS_MAX", 0.2)
    with pytest.raises(errors.Overloaded):
        asyncio.run(low_priority.run(signal.pause))


def test_few_processes_run_at_a_time() -> None:
    async def together() -> Sequence[Any]:
        return await asyncio.gather(*(low_priority.run(eval, SPAN) for _ in range(4)))

    spans = asyncio.run(together())
    running = [sum(begin <= at < end for begin, _, end in spans) for at, _, _ in spans]
    assert len(running) == 4
    assert max(running) <= low_priority.PROCESSES_MAX
