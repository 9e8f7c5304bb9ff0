"""Promise 5: a server that has credentials deletes what rollbacks and cleans that wait have to delete."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

import chronolake
from chronolake_metastore.workers.deleter import AT_ONCE
from chronolake_model.times import parse_time
from tests.fix_s3 import S3, Fault
from tests.fix_server import ServerProcess
from tests.fix_stores import Store
from tests.server import database, rest, stored
from tests.server.rest import succeeded
from tests.server.stored import StoredTable, path_of
from tests.store import tampering

PATIENCE_SECONDS = 30.0
DELETES = ("--deleter-seconds", "0.1", "--deleter-lease-seconds", "2", "--reaper-seconds", "0.1")
OTHERS = "day=0/not-a-data-file"
"""A file that is none of the instants'."""

NewServer = Callable[..., ServerProcess]


@pytest.fixture(scope="module", autouse=True)
def credentials() -> Iterator[None]:
    """What servers find in their environment."""
    with pytest.MonkeyPatch.context() as environment:
        for name, said in stored.CREDENTIALS.items():
            environment.setenv(name, said)
        yield


@pytest.fixture(scope="module")
def shared_deleting(
    credentials: None,
    shared_dsn: str,
    tmp_path_factory: pytest.TempPathFactory,
    s3_gateway: object,
) -> Iterator[ServerProcess]:
    """A server that deletes, for tests that keep to tables of their own."""
    server = ServerProcess(shared_dsn, tmp_path_factory.mktemp("server") / "server.log", *DELETES)
    try:
        yield server.start()
    finally:
        server.stop()


@pytest.fixture
def deleting(new_server: NewServer, dsn: str, s3_gateway: object) -> ServerProcess:
    """A server that deletes, in the S3 API too."""
    return new_server(dsn, *DELETES)


@pytest.fixture
def lake(shared_deleting: ServerProcess, store: Store) -> Iterator[StoredTable]:
    """A table in each store, at a server that deletes."""
    with stored.table_at(shared_deleting.url, store) as table:
        yield table


@pytest.fixture
def local(tmp_path: Path) -> Store:
    return Store(f"{tmp_path.as_uri()}/a%20lake/orders", None)


@pytest.fixture
def in_s3(deleting: ServerProcess, s3: S3) -> Iterator[StoredTable]:
    with stored.table_at(deleting.url, Store(s3.base_path, s3.options)) as table:
        yield table


def becomes(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.05)


def completes(table: StoredTable, *rollbacks: str) -> None:
    becomes(lambda: all(map(table.is_completed, rollbacks)))


def files_deleted(server: ServerProcess) -> float:
    """What the server's own figure says."""
    metrics = httpx.get(f"{server.url}/metrics").text
    [figure] = re.findall(r"^chronolake_files_deleted_total (\S+)$", metrics, re.MULTILINE)
    return float(figure)


def plan_of(table: rest.Table, instant: str) -> rest.Json:
    return succeeded(table.http.get(f"/v1/tables/{table.name}/instants/{instant}"))


def test_a_rollback_that_waits_is_executed_and_each_deletion_is_on_record(
    lake: StoredTable, shared_deleting: ServerProcess
) -> None:
    before = files_deleted(shared_deleting)
    rollback, markers = lake.given_up(files=12)

    completes(lake, rollback)

    assert lake.paths() == [OTHERS]
    assert lake.deletions(rollback) == [one["file_name"] for one in markers]
    audited = database.query(
        shared_deleting.dsn,
        "SELECT DISTINCT actor, rollback_digits FROM audit_deletions WHERE table_name = %s",
        lake.name,
    )
    assert [one["rollback_digits"] for one in audited] == [rollback]
    assert audited[0]["actor"].startswith("chronolake-deleter@")
    assert files_deleted(shared_deleting) - before >= 12
    assert [one.reason for one in lake.orphans()] == ["not-a-data-file"]


