"""Killed publishers: hudi-rs sees a state that the table had, and the next publisher continues."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

import chronolake
from tests.fix_server import ServerProcess
from tests.fix_stores import Store
from tests.server.publication.archived_tables import active_times, archived, history_names, times
from tests.server.publication.killed_tables import copy_on_write, merge_on_read, with_history
from tests.server.publication.killing import History, State, kill_at_every_file

Kill = Callable[..., int]
Look = Callable[[History, State], object]
MakeHistory = Callable[[chronolake.Client, Store], History]


@pytest.fixture
def kill(shared_server: ServerProcess) -> Kill:
    """Kills publishers of tables in a store."""

    def killed(
        make: MakeHistory, store: Store, kills: int, every: int = 1, look: Look = lambda *_: None
    ) -> int:
        numbers = itertools.count()
        with chronolake.connect(shared_server.url, storage_options=store.options) as client:

            def new_history() -> History:
                place = msgspec.structs.replace(store, base_path=f"{store.base_path}_{next(numbers)}")
                return make(client, place)

            return kill_at_every_file(new_history, kills, shared_server.dsn, look, every=every)

    return killed


@pytest.mark.parametrize(("kills", "every"), [(8, 4), pytest.param(250, 1, marks=pytest.mark.slow)])
def test_after_each_death_of_a_publisher_hudi_sees_a_state_that_the_table_had(
    kill: Kill, store: Store, kills: int, every: int
) -> None:
    assert kill(copy_on_write, store, kills, every) >= kills


@pytest.mark.slow
def test_after_each_death_hudi_sees_a_state_that_the_merge_on_read_table_had(kill: Kill, store: Store) -> None:
    assert kill(merge_on_read, store, 250) >= 250


def test_after_few_deaths_hudi_sees_a_state_that_the_merge_on_read_table_had(
    kill: Kill, tmp_path: Path
) -> None:
    assert kill(merge_on_read, Store((tmp_path / "lake").as_uri(), None), 8, 40) >= 8


@pytest.mark.parametrize(("kills", "every"), [(12, 7), pytest.param(250, 1, marks=pytest.mark.slow)])
def test_after_each_death_every_instant_is_on_the_timeline_or_in_the_history(
    kill: Kill, store: Store, kills: int, every: int
) -> None:
    """apache/hudi PR 10325, 10883, 13128: the order of files, of deletions, and what a crash leaves."""
    seen: dict[str, set[str]] = {}
    moved: set[int] = set()

    def look(history: History, _state: State) -> None:
        table = history.table
        known = seen.setdefault(table.store.base_path, set())
        rows, active = times(archived(table)), active_times(table)
        assert known <= {*rows, *active}
        known |= {*rows, *active}
        # What is on the timeline is all that is later than its first instant.
        assert not active or all(time in active for time in known if time >= min(active))
        assert len(rows) == len({*rows})
        moved.add(len(rows))
        assert all(not name.startswith("manifest_") or name[9:].isdigit() for name in history_names(table))

    assert kill(with_history, store, kills, every, look) >= kills
    assert len(moved) > 1
