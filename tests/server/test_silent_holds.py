"""A silent stream that waits to be opened holds the files that it has reported, and nothing else."""

from __future__ import annotations

import httpx
import pytest

from tests.fix_server import ServerProcess
from tests.server import rest
from tests.server.checkpoints import StreamOfTable
from tests.server.database import pass_time
from tests.server.rest import Json, Table, log_stat, refused, succeeded, write_stat

LEASE_SECONDS = 60
EARLY = {"markers.early-conflict-detection": "true"}


def pass_lease(server: ServerProcess) -> None:
    """Set the clock to a time after the end of the leases."""
    pass_time(server.dsn, LEASE_SECONDS + 1)


def opened(table: Table, name: str = "job") -> StreamOfTable:
    stream = StreamOfTable(table, name)
    stream.open(lease_seconds=LEASE_SECONDS)
    return stream


def base(instant: str, bucket: int = 1) -> Json:
    return {"partition_path": "", "file_name": write_stat(instant, bucket)["file_name"], "kind": "MERGE"}


def new_group(instant: str) -> Json:
    return write_stat(instant) | {"file_id": "a-0", "file_name": f"a-0_0-0-0_{instant}.parquet"}


def marker_of(stat: Json, kind: str) -> Json:
    return {"partition_path": "", "file_name": stat["file_name"], "kind": kind}


def superseded(table: Table) -> None:
    """Write one file group twice, so that a clean has something to delete."""
    for _ in range(2):
        begun = table.begun(action="deltacommit")
        succeeded(table.complete(begun, write_stat(begun)))


def files_to_clean(table: Table) -> int:
    plan: Json = succeeded(table.http.post(f"/v1/tables/{table.name}/clean-plans", json={"retain_commits": 1}))
    return len(plan["files_to_delete"])


@pytest.mark.parametrize("blocking", [False, True])
def test_a_clean_waits_for_a_live_stream_and_not_for_a_silent_one(
    server: ServerProcess, http: httpx.Client, *, blocking: bool
) -> None:
    stream = opened(rest.make_table(http, type="merge_on_read"))
    instant = stream.instant(-1, blocking=blocking)
    stream.reported(-1, log_stat(instant, 1))
    superseded(stream.table)
    assert files_to_clean(stream.table) == 0

    pass_lease(server)

    assert files_to_clean(stream.table) == 1
    stream.open(restored_checkpoint=1, lease_seconds=10 * LEASE_SECONDS)
    assert files_to_clean(stream.table) == 0
    assert stream.completed(1) == [instant]


def test_early_detection_refuses_log_files_beside_a_live_stream_and_not_beside_a_silent_one(
    server: ServerProcess, http: httpx.Client
) -> None:
    table = rest.make_table(http, type="merge_on_read", properties=EARLY)
    stream = opened(table)
    blocking = stream.instant(-1, blocking=True)
    table.marked(blocking, base(blocking))
    stream.reported(-1, write_stat(blocking, 1))
    other = table.begun(action="deltacommit", lease_seconds=10 * LEASE_SECONDS)
    mark = marker_of(log_stat(other, 1), "APPEND")
    refused(table.mark(other, mark), 409, "write-conflict")

    pass_lease(server)

    assert table.marked(other, mark) == ["created"]


def test_early_detection_protects_promised_files_of_a_silent_stream(
    server: ServerProcess, http: httpx.Client
) -> None:
    table = rest.make_table(http, index={"type": "simple"}, properties=EARLY)
    stream = opened(table)
    promised = stream.instant(-1)
    table.marked(promised, marker_of(new_group(promised), "CREATE"))
    other = table.begun(lease_seconds=10 * LEASE_SECONDS)
    mark = marker_of(new_group(other), "CREATE")
    stream.reported(-1, new_group(promised))

    pass_lease(server)

    assert refused(table.mark(other, mark), 409, "write-conflict")["context"]["winner"] == promised
    stream.open(lease_seconds=10 * LEASE_SECONDS)
    assert table.marked(other, mark) == ["created"]


def test_what_a_silent_stream_has_only_marked_holds_no_group(server: ServerProcess, http: httpx.Client) -> None:
    table = rest.make_table(http, index={"type": "simple"}, properties=EARLY)
    stream = opened(table)
    unreported = stream.instant(-1)
    table.marked(unreported, marker_of(new_group(unreported), "CREATE"))
    other = table.begun(lease_seconds=10 * LEASE_SECONDS)
    mark = marker_of(new_group(other), "CREATE")
    refused(table.mark(other, mark), 409, "write-conflict")

    pass_lease(server)

    assert table.marked(other, mark) == ["created"]
