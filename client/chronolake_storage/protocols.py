"""Protocols without I/O that client and server share: each drives them with its own executor.

A protocol is a generator of steps. An executor performs each step with its own storage and metastore: its
methods return the answer to a step, or an awaitable of it.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Generic, TypeAlias, TypeVar

Answer = TypeVar("Answer")


class Step(Generic[Answer]):
    """A step for the executor; ``yield from`` a step returns the answer."""

    def __iter__(self) -> Generator[Step[Any], Any, Answer]:
        answer: Answer = yield self
        return answer

    def perform(self, executor: Any) -> Any:
        """Call the method of the executor that performs this step."""
        raise NotImplementedError


Protocol: TypeAlias = Generator[Step[Any], Any, None]


async def run(protocol: Protocol, executor: Any) -> None:
    """Perform all steps of a protocol, and await each. Raises the errors of the executor."""
    answer = None
    while (step := _next_step(protocol, answer)) is not None:
        answer = await step.perform(executor)


def run_blocking(protocol: Protocol, executor: Any) -> None:
    """As ``run``, for an executor whose methods block."""
    answer = None
    while (step := _next_step(protocol, answer)) is not None:
        answer = step.perform(executor)


def _next_step(protocol: Protocol, answer: Any) -> Step[Any] | None:
    try:
        return protocol.send(answer)
    except StopIteration:
        return None
