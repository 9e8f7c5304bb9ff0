"""Fixtures of the tests with a real pgbouncer."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from psycopg.conninfo import make_conninfo

from tests.fix_postgres import claimed
from tests.poolers.pgbouncer import PgBouncer


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests with pgbouncer, unless they are asked for: ``make test-poolers`` does."""
    if "pgbouncer" in config.option.markexpr:
        return
    left_out = [item for item in items if item.get_closest_marker("pgbouncer")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture
def dsn(new_database: Callable[[], str]) -> str:
    """The DSN of a database whose identity has no place. A DSN has it in ``options``, which no pooler takes."""
    return claimed(make_conninfo(new_database(), options=""))


@pytest.fixture
def new_pooler() -> Iterator[Callable[..., PgBouncer]]:
    """Starts poolers in front of a DSN, with settings of pgbouncer; they are stopped at the end of the test."""
    with ExitStack() as started:

        def start(dsn: str, **settings: str | int) -> PgBouncer:
            # As in fix_postgres: pytest's own folder is closed to the account that it runs as.
            folder = Path(tempfile.mkdtemp(prefix="chronolake-pgbouncer-"))
            started.callback(shutil.rmtree, folder, ignore_errors=True)
            pooler = PgBouncer(folder, dsn, **settings)
            started.callback(pooler.stop)
            return pooler.start()

        yield start
