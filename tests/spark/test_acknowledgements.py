"""Acknowledgements in the background. Without Spark."""

from __future__ import annotations

import queue

import pytest

from chronolake.errors import StorageFailed
from chronolake_spark.stream.acknowledgements import Acknowledger


class Server:
    """Holds each acknowledgement until it is let go."""

    def __init__(self) -> None:
        self.begun: queue.Queue[int] = queue.Queue()
        self.results: queue.Queue[Exception | None] = queue.Queue()

    def acknowledge(self, checkpoint: int) -> None:
        self.begun.put(checkpoint)
        failure = self.results.get(timeout=60)
        if failure is not None:
            raise failure


def test_an_acknowledgement_covers_those_that_came_while_the_one_before_was_sent() -> None:
    server = Server()
    acknowledger = Acknowledger(server.acknowledge, pending_max=3)
    acknowledger.add(1)
    assert server.begun.get(timeout=60) == 1
    acknowledger.add(2)
    acknowledger.add(3)
    acknowledger.wait()
    server.results.put(None)
    assert server.begun.get(timeout=60) == 3
    server.results.put(None)
    acknowledger.drain()
    assert server.begun.empty()


def test_no_more_wait_than_may() -> None:
    server = Server()
    acknowledger = Acknowledger(server.acknowledge, pending_max=1)
    acknowledger.add(1)
    acknowledger.wait()
    assert server.begun.get(timeout=60) == 1
    acknowledger.add(2)
    server.results.put(None)
    acknowledger.wait()
    assert server.begun.get(timeout=60) == 2
    server.results.put(None)
    acknowledger.drain()


def test_a_failure_is_raised_by_the_next_wait_and_the_next_one_covers_what_failed() -> None:
    server = Server()
    acknowledger = Acknowledger(server.acknowledge, pending_max=5)
    server.results.put(StorageFailed("it is away"))
    acknowledger.add(1)
    with pytest.raises(StorageFailed):
        acknowledger.drain()
    server.results.put(None)
    acknowledger.add(2)
    acknowledger.drain()
    assert [server.begun.get(timeout=60) for _ in range(2)] == [1, 2]
