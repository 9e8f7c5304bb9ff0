"""Promise 5: a store, a database or a server that fails delays the deletions of the server, and loses none."""

from __future__ import annotations

from pathlib import Path

import pytest

from chronolake_metastore.workers.deleter import AT_ONCE
from tests.fix_s3 import S3, Fault
from tests.fix_server import ServerProcess
from tests.fix_stores import Store
from tests.processes import wait_until
from tests.server import database, rest, stored
from tests.server.deleting import (
    DELETES,
    OTHERS,
    NewServer,
    completes,
    kill_in_the_middle,
    table_files,
)
from tests.server.rest import succeeded
from tests.server.stored import StoredTable, path_of


def test_a_file_that_cannot_be_deleted_keeps_its_marker_and_its_rollback_waiting(
    deleting_server: ServerProcess, local_store: Store
) -> None:
    with stored.table_at(deleting_server.url, local_store) as table:
        instant = table.begun()
        stuck = stored.marker_of(instant, 50)
        table.marked(instant, stuck)
        # A folder in place of a file cannot be deleted as a file.
        table.storage.create_empty(f"{path_of(stuck)}/within")
        rollback, markers = table.given_up(first=instant)

        wait_until(lambda: "rollback given back" in deleting_server.log())

        assert table.markers(instant) == [stuck]
        assert table.deletions(rollback) == [marker["file_name"] for marker in markers]
        given_back = database.query(
            deleting_server.dsn,
            "SELECT payload FROM event WHERE type = 'InstantReturnedToRequested' ORDER BY version",
        )
        assert given_back[0]["payload"]["reason"].startswith(f"1 file could not be deleted: {path_of(stuck)}: ")
        table.store.delete(f"{path_of(stuck)}/within")
        table.store.files().remove_empty_folders_unguarded(path_of(stuck))
        completes(table, rollback)


def test_plans_that_cannot_be_executed_hold_up_no_other_of_their_table(
    new_server: NewServer, dsn: str, local_store: Store
) -> None:
    with stored.table_at(new_server(dsn).url, local_store) as table:
        for number in range(AT_ONCE):
            instant = table.begun()
            stuck = stored.marker_of(instant, number)
            table.marked(instant, stuck)
            table.storage.create_empty(f"{path_of(stuck)}/within")
            succeeded(table.roll_back(instant, execute=False))
        last, _ = table.given_up()

        new_server(dsn, *DELETES)

        completes(table, last)


@pytest.mark.parametrize("times", [3, 60])
def test_a_throttled_request_to_the_store_is_retried(s3_table: StoredTable, s3: S3, times: int) -> None:
    """A few times within a request, many times in the turns to come."""
    s3.faults.append(Fault("POST", s3.bucket, 503, "SlowDown", times))
    rollback, _ = s3_table.given_up()

    completes(s3_table, rollback)

    assert s3_table.paths() == [OTHERS]


def test_while_a_store_refuses_nothing_is_reported(
    s3_table: StoredTable, s3: S3, deleting_server: ServerProcess
) -> None:
    s3.faults.append(Fault("POST", s3.bucket, 403, "AccessDenied"))
    rollback, markers = s3_table.given_up()

    wait_until(lambda: deleting_server.log().count("rollback given back") >= 2)

    assert s3_table.deletions(rollback) == []
    assert len(s3_table.paths()) == 1 + len(markers)
    s3.faults.clear()
    completes(s3_table, rollback)


def test_an_unreachable_table_is_skipped_and_delays_no_other_table(
    deleting_server: ServerProcess, local_store: Store, tmp_path: Path
) -> None:
    """Where a folder is not to be seen, all of its files would look as if they were deleted."""
    elsewhere = tmp_path / "elsewhere"
    with rest.connect(deleting_server.url) as http, stored.table_at(deleting_server.url, local_store) as near:
        far = rest.make_table(http, base_path=str(elsewhere))
        instants = [far.begun() for _ in range(8)]
        for instant in instants:
            far.marked(instant, rest.marker(instant))
        rolled_back = [
            succeeded(far.roll_back(instant, execute=False))["rolled_back_by"] for instant in instants
        ]
        rollback, _ = near.given_up()

        completes(near, rollback)

        assert {far.state(rollback) for rollback in rolled_back} == {"requested"}
        assert far.markers(instants[0]) == [rest.marker(instants[0])]
        assert "elsewhere does not exist" in deleting_server.log()
        elsewhere.mkdir()
        wait_until(lambda: {far.state(rollback) for rollback in rolled_back} == {"completed"})


