"""Promise 5: a server that has credentials deletes the files of pending cleans."""

from __future__ import annotations

import pytest

import chronolake
from tests.fix_s3 import S3, Fault
from tests.fix_server import ServerProcess
from tests.fix_stores import Store
from tests.processes import wait_until
from tests.server import database, stored
from tests.server.deleting import (
    DELETES,
    OTHERS,
    NewServer,
    completes,
    kill_in_the_middle,
    plan_of,
    planned_clean,
    wrote_over,
)
from tests.server.rest import succeeded
from tests.server.stored import StoredTable


def test_a_clean_that_waits_is_executed_and_each_deletion_is_on_record(
    stored_table: StoredTable, shared_deleting_server: ServerProcess
) -> None:
    superseded, live = wrote_over(stored_table, files=12)

    clean = planned_clean(stored_table)
    completes(stored_table, clean)

    assert stored_table.paths() == sorted([OTHERS, *live])
    assert plan_of(stored_table, clean)["writer"].startswith("chronolake-deleter@")
    recorded = database.query(
        shared_deleting_server.dsn,
        "SELECT partition_path || '/' || file_name AS path FROM audit_deletions "
        "WHERE table_name = %s AND actor LIKE 'chronolake-deleter@%%' ORDER BY path",
        stored_table.name,
    )
    assert [row["path"] for row in recorded] == superseded
    assert [orphan.reason for orphan in stored_table.orphans()] == ["not-a-data-file"]
    assert "clean executed" in shared_deleting_server.log()


def test_the_files_of_a_clean_are_not_swept(stored_table: StoredTable) -> None:
    """The file was published, and no writer writes it again."""
    wrote_over(stored_table, files=2)

    completes(stored_table, planned_clean(stored_table))

    assert stored_table.unswept(grace_seconds=0) == []


def test_a_partially_reported_clean_is_resumed(stored_table: StoredTable) -> None:
    superseded, live = wrote_over(stored_table, files=3)
    clean = planned_clean(stored_table, execute=True, lease_seconds=1)
    folder, _, name = superseded[0].rpartition("/")
    # The file is not deleted in truth: a reported file is not examined again.
    succeeded(stored_table.report(clean, {"partition_path": folder, "file_name": name}))

    completes(stored_table, clean)

    assert stored_table.paths() == sorted([OTHERS, superseded[0], *live])
    assert len(stored_table.deletions(clean)) == 3


def test_a_clean_without_a_plan_of_the_server_is_left_to_its_writer(stored_table: StoredTable) -> None:
    superseded, live = wrote_over(stored_table, files=2)
    theirs = stored_table.begun(action="clean")
    instant = f"/v1/tables/{stored_table.name}/instants/{theirs}"
    rollback, _ = stored_table.given_up()

    completes(stored_table, rollback)

    assert succeeded(stored_table.http.get(instant))["lease_expires_at"] is not None
    assert stored_table.paths() == sorted([OTHERS, *superseded, *live])


def test_a_clean_whose_files_cannot_be_deleted_waits_and_reports_the_reason(
    s3_table: StoredTable, s3: S3, deleting_server: ServerProcess
) -> None:
    s3.faults.append(Fault("POST", s3.bucket, 403, "AccessDenied"))
    superseded, live = wrote_over(s3_table, files=2)
    clean = planned_clean(s3_table)

    wait_until(lambda: "clean given back" in deleting_server.log())

    assert s3_table.paths() == sorted([OTHERS, *superseded, *live])
    assert s3_table.deletions(clean) == []
    given_back = database.query(
        deleting_server.dsn,
        "SELECT payload FROM event WHERE type = 'InstantReturnedToRequested' ORDER BY version",
    )
    assert given_back[0]["payload"]["reason"].startswith(f"2 files could not be deleted: {superseded[0]}: ")
    s3.faults.clear()
    completes(s3_table, clean)
    assert s3_table.paths() == sorted([OTHERS, *live])


@pytest.mark.parametrize("reported", [0, 1_000])
def test_a_server_killed_in_the_middle_of_a_clean_leaves_the_rest_to_the_next(
    new_server: NewServer, dsn: str, local_store: Store, reported: int
) -> None:
    quiet = new_server(dsn)
    with stored.table_at(quiet.url, local_store) as table:
        superseded, live = wrote_over(table, files=2_500)
        clean = planned_clean(table)
        kill_in_the_middle(new_server(dsn, *DELETES), dsn, reported)
        new_server(dsn, *DELETES)

        completes(table, clean)

        assert table.paths() == sorted([OTHERS, *live])
        rows = database.query(
            dsn,
            "SELECT count(*) AS rows, count(DISTINCT (partition_path, file_name)) AS files FROM deleted_file",
        )
        assert rows == [{"rows": len(superseded), "files": len(superseded)}]
        assert [orphan.reason for orphan in table.orphans()] == ["not-a-data-file"]


def test_the_cleans_and_rollbacks_of_a_client_are_executed_by_the_server(
    shared_deleting_server: ServerProcess, store: Store
) -> None:
    properties = {"deletions.executor": "server"}
    with (
        stored.table_at(shared_deleting_server.url, store, **properties) as stored_table,
        chronolake.connect(shared_deleting_server.url, storage_options=store.options) as client,
    ):
        _, live = wrote_over(stored_table, files=3)
        table = client.table(stored_table.name)

        [waiting] = table.clean(retain_commits=1)
        completes(stored_table, waiting.requested_time)

        assert table.instant(waiting.requested_time).writer.startswith("chronolake-deleter@")
        slices = table.snapshot().slices
        assert (
            sorted(file_slice.base_file.path for file_slice in slices if file_slice.base_file is not None)
            == live
        )
        assert stored_table.paths() == sorted([OTHERS, *live])
        assert [orphan.reason for orphan in stored_table.orphans()] == ["not-a-data-file"]
        assert table.clean(retain_commits=1) == []
