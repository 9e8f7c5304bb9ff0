"""Markers and crashes between the check of markers and the end of their instant: no marker is missed."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx
import pytest

from tests.fix_server import ServerProcess
from tests.server import database, rest
from tests.server.rest import Json, Table, marker, new_key, refused, succeeded, write_stat

CREATE = (
    "INSERT INTO marker SELECT table_id, requested_time, %s, %s, %s, NULL, now() FROM instant"
    " WHERE requested_time = moment_of(%s)"
)


@contextmanager
def marked_while(dsn: str, instant: str, late: Json) -> Iterator[None]:
    """Lock the instant's row as a marker request does; create a marker when another waits for the row."""
    with database.connected(dsn) as other, other.transaction():
        other.execute("SELECT FROM instant WHERE requested_time = moment_of(%s) FOR NO KEY UPDATE", (instant,))
        yield
        database.wait_for_waiting(dsn, 1)
        other.execute(CREATE, (late["partition_path"], late["file_name"], late["kind"], instant))


@pytest.mark.parametrize("marked_before", [[], [1]], ids=["the first", "one more"])
def test_a_marker_created_while_its_instant_completes_is_reconciled(
    table: Table, shared_dsn: str, marked_before: list[int]
) -> None:
    instant = table.begun()
    before = [marker(instant, bucket) for bucket in marked_before]
    stats = [write_stat(instant, bucket) for bucket in marked_before]
    table.mark(instant, *before)
    with ThreadPoolExecutor(1) as threads, marked_while(shared_dsn, instant, marker(instant, 0)):
        ended = threads.submit(table.complete, instant, *stats)

    assert refused(ended.result(), 409, "unreconciled-markers")["context"]["unreconciled"] == 1
    assert table.markers(instant) == [marker(instant, 0), *before]


def test_a_marker_created_while_staged_files_complete_is_reconciled(table: Table, shared_dsn: str) -> None:
    instant = table.begun()
    table.marked(instant, marker(instant, 1))
    version = table.staged(instant, write_stat(instant, 1))
    with ThreadPoolExecutor(1) as threads, marked_while(shared_dsn, instant, marker(instant, 0)):
        ended = threads.submit(table.complete, instant, staged=[version])

    refused(ended.result(), 409, "unreconciled-markers")


def test_neighbours_of_an_instant_that_is_marked_while_it_completes_are_carried_out_once(
    table: Table, shared_dsn: str
) -> None:
    marked, other = table.begun(), table.begun()
    with ThreadPoolExecutor(8) as threads, marked_while(shared_dsn, marked, marker(marked)):
        ended = threads.submit(table.complete, marked)
        begun = [threads.submit(table.begin, writer=f"neighbour-{number}") for number in range(6)]
        neighbour = threads.submit(table.complete, other, write_stat(other))

    refused(ended.result(), 409, "unreconciled-markers")
    succeeded(neighbour.result())
    assert len({succeeded(answer.result())["requested_time"] for answer in begun}) == 6
    [row] = database.query(
        shared_dsn,
        "SELECT count(*) AS begun FROM instant JOIN lake_table USING (table_id)"
        " WHERE namespace || '.' || name = %s AND writer LIKE 'neighbour-%%'",
        table.name,
    )
    assert row == {"begun": 6}


def test_a_marker_created_while_its_instant_is_rolled_back_is_on_the_list(
    table: Table, shared_dsn: str
) -> None:
    instant = table.begun()
    with ThreadPoolExecutor(1) as threads, marked_while(shared_dsn, instant, marker(instant)):
        ended = threads.submit(table.roll_back, instant)

    rollback = succeeded(ended.result())["rolled_back_by"]
    assert table.state(rollback) == "inflight"
    refused(table.complete(rollback), 409, "unreconciled-markers")
    succeeded(table.report(rollback, marker(instant)))
    succeeded(table.complete(rollback))


def test_of_reports_of_one_file_at_once_each_is_recorded_or_refused_and_none_fails(table: Table) -> None:
    instant = table.begun()
    files = [marker(instant, bucket) for bucket in range(50)]
    table.marked(instant, *files)
    with ThreadPoolExecutor(8) as threads:
        reports = [threads.submit(table.report, instant, *files[::step]) for step in (1, -1) * 4]

    assert [answer.result().status_code for answer in reports] == [201] * 8
    assert table.markers(instant) == []
    assert len(table.deletions(instant)) == 50


def test_a_server_killed_between_report_and_completion_leaves_the_rest_of_the_list(
    server: ServerProcess,
) -> None:
    with rest.connect(server.url) as http:
        table = rest.make_table(http)
        instant = table.begun()
        table.marked(instant, marker(instant, 0), marker(instant, 1))
        rollback = succeeded(table.roll_back(instant))["rolled_back_by"]
        key = new_key()
        reported = succeeded(table.report(rollback, marker(instant, 0), key=key))

        server.kill()
        server.start()

        assert table.markers(instant) == [marker(instant, 1)]
        assert succeeded(table.report(rollback, marker(instant, 0), key=key)) == reported
        refused(table.complete(rollback), 409, "unreconciled-markers")
        succeeded(table.report(rollback, marker(instant, 1)))
        succeeded(table.complete(rollback))


def test_a_server_killed_in_the_middle_of_a_report_has_recorded_nothing_of_it(
    server: ServerProcess, dsn: str
) -> None:
    with rest.connect(server.url) as http, ThreadPoolExecutor(1) as threads:
        table = rest.make_table(http)
        instant = table.begun()
        table.marked(instant, marker(instant))
        with database.clock_held(dsn, table.name):
            undecided = threads.submit(table.report, instant, marker(instant))
            database.wait_for_waiting(dsn, 1)
            server.kill()
        assert isinstance(undecided.exception(), httpx.TransportError)
        server.start()

        assert (table.markers(instant), table.deletions(instant)) == ([marker(instant)], [])
        succeeded(table.report(instant, marker(instant)))
        assert (table.markers(instant), table.deletions(instant)) == ([], [marker(instant)["file_name"]])
