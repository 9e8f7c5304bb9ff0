"""Known faults of Hudi's marker server, tested with the server killed or its database frozen."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.fix_server import ServerProcess
from tests.server import database, rest
from tests.server.freezer import Freezer
from tests.server.rest import Table, marker, refused, succeeded
from tests.server.test_early_conflicts import EARLY

ODD_VALUES = ("a,b", 'a"b', "a'b", "a b", "ü", "a.marker.CREATE", "{a}", "NULL", "%00", "\\u0000"[1:])
ODD_PARTITIONS = tuple(f"day={value}" for value in ODD_VALUES)


def test_no_name_is_changed_by_a_server_that_dies_and_restarts(server: ServerProcess) -> None:
    """Hudi reloads its marker files joined by commas, and continues with line feeds (HUDI's MarkerDirState)."""
    with rest.connect(server.url) as http:
        table = rest.make_table(http, partition_fields=["day"])
        instant = table.begun()
        odd = [marker(instant, 0, partition) for partition in ODD_PARTITIONS]
        table.marked(instant, *odd[::2])

        server.kill()
        server.start()
        table.marked(instant, *odd[1::2])

        assert sorted(stored_marker["partition_path"] for stored_marker in table.markers(instant)) == sorted(
            ODD_PARTITIONS
        )
        assert table.marked(instant, *odd) == ["existed"] * len(odd)


@pytest.fixture
def freezer(dsn: str) -> Iterator[Freezer]:
    with Freezer(dsn) as freezer:
        yield freezer


def test_a_marker_is_not_acknowledged_before_it_is_durable(
    freezer: Freezer, new_server: Callable[..., ServerProcess]
) -> None:
    """Hudi adds a marker to its set before the flush: a retry in between is answered that the marker exists."""
    server = new_server(freezer.dsn)
    with rest.connect(server.url) as http, ThreadPoolExecutor(2) as threads:
        table = rest.make_table(http)
        instant = table.begun()
        table.marked(instant, marker(instant, 1))
        freezer.freeze()
        first, again = (threads.submit(table.mark, instant, marker(instant)) for _ in range(2))
        time.sleep(0.5)
        assert not first.done()
        assert not again.done()

        server.kill()
        for request in (first, again):
            assert isinstance(request.exception(), httpx.TransportError)
        freezer.thaw()
        server.start()

        assert table.markers(instant) == [marker(instant, 1)]
        assert table.marked(instant, marker(instant)) == ["created"]


def test_a_marker_whose_answer_was_lost_with_the_server_existed_the_second_time(
    freezer: Freezer, dsn: str, new_server: Callable[..., ServerProcess]
) -> None:
    server = new_server(freezer.dsn)
    with rest.connect(server.url) as http, ThreadPoolExecutor(1) as threads:
        table = rest.make_table(http)
        instant = table.begun()
        # From a lane's third time on it is one message: connected, and the statement prepared. There are two.
        assert [table.marked(instant, marker(instant, 1)) for _ in range(6)][-1] == ["existed"]
        freezer.freeze(requests=False)
        lost = threads.submit(table.mark, instant, marker(instant))
        database.wait_until(dsn, "(SELECT count(*) FROM marker) = 2")
        server.kill()
        assert isinstance(lost.exception(), httpx.TransportError)
        freezer.thaw()
        server.start()

        assert table.marked(instant, marker(instant)) == ["existed"]


def test_another_transactions_marker_does_not_exist_before_it_commits(table: Table, shared_dsn: str) -> None:
    instant = table.begun()
    with ThreadPoolExecutor(1) as threads, database.connected(shared_dsn) as other:
        with other.transaction(force_rollback=True):
            other.execute(
                "INSERT INTO marker SELECT table_id, requested_time, '', %s, 'CREATE', NULL, now() "
                "FROM instant WHERE requested_time = moment_of(%s)",
                (marker(instant)["file_name"], instant),
            )
            marking = threads.submit(table.mark, instant, marker(instant))
            database.wait_for_waiting(shared_dsn, 1)
            assert not marking.done()

        assert succeeded(marking.result())["outcomes"] == ["created"]


def test_while_a_conflict_cannot_be_decided_no_marker_is_let_through(
    freezer: Freezer, new_server: Callable[..., ServerProcess]
) -> None:
    """Hudi's early conflict check fails open."""
    server = new_server(freezer.dsn, "--silent-seconds", "1")
    with rest.connect(server.url) as http, ThreadPoolExecutor(1) as threads:
        early = rest.make_table(http, properties=EARLY)
        winner, loser = early.begun(), early.begun()
        early.marked(winner, marker(winner))

        freezer.freeze()
        undecided = threads.submit(early.mark, loser, marker(loser))
        refused(undecided.result(), 503, "database-unavailable")
        freezer.thaw()

        refused(early.mark(loser, marker(loser)), 409, "write-conflict")
        assert early.markers(loser) == []


def test_a_server_killed_while_it_decides_a_conflict_lets_nothing_through(
    server: ServerProcess, dsn: str
) -> None:
    with rest.connect(server.url) as http, ThreadPoolExecutor(1) as threads:
        early = rest.make_table(http, properties=EARLY)
        winner, loser = early.begun(), early.begun()
        early.marked(winner, marker(winner))
        with database.connected(dsn) as other, other.transaction():
            other.execute("LOCK TABLE file IN ACCESS EXCLUSIVE MODE")
            undecided = threads.submit(early.mark, loser, marker(loser))
            database.wait_for_waiting(dsn, 1)
            server.kill()
        assert isinstance(undecided.exception(), httpx.TransportError)
        server.start()

        assert early.markers(loser) == []
        refused(early.mark(loser, marker(loser)), 409, "write-conflict")