def test_a_file_that_was_marked_and_never_written_counts_as_deleted(lake: StoredTable) -> None:
    instant = lake.begun()
    never_written = stored.marker_of(instant, 77)
    lake.marked(instant, never_written)
    rollback, markers = lake.given_up(first=instant)

    completes(lake, rollback)

    assert sorted(lake.deletions(rollback)) == sorted(one["file_name"] for one in [*markers, never_written])


def test_the_rollback_of_a_writer_that_went_silent_is_executed(lake: StoredTable) -> None:
    instant = lake.begun(lease_seconds=1)
    lake.wrote(instant)

    becomes(lambda: lake.state(instant) == "rolled_back")
    completes(lake, plan_of(lake, instant)["rolled_back_by"])

    assert lake.paths() == [OTHERS]


def test_a_rollback_that_a_client_executes_is_left_to_it(lake: StoredTable) -> None:
    instant = lake.begun()
    markers = lake.wrote(instant)
    theirs = succeeded(lake.roll_back(instant))["rolled_back_by"]
    ours, _ = lake.given_up()

    completes(lake, ours)

    assert lake.state(theirs) == "inflight"
    assert lake.paths() == sorted([OTHERS, *map(path_of, markers)])


def test_a_file_that_cannot_be_deleted_keeps_its_marker_and_its_rollback_waiting(
    deleting: ServerProcess, local: Store
) -> None:
    with stored.table_at(deleting.url, local) as table:
        instant = table.begun()
        stuck = stored.marker_of(instant, 50)
        table.marked(instant, stuck)
        # A folder where a file should be: nobody deletes it as a file.
        table.storage.create_empty(f"{path_of(stuck)}/within")
        rollback, markers = table.given_up(first=instant)

        becomes(lambda: "rollback given back" in deleting.log())

        assert table.markers(instant) == [stuck]
        assert table.deletions(rollback) == [one["file_name"] for one in markers]
        given_back = database.query(
            deleting.dsn, "SELECT payload FROM event WHERE type = 'InstantReturnedToRequested' ORDER BY version"
        )
        assert given_back[0]["payload"]["reason"].startswith(f"1 file could not be deleted: {path_of(stuck)}: ")
        table.store.delete(f"{path_of(stuck)}/within")
        table.store.files().remove_empty_folders_unguarded(path_of(stuck))
        completes(table, rollback)


def test_plans_that_cannot_be_executed_hold_up_no_other_of_their_table(
    new_server: NewServer, dsn: str, local: Store
) -> None:
    with stored.table_at(new_server(dsn).url, local) as table:
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
def test_a_store_that_throttles_is_asked_again(in_s3: StoredTable, s3: S3, times: int) -> None:
    """A few times within a request, many times in the turns to come."""
    s3.faults.append(Fault("POST", s3.bucket, 503, "SlowDown", times))
    rollback, _ = in_s3.given_up()

    completes(in_s3, rollback)

    assert in_s3.paths() == [OTHERS]


def test_while_a_store_refuses_nothing_is_reported(in_s3: StoredTable, s3: S3, deleting: ServerProcess) -> None:
    s3.faults.append(Fault("POST", s3.bucket, 403, "AccessDenied"))
    rollback, markers = in_s3.given_up()

    becomes(lambda: deleting.log().count("rollback given back") >= 2)

    assert in_s3.deletions(rollback) == []
    assert len(in_s3.paths()) == 1 + len(markers)
    s3.faults.clear()
    completes(in_s3, rollback)


