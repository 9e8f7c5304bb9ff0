"""Random histories whose old rows leave the log: the state, and every answer about it, needs none of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis.stateful import rule
from typing_extensions import override

from tests.store import leaving, machines
from tests.store.test_timeline_machine import STEPS, Promises


class WithoutOldEvents(Promises):
    """All rows leave that the state does not need, between the commands."""

    def __init__(self) -> None:
        super().__init__()
        leaving.prepare(self.admin)
        self.first: dict[str, int] = {}

    @rule()
    def let_old_rows_leave(self) -> None:
        self.first = self.runner.run(leaving.find_first(self.database))
        leaving.leave(self.admin, self.first)

    @override
    @rule()
    def look_back_verify_and_rebuild(self) -> None:
        """The projections are those of a replay of the whole log."""
        leaving.put_back(self.admin)
        super().look_back_verify_and_rebuild()
        leaving.leave(self.admin, self.first)


@pytest.fixture
def machine(new_database: Callable[[], str]) -> type[WithoutOldEvents]:
    return machines.on_real_database(WithoutOldEvents, new_database)


def test_the_promises_hold_after_old_rows_have_left(machine: type[WithoutOldEvents]) -> None:
    machines.play(machine, STEPS, examples=5, derandomize=True)


@pytest.mark.slow
def test_the_promises_hold_without_old_rows_for_as_long_as_one_likes(machine: type[WithoutOldEvents]) -> None:
    machines.play_long(machine, STEPS)
