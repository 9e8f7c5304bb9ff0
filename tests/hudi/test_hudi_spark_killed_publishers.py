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
from tests.server.publication.killed_tables import copy_on_write, merge_on_read
from tests.server.publication.killing import History, State, kill_at_every_file

pytestmark = pytest.mark.hudi_spark
EVERY = 6
"""Each so manyth state is read by Java too."""


@pytest.mark.parametrize("make", [copy_on_write, merge_on_read])
def test_after_each_death_of_a_publisher_both_readers_see_the_same_state(
    hudi_spark: HudiSpark,
    new_server: Callable[..., ServerProcess],
    dsn: str,
    tmp_path: Path,
    make: Callable[[chronolake.Client, Store], History],
) -> None:
    server = new_server(dsn)
    numbers, looks = itertools.count(), itertools.count()
    with chronolake.connect(server.url) as client:

        def new_history() -> History:
            return make(client, Store((tmp_path / f"lake{next(numbers)}").as_uri(), None))

        def look(history: History, seen: State) -> None:
            if next(looks) % EVERY == 0 and seen is not None:
                assert history.table.of_java(hudi_spark) == seen

        assert kill_at_every_file(new_history, 60, dsn, look) >= 60
