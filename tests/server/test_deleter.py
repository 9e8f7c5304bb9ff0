"""Promise 5: a server that has credentials deletes the files of pending rollbacks and cleans."""

from __future__ import annotations

import socket
from collections.abc import Callable

import pytest

from tests.fix_server import ServerProcess
from tests.fix_stores import Store
from tests.processes import wait_until
from tests.server import database, rest, stored
from tests.server.deleting import (
    DELETES,
    OTHERS,
    NewServer,
    completes,
    files_deleted,
    given_back,
    marked_directly,
    name_in_plan,
    plan_of,
)
from tests.server.rest import succeeded
from tests.server.stored import StoredTable, path_of


def test_a_rollback_that_waits_is_executed_and_each_deletion_is_on_record(
    stored_table: StoredTable, shared_deleting_server: ServerProcess
) -> None:
    before = files_deleted(shared_deleting_server)
    rollback, markers = stored_table.given_up(files=12)

    completes(stored_table, rollback)

    assert stored_table.paths() == [OTHERS]
    assert stored_table.deletions(rollback) == [marker["file_name"] for marker in markers]
    audited = database.query(
        shared_deleting_server.dsn,
        "SELECT DISTINCT actor, rollback_digits FROM audit_deletions WHERE table_name = %s",
        stored_table.name,
    )
    assert [row["rollback_digits"] for row in audited] == [rollback]
    assert audited[0]["actor"].startswith("chronolake-deleter@")
    assert files_deleted(shared_deleting_server) - before >= 12
    assert [orphan.reason for orphan in stored_table.orphans()] == ["not-a-data-file"]


def test_a_file_that_was_marked_and_never_written_counts_as_deleted(stored_table: StoredTable) -> None:
    instant = stored_table.begun()
    never_written = stored.marker_of(instant, 77)
    stored_table.marked(instant, never_written)
    rollback, markers = stored_table.given_up(first=instant)

    completes(stored_table, rollback)

    assert sorted(stored_table.deletions(rollback)) == sorted(
        marker["file_name"] for marker in [*markers, never_written]
    )


def test_the_rollback_of_a_writer_that_went_silent_is_executed(stored_table: StoredTable) -> None:
    instant = stored_table.begun(lease_seconds=1)
    stored_table.wrote(instant)

    wait_until(lambda: stored_table.state(instant) == "rolled_back")
    completes(stored_table, plan_of(stored_table, instant)["rolled_back_by"])

    assert stored_table.paths() == [OTHERS]


def test_a_rollback_that_a_client_executes_is_left_to_it(stored_table: StoredTable) -> None:
    instant = stored_table.begun()
    markers = stored_table.wrote(instant)
    theirs = succeeded(stored_table.roll_back(instant))["rolled_back_by"]
    ours, _ = stored_table.given_up()

    completes(stored_table, ours)

    assert stored_table.state(theirs) == "inflight"
    assert stored_table.paths() == sorted([OTHERS, *map(path_of, markers)])


@pytest.mark.parametrize("since", ["created", "altered"])
def test_credentials_are_not_sent_to_an_endpoint_that_only_a_table_names(
    storage_credentials: None,
    since: str,
    new_server: Callable[..., ServerProcess],
    dsn: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CHRONOLAKE_STORAGE_ENDPOINTS", "http://127.0.0.1:1")
    server = new_server(dsn, *DELETES)
    with socket.create_server(("127.0.0.1", 0)) as stranger, rest.connect(server.url) as http:
        endpoint = f"http://127.0.0.1:{stranger.getsockname()[1]}"
        properties = {"storage.endpoint_override": endpoint}
        at_first = properties if since == "created" else {}
        table = rest.make_table(http, base_path="s3://lake/strange", properties=at_first)
        succeeded(http.patch(f"/v1/tables/{table.name}", json={"set": properties}))
        instant = table.begun()
        table.marked(instant, rest.marker(instant))
        succeeded(table.roll_back(instant, execute=False))
        wait_until(lambda: "--storage-endpoint" in server.log())
        stranger.setblocking(False)

        with pytest.raises(BlockingIOError):
            stranger.accept()


def test_a_planned_file_of_the_target_is_deleted(stored_table: StoredTable) -> None:
    instant = stored_table.begun()
    own = [stored.marker_of(instant, number) for number in range(3)]
    stored_table.storage.create_all_empty(map(path_of, own))

    rolled_back = stored_table.roll_back(
        instant, execute=False, files_to_delete=[path_of(marker) for marker in own]
    )
    rollback = succeeded(rolled_back)["rolled_back_by"]
    completes(stored_table, rollback)

    assert stored_table.paths() == [OTHERS]
    assert stored_table.deletions(rollback) == [marker["file_name"] for marker in own]


def test_a_file_of_another_instant_in_an_old_plan_is_not_deleted(
    new_server: NewServer, dsn: str, local_store: Store
) -> None:
    quiet = new_server(dsn)
    with stored.table_at(quiet.url, local_store) as table:
        other = path_of(table.wrote(table.begun(), 1)[0])
        rollbacks = []
        for name in (OTHERS, f"../{other}", f"day=1/../{other}", other):
            instant = table.begun()
            named = [path_of(stored.marker_of(instant, 0))]
            rollback = succeeded(table.roll_back(instant, execute=False, files_to_delete=named))
            name_in_plan(dsn, rollback["rolled_back_by"], name)
            rollbacks.append(rollback["rolled_back_by"])
        deleting_server = new_server(dsn, *DELETES)

        wait_until(
            lambda: all(any(rollback in line for line in given_back(deleting_server)) for rollback in rollbacks)
        )

        assert {table.state(rollback) for rollback in rollbacks} == {"requested"}
        assert table.paths() == sorted([OTHERS, other])


def test_files_marked_in_storage_are_listed_and_deleted(stored_table: StoredTable) -> None:
    instant, markers = marked_directly(stored_table, files=12)
    # Neither a marker of it, nor one at all.
    strange = [
        f"{path_of(stored.marker_of('20260101000000000', 1))}.marker.CREATE",
        "day=1/x.marker.CREATE",
        "x",
    ]
    stored_table.storage.create_all_empty(f".hoodie/.temp/{instant}/{name}" for name in strange)

    rollback = succeeded(stored_table.roll_back(instant, execute=False))["rolled_back_by"]
    completes(stored_table, rollback)

    assert stored_table.deletions(rollback) == [marker["file_name"] for marker in markers]
    assert stored_table.paths() == [OTHERS]
    # Only the markers of the instant are deleted, and no other file of their folder.
    left = sorted(f".hoodie/.temp/{instant}/{name}" for name in strange)
    wait_until(lambda: sorted(file.path for file in stored_table.storage.listing(".hoodie/.temp")) == left)


def test_files_marked_in_both_ways_are_deleted(stored_table: StoredTable) -> None:
    """Handed over to the server in part, when its writer died."""
    instant, markers = marked_directly(stored_table)
    stored_table.marked(instant, *markers[:2])

    completes(stored_table, succeeded(stored_table.roll_back(instant, execute=False))["rolled_back_by"])

    assert stored_table.paths() == [OTHERS]