def test_a_bucket_that_is_not_there_is_no_place_where_all_is_deleted(
    deleting_server: ServerProcess, s3: S3, s3_table: StoredTable
) -> None:
    nowhere = rest.make_table(
        s3_table.http,
        base_path="s3://there-is-no-such-bucket/orders",
        properties={f"storage.{name}": s3.options[name] for name in ("endpoint_override", "region")},
    )
    instant = nowhere.begun()
    nowhere.marked(instant, rest.marker(instant))
    rollback = succeeded(nowhere.roll_back(instant, execute=False))["rolled_back_by"]

    wait_until(lambda: "table cannot be reached" in deleting_server.log())

    assert (nowhere.state(rollback), nowhere.deletions(rollback)) == ("requested", [])


@pytest.mark.parametrize("reported", [0, 1_000, 2_000])
def test_a_server_killed_in_the_middle_leaves_the_rest_to_the_next(
    new_server: NewServer, dsn: str, local_store: Store, reported: int
) -> None:
    quiet = new_server(dsn)
    with stored.table_at(quiet.url, local_store) as table:
        rollback, markers = table.given_up(files=4_500)
        kill_in_the_middle(new_server(dsn, *DELETES), dsn, reported)
        new_server(dsn, *DELETES)

        completes(table, rollback)

        assert table.paths() == [OTHERS]
        rows = database.query(dsn, "SELECT count(DISTINCT file_name) AS files FROM deleted_file")
        assert (rows[0]["files"], table.markers(rollback)) == (len(markers), [])
        assert [orphan.reason for orphan in table.orphans()] == ["not-a-data-file"]


def test_of_two_servers_that_delete_one_executes_each_rollback(
    storage_credentials: None, new_server: NewServer, dsn: str, store: Store
) -> None:
    quiet = new_server(dsn)
    with stored.table_at(quiet.url, store) as table:
        given_up = [table.given_up()[0] for _ in range(12)]
        servers = [new_server(dsn, *DELETES) for _ in range(2)]

        completes(table, *given_up)

    assert [server.log().count("Traceback") for server in servers] == [0, 0]
    executed = database.query(
        dsn, "SELECT instant, count(*) AS times FROM event WHERE type = 'InstantInflight' GROUP BY instant"
    )
    assert [row["times"] for row in executed] == [1] * len(given_up)
    assert table.paths() == [OTHERS]


def test_a_database_that_goes_away_meanwhile_costs_time_only(
    new_server: NewServer, dsn: str, local_store: Store
) -> None:
    quiet = new_server(dsn)
    with stored.table_at(quiet.url, local_store) as table:
        rollback, markers = table.given_up(files=3_000)
        server = new_server(dsn, *DELETES)
        database.wait_until(dsn, "(SELECT count(*) FROM deleted_file) >= 1000")
        database.sever(dsn)

        completes(table, rollback)

    assert "Traceback" not in server.log()
    assert len(set(table_files(dsn))) == len(markers)


def test_a_stop_signal_ends_the_server_in_the_middle_of_a_rollback(
    new_server: NewServer, dsn: str, local_store: Store
) -> None:
    server = new_server(dsn, *DELETES)
    with (
        stored.table_at(server.url, local_store) as table,
        database.connected(dsn) as other,
        other.transaction(),
    ):
        other.execute("LOCK TABLE deleted_file IN SHARE MODE")
        table.given_up()
        database.wait_for_waiting(dsn, 1)
        server.stop()
    assert "stopped" in server.log()
