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
from tests.server.publication.killed_tables import copy_on_write, merge_on_read
from tests.server.publication.killing import History, kill_at_every_file

Kill = Callable[..., int]
MakeHistory = Callable[[chronolake.Client, Store], History]


@pytest.fixture
def kill(shared_server: ServerProcess) -> Kill:
    """Kills publishers of tables in a store."""

    def killed(make: MakeHistory, store: Store, kills: int, every: int = 1) -> int:
        numbers = itertools.count()
        with chronolake.connect(shared_server.url, storage_options=store.options) as client:

            def new_history() -> History:
                place = msgspec.structs.replace(store, base_path=f"{store.base_path}_{next(numbers)}")
                return make(client, place)

            return kill_at_every_file(new_history, kills, shared_server.dsn, every=every)

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