def test_a_table_that_cannot_be_reached_is_left_alone_and_holds_up_nobody(
    deleting: ServerProcess, local: Store, tmp_path: Path
) -> None:
    """Where a folder is not to be seen, all of its files would look as if they were deleted."""
    elsewhere = tmp_path / "elsewhere"
    with rest.connect(deleting.url) as http, stored.table_at(deleting.url, local) as near:
        far = rest.make_table(http, base_path=str(elsewhere))
        instants = [far.begun() for _ in range(8)]
        for instant in instants:
            far.marked(instant, rest.marker(instant))
        rolled_back = [succeeded(far.roll_back(one, execute=False))["rolled_back_by"] for one in instants]
        rollback, _ = near.given_up()

        completes(near, rollback)

        assert {far.state(one) for one in rolled_back} == {"requested"}
        assert far.markers(instants[0]) == [rest.marker(instants[0])]
        assert "elsewhere is not there" in deleting.log()
        elsewhere.mkdir()
        becomes(lambda: {far.state(one) for one in rolled_back} == {"completed"})


def test_a_bucket_that_is_not_there_is_no_place_where_all_is_deleted(
    deleting: ServerProcess, s3: S3, in_s3: StoredTable
) -> None:
    nowhere = rest.make_table(
        in_s3.http,
        base_path="s3://there-is-no-such-bucket/orders",
        properties={f"storage.{name}": s3.options[name] for name in ("endpoint_override", "region")},
    )
    instant = nowhere.begun()
    nowhere.marked(instant, rest.marker(instant))
    rollback = succeeded(nowhere.roll_back(instant, execute=False))["rolled_back_by"]

    becomes(lambda: "table cannot be reached" in deleting.log())

    assert (nowhere.state(rollback), nowhere.deletions(rollback)) == ("requested", [])


