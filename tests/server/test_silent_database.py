"""A database that freezes while TCP answers: nobody waits for it for ever, and no command happens twice."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.fix_server import ServerProcess
from tests.server import database, rest
from tests.server.freezer import Freezer
from tests.server.rest import Table, new_key, refused, succeeded

WRITERS = 6
COMMANDS = 40
READY_SECONDS_MAX = 5.0


@pytest.fixture
def freezer(dsn: str) -> Iterator[Freezer]:
    with Freezer(dsn) as freezer:
        yield freezer


@pytest.fixture
def table(freezer: Freezer, new_server: Callable[..., ServerProcess]) -> Iterator[Table]:
    """A table of a server whose way to the database can be frozen."""
    server = new_server(freezer.dsn, "--silent-seconds", "1")
    with httpx.Client(base_url=server.url, timeout=60) as http:
        yield rest.make_table(http)


@pytest.mark.parametrize("requests_arrive", [False, True])
def test_a_command_whose_database_froze_is_carried_out_once_by_another_connection(
    freezer: Freezer, dsn: str, table: Table, requests_arrive: bool
) -> None:
    key = new_key()
    freezer.freeze(requests=not requests_arrive)
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(table.begin, key=key)
        time.sleep(0.5)
        freezer.thaw()
        begun = succeeded(waiting.result())

    assert succeeded(table.begin(key=key)) == begun
    assert len(database.query(dsn, "SELECT FROM chronolake.event WHERE request_id = %s", key)) == 1


def test_commands_under_way_while_the_answers_of_the_database_are_lost_happen_once(
    freezer: Freezer, dsn: str, table: Table
) -> None:
    keys = [new_key() for _ in range(WRITERS * COMMANDS)]
    with ThreadPoolExecutor(WRITERS) as threads:
        answers = [threads.submit(table.begin, key=key) for key in keys]
        for done in (COMMANDS, 3 * COMMANDS):
            answers[done].result()
            freezer.freeze(requests=False)
            freezer.thaw()
        times = [succeeded(answer.result())["requested_time"] for answer in answers]

    logged = database.query(dsn, "SELECT request_id FROM chronolake.event WHERE type = 'InstantRequested'")
    assert sorted(row["request_id"] for row in logged) == sorted(keys)
    assert len(set(times)) == len(keys)


def test_a_server_whose_database_froze_says_soon_that_it_is_not_ready(freezer: Freezer, table: Table) -> None:
    freezer.freeze()
    for _ in range(3):
        asked = time.monotonic()
        refused(table.http.get("/ready"), 503, "database-unavailable")
        assert time.monotonic() - asked < READY_SECONDS_MAX
        assert table.http.get("/health").status_code == 200
