"""How state machines are played, on a database of their own for each example."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

EXAMPLES: Final = int(os.environ.get("CHRONOLAKE_EXAMPLES", "10"))
STEPS: Final = os.environ.get("CHRONOLAKE_STEPS")
LONG_SECONDS: Final = float(os.environ.get("LONG_SECONDS", "240"))

_Machine = TypeVar("_Machine", bound=RuleBasedStateMachine)


def on_real_database(machine: type[_Machine], new_database: Callable[[], str]) -> type[_Machine]:
    """The machine with its ``new_database``."""
    names: dict[str, Any] = {"new_database": staticmethod(new_database)}
    return type("OnRealDatabase", (machine,), names)


def play(
    machine: type[RuleBasedStateMachine], steps: int, examples: int = EXAMPLES, *, derandomize: bool = False
) -> None:
    """Play so many examples of so many steps, unless the environment has another number of them.

    With ``derandomize`` they are the same in each run.
    """
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps if STEPS is None else int(STEPS),
            deadline=None,
            derandomize=derandomize,
            suppress_health_check=list(HealthCheck),
        ),
    )


def play_long(machine: type[RuleBasedStateMachine], steps: int) -> None:
    """Play for ``LONG_SECONDS``."""
    end = time.monotonic() + LONG_SECONDS
    while time.monotonic() < end:
        play(machine, steps, 50)