def test_credentials_are_not_sent_to_an_endpoint_that_only_a_table_names(
    new_server: Callable[..., ServerProcess], dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHRONOLAKE_STORAGE_ENDPOINTS", "http://127.0.0.1:1")
    server = new_server(dsn, *DELETES)
    with socket.create_server(("127.0.0.1", 0)) as stranger, rest.connect(server.url) as http:
        endpoint = f"http://127.0.0.1:{stranger.getsockname()[1]}"
        properties = {"storage.endpoint_override": endpoint}
        table = rest.make_table(http, base_path="s3://lake/strange", properties=properties)
        instant = table.begun()
        table.marked(instant, rest.marker(instant))
        succeeded(table.roll_back(instant, execute=False))
        becomes(lambda: "--storage-endpoint" in server.log())
        stranger.setblocking(False)

        with pytest.raises(BlockingIOError):
            stranger.accept()


def test_what_a_plan_names_is_deleted_if_it_is_of_the_target(lake: StoredTable) -> None:
    instant = lake.begun()
    own = [stored.marker_of(instant, number) for number in range(3)]
    lake.storage.create_all_empty(map(path_of, own))

    asked = lake.roll_back(instant, execute=False, files_to_delete=[path_of(one) for one in own])
    rollback = succeeded(asked)["rolled_back_by"]
    completes(lake, rollback)

    assert lake.paths() == [OTHERS]
    assert lake.deletions(rollback) == [one["file_name"] for one in own]


def test_what_a_plan_named_and_comes_late_is_swept(lake: StoredTable) -> None:
    instant = lake.begun()
    named = path_of(stored.marker_of(instant, 0))
    asked = lake.roll_back(instant, execute=False, files_to_delete=[named])
    rollback = succeeded(asked)["rolled_back_by"]
    completes(lake, rollback)

    lake.storage.create_empty(named)

    becomes(lambda: lake.paths() == [OTHERS])
    becomes(lambda: lake.unswept(grace_seconds=0) == [])


def test_what_an_earlier_release_let_a_plan_name_is_deleted_by_no_server_if_it_is_not_of_the_target(
    new_server: NewServer, dsn: str, local: Store
) -> None:
    quiet = new_server(dsn)
    with stored.table_at(quiet.url, local) as table:
        other = path_of(table.wrote(table.begun(), 1)[0])
        rollbacks = []
        for name in (OTHERS, f"../{other}", f"day=1/../{other}", other):
            instant = table.begun()
            named = [path_of(stored.marker_of(instant, 0))]
            rollback = succeeded(table.roll_back(instant, execute=False, files_to_delete=named))
            name_in_plan(dsn, rollback["rolled_back_by"], name)
            rollbacks.append(rollback["rolled_back_by"])
        deleting = new_server(dsn, *DELETES)

        becomes(lambda: all(any(one in line for line in given_back(deleting)) for one in rollbacks))

        assert {table.state(one) for one in rollbacks} == {"requested"}
        assert table.paths() == sorted([OTHERS, other])


def name_in_plan(dsn: str, rollback: str, name: str) -> None:
    """Have the plan of a rollback name another file, which no request may."""
    time = f"chronolake.moment({parse_time(rollback)})"
    tampering.tamper(dsn, f"UPDATE event_entry SET name = '{name}' WHERE instant = {time}")


def given_back(server: ServerProcess) -> list[str]:
    """What a server has logged of rollbacks that it could not execute."""
    return [line for line in server.log().splitlines() if "rollback given back" in line]


def kill_in_the_middle(server: ServerProcess, dsn: str, reported: int) -> None:
    """Kill a server that deletes when it has reported so many files."""
    with database.connected(dsn) as other, other.transaction():
        database.wait_until(dsn, f"(SELECT count(*) FROM deleted_file) >= {reported}")
        # What is deleted from storage by now cannot be reported any more.
        other.execute("LOCK TABLE deleted_file IN SHARE MODE")
        server.kill()


@pytest.mark.parametrize("reported", [0, 1_000, 2_000])
def test_a_server_killed_in_the_middle_leaves_the_rest_to_the_next(
    new_server: NewServer, dsn: str, local: Store, reported: int
) -> None:
    quiet = new_server(dsn)
    with stored.table_at(quiet.url, local) as table:
        rollback, markers = table.given_up(files=4_500)
        kill_in_the_middle(new_server(dsn, *DELETES), dsn, reported)
        new_server(dsn, *DELETES)

        completes(table, rollback)

        assert table.paths() == [OTHERS]
        rows = database.query(dsn, "SELECT count(DISTINCT file_name) AS files FROM deleted_file")
        assert (rows[0]["files"], table.markers(rollback)) == (len(markers), [])
        assert [one.reason for one in table.orphans()] == ["not-a-data-file"]


def test_of_two_servers_that_delete_one_executes_each_rollback(
    new_server: NewServer, dsn: str, store: Store
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
    assert [one["times"] for one in executed] == [1] * len(given_up)
    assert table.paths() == [OTHERS]


def test_a_database_that_goes_away_meanwhile_costs_time_only(
    new_server: NewServer, dsn: str, local: Store
) -> None:
    quiet = new_server(dsn)
    with stored.table_at(quiet.url, local) as table:
        rollback, markers = table.given_up(files=3_000)
        server = new_server(dsn, *DELETES)
        database.wait_until(dsn, "(SELECT count(*) FROM deleted_file) >= 1000")
        database.sever(dsn)

        completes(table, rollback)

    assert "Traceback" not in server.log()
    assert len(set(table_files(dsn))) == len(markers)


def table_files(dsn: str) -> list[str]:
    return [one["file_name"] for one in database.query(dsn, "SELECT file_name FROM deleted_file")]


def test_a_server_that_is_told_to_stop_stops_in_the_middle_of_a_rollback(
    new_server: NewServer, dsn: str, local: Store
) -> None:
    server = new_server(dsn, *DELETES)
    with stored.table_at(server.url, local) as table, database.connected(dsn) as other, other.transaction():
        other.execute("LOCK TABLE deleted_file IN SHARE MODE")
        table.given_up()
        database.wait_for_waiting(dsn, 1)
        server.stop()
    assert "stopped" in server.log()


# ---------------------------------------------------------------------------------- direct markers


def marked_directly(table: StoredTable, files: int = 3) -> tuple[str, list[rest.Json]]:
    """An instant that has marked files in storage, and written them."""
    instant = table.begun(markers="direct")
    markers = [stored.marker_of(instant, number) for number in range(files)]
    names = [f".hoodie/.temp/{instant}/{path_of(one)}.marker.CREATE" for one in markers]
    table.storage.create_all_empty([*names, *map(path_of, markers)])
    return instant, markers


def test_what_was_marked_in_storage_is_found_there_and_deleted(lake: StoredTable) -> None:
    instant, markers = marked_directly(lake, files=12)
    # Neither a marker of it, nor one at all.
    strange = [
        f"{path_of(stored.marker_of('20260101000000000', 1))}.marker.CREATE",
        "day=1/x.marker.CREATE",
        "x",
    ]
    lake.storage.create_all_empty(f".hoodie/.temp/{instant}/{name}" for name in strange)

    rollback = succeeded(lake.roll_back(instant, execute=False))["rolled_back_by"]
    completes(lake, rollback)

    assert lake.deletions(rollback) == [one["file_name"] for one in markers]
    assert lake.paths() == [OTHERS]
    # Only the markers of the instant are deleted, whatever else is in their folder.
    left = sorted(f".hoodie/.temp/{instant}/{name}" for name in strange)
    becomes(lambda: sorted(one.path for one in lake.storage.listing(".hoodie/.temp")) == left)


def test_what_was_marked_in_both_ways_is_deleted(lake: StoredTable) -> None:
    """Handed over to the server in part, when its writer died."""
    instant, markers = marked_directly(lake)
    lake.marked(instant, *markers[:2])

    completes(lake, succeeded(lake.roll_back(instant, execute=False))["rolled_back_by"])

    assert lake.paths() == [OTHERS]


def test_what_is_marked_in_storage_after_the_rollback_is_swept(lake: StoredTable) -> None:
    """Nobody refuses such a marker, and nobody hears of it."""
    instant = lake.begun(markers="direct")
    rollback = succeeded(lake.roll_back(instant, execute=False))["rolled_back_by"]
    completes(lake, rollback)
    marked, written = stored.marker_of(instant, 0), stored.marker_of(instant, 1)

    lake.storage.create_all_empty(
        f".hoodie/.temp/{instant}/{path_of(one)}.marker.CREATE" for one in (marked, written)
    )
    lake.storage.create_empty(path_of(written))
    becomes(lambda: lake.paths() == [OTHERS])
    becomes(lambda: list(lake.storage.listing(".hoodie/.temp")) == [])
    lake.storage.create_empty(path_of(marked))

    becomes(lambda: lake.paths() == [OTHERS])
    becomes(lambda: lake.unswept(grace_seconds=0) == [])
    assert len(lake.deletions(rollback)) == 2


# ---------------------------------------------------------------------------------- cleans


def wrote_over(table: StoredTable, files: int) -> tuple[list[str], list[str]]:
    """The paths of files that a commit wrote and the next one superseded, and of those that did."""
    commits = []
    for _ in range(2):
        instant = table.begun()
        stats = [rest.write_stat(instant, number % 4, f"day={number // 4}") for number in range(files)]
        paths = sorted(map(path_of, stats))
        table.storage.create_all_empty(paths)
        succeeded(table.complete(instant, *stats))
        commits.append(paths)
    superseded, live = commits
    return superseded, live


def planned_clean(table: StoredTable, **asked: object) -> str:
    """A clean whose plan waits."""
    body = {"writer": "w", "retain_commits": 1, "execute": False} | asked
    clean = succeeded(table.http.post(f"/v1/tables/{table.name}/cleans", json=body))["clean"]
    requested_time: str = clean["requested_time"]
    return requested_time


def test_a_clean_that_waits_is_executed_and_each_deletion_is_on_record(
    lake: StoredTable, shared_deleting: ServerProcess
) -> None:
    superseded, live = wrote_over(lake, files=12)

    clean = planned_clean(lake)
    completes(lake, clean)

    assert lake.paths() == sorted([OTHERS, *live])
    assert plan_of(lake, clean)["writer"].startswith("chronolake-deleter@")
    recorded = database.query(
        shared_deleting.dsn,
        "SELECT partition_path || '/' || file_name AS path FROM audit_deletions "
        "WHERE table_name = %s AND actor LIKE 'chronolake-deleter@%%' ORDER BY path",
        lake.name,
    )
    assert [one["path"] for one in recorded] == superseded
    assert [one.reason for one in lake.orphans()] == ["not-a-data-file"]
    assert "clean executed" in shared_deleting.log()


def test_nobody_sweeps_what_a_clean_has_deleted(lake: StoredTable) -> None:
    """It was published, and nobody writes it any more."""
    wrote_over(lake, files=2)

    completes(lake, planned_clean(lake))

    assert lake.unswept(grace_seconds=0) == []


def test_a_clean_that_was_reported_in_part_is_gone_on_with(lake: StoredTable) -> None:
    superseded, live = wrote_over(lake, files=3)
    clean = planned_clean(lake, execute=True, lease_seconds=1)
    folder, _, name = superseded[0].rpartition("/")
    # Not deleted in truth: what was reported is not looked at again.
    succeeded(lake.report(clean, {"partition_path": folder, "file_name": name}))

    completes(lake, clean)

    assert lake.paths() == sorted([OTHERS, superseded[0], *live])
    assert len(lake.deletions(clean)) == 3


def test_a_clean_without_a_plan_of_the_server_is_left_to_its_writer(lake: StoredTable) -> None:
    superseded, live = wrote_over(lake, files=2)
    theirs = lake.begun(action="clean")
    instant = f"/v1/tables/{lake.name}/instants/{theirs}"
    rollback, _ = lake.given_up()

    completes(lake, rollback)

    assert succeeded(lake.http.get(instant))["lease_expires_at"] is not None
    assert lake.paths() == sorted([OTHERS, *superseded, *live])


def test_a_clean_whose_files_cannot_be_deleted_waits_and_says_why(
    in_s3: StoredTable, s3: S3, deleting: ServerProcess
) -> None:
    s3.faults.append(Fault("POST", s3.bucket, 403, "AccessDenied"))
    superseded, live = wrote_over(in_s3, files=2)
    clean = planned_clean(in_s3)

    becomes(lambda: "clean given back" in deleting.log())

    assert in_s3.paths() == sorted([OTHERS, *superseded, *live])
    assert in_s3.deletions(clean) == []
    given_back = database.query(
        deleting.dsn, "SELECT payload FROM event WHERE type = 'InstantReturnedToRequested' ORDER BY version"
    )
    assert given_back[0]["payload"]["reason"].startswith(f"2 files could not be deleted: {superseded[0]}: ")
    s3.faults.clear()
    completes(in_s3, clean)
    assert in_s3.paths() == sorted([OTHERS, *live])


@pytest.mark.parametrize("reported", [0, 1_000])
def test_a_server_killed_in_the_middle_of_a_clean_leaves_the_rest_to_the_next(
    new_server: NewServer, dsn: str, local: Store, reported: int
) -> None:
    quiet = new_server(dsn)
    with stored.table_at(quiet.url, local) as table:
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
        assert [one.reason for one in table.orphans()] == ["not-a-data-file"]


def test_the_cleans_and_rollbacks_of_a_client_are_executed_by_the_server(
    shared_deleting: ServerProcess, store: Store
) -> None:
    properties = {"deletions.executor": "server"}
    with (
        stored.table_at(shared_deleting.url, store, **properties) as lake,
        chronolake.connect(shared_deleting.url, storage_options=store.options) as client,
    ):
        _, live = wrote_over(lake, files=3)
        table = client.table(lake.name)

        [waiting] = table.clean(retain_commits=1)
        completes(lake, waiting.requested_time)

        assert table.instant(waiting.requested_time).writer.startswith("chronolake-deleter@")
        slices = table.snapshot().slices
        assert sorted(one.base_file.path for one in slices if one.base_file is not None) == live
        assert lake.paths() == sorted([OTHERS, *live])
        assert [one.reason for one in lake.orphans()] == ["not-a-data-file"]
        assert table.clean(retain_commits=1) == []


# ---------------------------------------------------------------------------------- late files


def test_a_file_that_a_task_finishes_after_its_rollback_is_swept(
    lake: StoredTable, shared_deleting: ServerProcess
) -> None:
    rollback, markers = lake.given_up()
    completes(lake, rollback)
    late = path_of(markers[1])

    lake.storage.create_empty(late)
    becomes(lambda: lake.paths() == [OTHERS])
    becomes(lambda: lake.unswept(grace_seconds=0) == [])

    again = database.query(
        shared_deleting.dsn,
        "SELECT actor, partition_path || '/' || file_name AS path FROM audit_deletions "
        "WHERE table_name = %s ORDER BY version DESC",
        lake.name,
    )
    assert (again[0]["actor"], again[0]["path"]) == ("chronolake-sweeper", late)
    assert "late files deleted" in shared_deleting.log()
    assert [one.reason for one in lake.orphans()] == ["not-a-data-file"]


def test_the_file_of_an_attempt_that_lost_is_swept_and_what_was_published_stays(lake: StoredTable) -> None:
    instant = lake.begun(lease_seconds=1)
    published, lost = lake.wrote(instant, files=2)
    succeeded(lake.report(instant, published, lost))
    lake.marked(instant, published)
    stat = rest.write_stat(instant, 0, published["partition_path"])
    succeeded(lake.complete(instant, stat))

    lake.storage.create_empty(path_of(lost))

    becomes(lambda: lake.paths() == sorted([OTHERS, path_of(published)]))
    becomes(lambda: lake.unswept(grace_seconds=0) == [])
    assert path_of(published) in lake.paths()


def test_a_pending_instant_is_not_swept(lake: StoredTable) -> None:
    """It may write a file again that was deleted: the second execution of a plan does."""
    instant = lake.begun(lease_seconds=60)
    markers = lake.wrote(instant, files=1)
    succeeded(lake.report(instant, *markers))
    ours, _ = lake.given_up()

    completes(lake, ours)
    becomes(lambda: lake.unswept(grace_seconds=0) == [])

    assert path_of(markers[0]) in lake.paths()


def test_while_a_store_refuses_an_instant_stays_due(
    in_s3: StoredTable, s3: S3, deleting: ServerProcess
) -> None:
    rollback, _ = in_s3.given_up()
    completes(in_s3, rollback)
    s3.faults.append(Fault("HEAD", ".parquet", 403, "AccessDenied"))
    in_s3.storage.create_empty("day=9/kept")

    becomes(lambda: "table cannot be reached" in deleting.log())

    assert in_s3.unswept(grace_seconds=0) == [rollback]
    s3.faults.clear()
    becomes(lambda: in_s3.unswept(grace_seconds=0) == [])


def test_of_two_servers_that_sweep_each_file_is_deleted_and_recorded_once(
    new_server: NewServer, dsn: str, local: Store
) -> None:
    servers = [new_server(dsn, *DELETES) for _ in range(2)]
    with stored.table_at(servers[0].url, local) as table:
        given_up = [table.given_up() for _ in range(4)]
        completes(table, *(rollback for rollback, _ in given_up))
        late = [path_of(markers[0]) for _, markers in given_up]
        table.storage.create_all_empty(late)

        becomes(lambda: table.paths() == [OTHERS])
        becomes(lambda: table.unswept(grace_seconds=0) == [])

    swept = database.query(
        dsn, "SELECT count(*) AS files FROM audit_deletions WHERE actor = 'chronolake-sweeper'"
    )
    assert swept[0]["files"] == len(late)
    assert [server.log().count("Traceback") for server in servers] == [0, 0]
