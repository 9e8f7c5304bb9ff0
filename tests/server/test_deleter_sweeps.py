"""Promise 5: a server that has credentials deletes files that appear after their deletion was recorded."""

from __future__ import annotations

from tests.fix_s3 import S3, Fault
from tests.fix_server import ServerProcess
from tests.fix_stores import Store
from tests.processes import wait_until
from tests.server import database, rest, stored
from tests.server.deleting import DELETES, OTHERS, NewServer, completes
from tests.server.rest import succeeded
from tests.server.stored import StoredTable, path_of


def test_a_late_file_of_a_plan_is_swept(stored_table: StoredTable) -> None:
    instant = stored_table.begun()
    named = path_of(stored.marker_of(instant, 0))
    rolled_back = stored_table.roll_back(instant, execute=False, files_to_delete=[named])
    rollback = succeeded(rolled_back)["rolled_back_by"]
    completes(stored_table, rollback)

    stored_table.storage.create_empty(named)

    wait_until(lambda: stored_table.paths() == [OTHERS])
    wait_until(lambda: stored_table.unswept(grace_seconds=0) == [])


def test_a_file_marked_in_storage_after_the_rollback_is_swept(stored_table: StoredTable) -> None:
    """Such a marker is neither refused nor reported."""
    instant = stored_table.begun(markers="direct")
    rollback = succeeded(stored_table.roll_back(instant, execute=False))["rolled_back_by"]
    completes(stored_table, rollback)
    marked, written = stored.marker_of(instant, 0), stored.marker_of(instant, 1)

    stored_table.storage.create_all_empty(
        f".hoodie/.temp/{instant}/{path_of(marker)}.marker.CREATE" for marker in (marked, written)
    )
    stored_table.storage.create_empty(path_of(written))
    wait_until(lambda: stored_table.paths() == [OTHERS])
    wait_until(lambda: list(stored_table.storage.listing(".hoodie/.temp")) == [])
    stored_table.storage.create_empty(path_of(marked))

    wait_until(lambda: stored_table.paths() == [OTHERS])
    wait_until(lambda: stored_table.unswept(grace_seconds=0) == [])
    assert len(stored_table.deletions(rollback)) == 2


def test_a_file_that_a_task_finishes_after_its_rollback_is_swept(
    stored_table: StoredTable, shared_deleting_server: ServerProcess
) -> None:
    rollback, markers = stored_table.given_up()
    completes(stored_table, rollback)
    late = path_of(markers[1])

    stored_table.storage.create_empty(late)
    wait_until(lambda: stored_table.paths() == [OTHERS])
    wait_until(lambda: stored_table.unswept(grace_seconds=0) == [])

    again = database.query(
        shared_deleting_server.dsn,
        "SELECT actor, partition_path || '/' || file_name AS path FROM audit_deletions "
        "WHERE table_name = %s ORDER BY version DESC",
        stored_table.name,
    )
    assert (again[0]["actor"], again[0]["path"]) == ("chronolake-sweeper", late)
    assert "late files deleted" in shared_deleting_server.log()
    assert [orphan.reason for orphan in stored_table.orphans()] == ["not-a-data-file"]


def test_the_file_of_a_lost_attempt_is_swept_and_the_published_file_stays(
    stored_table: StoredTable,
) -> None:
    instant = stored_table.begun(lease_seconds=1)
    published, lost = stored_table.wrote(instant, files=2)
    succeeded(stored_table.report(instant, published, lost))
    stored_table.marked(instant, published)
    stat = rest.write_stat(instant, 0, published["partition_path"])
    succeeded(stored_table.complete(instant, stat))

    stored_table.storage.create_empty(path_of(lost))

    wait_until(lambda: stored_table.paths() == sorted([OTHERS, path_of(published)]))
    wait_until(lambda: stored_table.unswept(grace_seconds=0) == [])
    assert path_of(published) in stored_table.paths()


def test_a_pending_instant_is_not_swept(stored_table: StoredTable) -> None:
    """It may write a file again that was deleted: the second execution of a plan does."""
    instant = stored_table.begun(lease_seconds=60)
    markers = stored_table.wrote(instant, files=1)
    succeeded(stored_table.report(instant, *markers))
    ours, _ = stored_table.given_up()

    completes(stored_table, ours)
    wait_until(lambda: stored_table.unswept(grace_seconds=0) == [])

    assert path_of(markers[0]) in stored_table.paths()


def test_while_a_store_refuses_an_instant_stays_due(
    s3_table: StoredTable, s3: S3, deleting_server: ServerProcess
) -> None:
    rollback, _ = s3_table.given_up()
    completes(s3_table, rollback)
    s3.faults.append(Fault("HEAD", ".parquet", 403, "AccessDenied"))
    s3_table.storage.create_empty("day=9/kept")

    wait_until(lambda: "table cannot be reached" in deleting_server.log())

    assert s3_table.unswept(grace_seconds=0) == [rollback]
    s3.faults.clear()
    wait_until(lambda: s3_table.unswept(grace_seconds=0) == [])


def test_of_two_servers_that_sweep_each_file_is_deleted_and_recorded_once(
    new_server: NewServer, dsn: str, local_store: Store
) -> None:
    servers = [new_server(dsn, *DELETES) for _ in range(2)]
    with stored.table_at(servers[0].url, local_store) as table:
        given_up = [table.given_up() for _ in range(4)]
        completes(table, *(rollback for rollback, _ in given_up))
        late = [path_of(markers[0]) for _, markers in given_up]
        table.storage.create_all_empty(late)

        wait_until(lambda: table.paths() == [OTHERS])
        wait_until(lambda: table.unswept(grace_seconds=0) == [])

    swept = database.query(
        dsn, "SELECT count(*) AS files FROM audit_deletions WHERE actor = 'chronolake-sweeper'"
    )
    assert swept[0]["files"] == len(late)
    assert [server.log().count("Traceback") for server in servers] == [0, 0]
