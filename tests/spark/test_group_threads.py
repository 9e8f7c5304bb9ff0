"""Calls by several threads, whose results come in order."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

import pytest

from chronolake.writing import group_threads


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_results_come_in_the_order_of_the_calls(threads: int) -> None:
    assert list(group_threads.in_order((partial(int, str(number)) for number in range(9)), threads)) == list(
        range(9)
    )


def test_a_call_starts_as_soon_as_another_one_ends() -> None:
    is_third_done = threading.Event()

    def third() -> int:
        is_third_done.set()
        return 3

    # The first call ends after the third one: it would wait for ever if it had to end before.
    calls: list[Callable[[], int]] = [lambda: 1 if is_third_done.wait(30) else 0, lambda: 2, third]

    assert list(group_threads.in_order(calls, 2)) == [1, 2, 3]


def test_no_call_starts_after_one_has_failed() -> None:
    is_over = threading.Event()
    started: list[int] = []

    def failing() -> None:
        # The first call outlasts this one, which has failed when the first one ends.
        threading.Timer(0.2, is_over.set).start()
        raise ValueError("failed")

    calls: list[Callable[[], object]] = [
        lambda: is_over.wait(30),
        failing,
        partial(started.append, 3),
        partial(started.append, 4),
    ]
    with pytest.raises(ValueError, match="failed"):
        list(group_threads.in_order(calls, 2))

    assert started == []
