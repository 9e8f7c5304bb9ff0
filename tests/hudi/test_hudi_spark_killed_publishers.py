"""Publishers that are killed at every file: Hudi's Java reader sees what hudi-rs sees."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

import chronolake
from tests.fix_server import ServerProcess
from tests.fix_stores import Store
from tests.hudi.hudi_spark import HudiSpark
from tests.published import sorted_rows
from tests.server.publication.killing import State, StoredTable, kill_at_every_file

pytestmark = pytest.mark.hudi_spark
EVERY = 6
"""Each so manyth state is read by Java too."""


def test_after_each_death_of_a_publisher_both_readers_see_the_same_state(
    hudi_spark: HudiSpark, new_server: Callable[..., ServerProcess], dsn: str, tmp_path: Path
) -> None:
    server = new_server(dsn)
    numbers, looks = itertools.count(), itertools.count()
    with chronolake.connect(server.url) as client:

        def make() -> StoredTable:
            folder = tmp_path / f"lake{next(numbers)}"
            return StoredTable(client, Store(folder.as_uri(), None), folder)

        def look(table: StoredTable, seen: State) -> None:
            if next(looks) % EVERY == 0 and seen is not None:
                assert sorted_rows(hudi_spark.read(table.folder)) == seen

        killed = kill_at_every_file(make, 60, lambda table: table.expire_lease(dsn), look)
    assert killed >= 60
