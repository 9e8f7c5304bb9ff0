"""Killed publishers: hudi-rs sees a state that the table had, and the next publisher continues."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

import chronolake
from tests.fix_server import ServerProcess
from tests.fix_stores import Store
from tests.server.publication.killing import StoredTable, kill_at_every_file


@pytest.fixture
def make(shared_server: ServerProcess, store: Store, tmp_path: Path) -> Iterator[Callable[[], StoredTable]]:
    """Makes tables of their own in a store."""
    numbers = itertools.count()
    with chronolake.connect(shared_server.url, storage_options=store.options) as client:

        def table() -> StoredTable:
            place = msgspec.structs.replace(store, base_path=f"{store.base_path}_{next(numbers)}")
            return StoredTable(client, place, tmp_path)

        yield table


@pytest.mark.parametrize(("kills", "every"), [(8, 4), pytest.param(500, 1, marks=pytest.mark.slow)])
def test_after_each_death_of_a_publisher_hudi_sees_a_state_that_the_table_had(
    make: Callable[[], StoredTable], shared_server: ServerProcess, kills: int, every: int
) -> None:
    killed = kill_at_every_file(make, kills, lambda table: table.expire_lease(shared_server.dsn), every=every)
    assert killed >= kills
