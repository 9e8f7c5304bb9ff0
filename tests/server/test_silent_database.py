"""A database that freezes while TCP answers: no request waits for ever, and no command takes effect twice."""

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


def test_commands_whose_database_answers_are_lost_take_effect_once(
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


def test_a_server_with_a_frozen_database_reports_soon_that_it_is_not_ready(
    freezer: Freezer, table: Table
) -> None:
    freezer.freeze()
    for _ in range(3):
        started = time.monotonic()
        refused(table.http.get("/ready"), 503, "database-unavailable")
        assert time.monotonic() - started < READY_SECONDS_MAX
        assert table.http.get("/health").status_code == 200


def test_a_request_is_answered_in_time_with_a_silent_database(
    freezer: Freezer, dsn: str, new_server: Callable[..., ServerProcess]
) -> None:
    server = new_server(freezer.dsn, "--answer-seconds", "1")
    # The database is given up after 20 seconds by default; the caller would give up before that.
    with httpx.Client(base_url=server.url, timeout=10) as http:
        table = rest.make_table(http)
        key = new_key()
        freezer.freeze()
        late = [table.begin(key=key), http.get("/v1/namespaces"), table.begin()]
        mark = table.mark("20260101000000000", rest.marker("20260101000000000"))
        of_iceberg = http.get("/iceberg/v1/namespaces")
        freezer.thaw()

    for answer in (*late, mark):
        refused(answer, 503, "database-unavailable")
        assert answer.headers["Retry-After"] == "1"
    assert late[0].headers["Idempotency-Key"] == late[0].json()["idempotency_key"] == key
    assert of_iceberg.json()["error"]["type"] == "ServiceUnavailableException"


def test_a_command_answered_too_late_takes_effect_once(
    freezer: Freezer, dsn: str, new_server: Callable[..., ServerProcess]
) -> None:
    server = new_server(freezer.dsn, "--answer-seconds", "1", "--silent-seconds", "2")
    with httpx.Client(base_url=server.url, timeout=60) as http:
        table = rest.make_table(http)
        key = new_key()
        freezer.freeze()
        refused(table.begin(key=key), 503, "database-unavailable")
        freezer.thaw()
        while (again := table.begin(key=key)).status_code == 503:
            pass

    succeeded(again)
    assert len(database.query(dsn, "SELECT FROM chronolake.event WHERE request_id = %s", key)) == 1
