"""Reasons why services of a table are held, over REST."""

from __future__ import annotations

import httpx

from tests.server.planned import merge_on_read, messages, planned as plan, reasons, simple, write_small
from tests.server.rest import Table, succeeded, write_stat


def test_a_group_in_the_plan_of_a_pending_write_is_not_clustered(shared_http: httpx.Client) -> None:
    table = simple(shared_http)
    for _ in range(3):
        write_small(table, "day=1")
    began = write_small(table, "day=1")
    group = {"partition_path": "day=1", "file_id": f"{began}-0"}
    write = table.begun(plan={"file_groups": [group]})
    preview = table.services("/preview")

    [instant] = plan(table, services=["clustering"])

    assert f"{began}-0" not in [group["file_id"] for group in instant["plan"]["file_groups"]]
    assert reasons(preview, "clustering") == ["pending-write"]
    assert messages(preview, "clustering", "pending-write") == [
        f"small file groups in plans or reports: 1, of the pending write {write}"
    ]


def test_what_holds_a_clean_is_named(shared_http: httpx.Client) -> None:
    table = merge_on_read(shared_http, hoodie_clean_commits_retained="1")
    path = f"/v1/tables/{table.name}"
    savepoint = succeeded(shared_http.post(f"{path}/savepoints", json={"writer": "w"}))["requested_time"]
    rewrite_bucket(table)
    pinned = table.services("/preview")
    write = table.begun(action="deltacommit")
    rewrite_bucket(table)
    written = table.services("/preview")
    succeeded(table.roll_back(write, writer="w"))
    for reader, follows in (("a report", False), ("a copy", True)):
        succeeded(shared_http.post(f"{path}/readers", json={"reader": reader, "follows": follows}))
    rewrite_bucket(table)
    read = table.services("/preview")

    assert reasons(pinned, "clean") == ["savepoint"]
    assert messages(pinned, "clean", "savepoint") == [f"files kept: 1, by the savepoint {savepoint}"]
    assert messages(written, "clean", "pending-write") == [
        f"files that were live when it began may be read by the pending write {write}"
    ]
    assert messages(read, "clean", "savepoint") == [
        f"files kept: 1, by the savepoint {savepoint} and the readers a report, a copy"
    ]
    assert messages(read, "clean", "reader") == ["later files are needed by the reader a copy"]


def test_a_savepoint_that_keeps_files_is_named_also_after_a_clean(shared_http: httpx.Client) -> None:
    """The trigger of cleans counts from then on, and was the only reason."""
    table = merge_on_read(shared_http, hoodie_clean_commits_retained="1")
    path = f"/v1/tables/{table.name}"
    savepoint = succeeded(shared_http.post(f"{path}/savepoints", json={"writer": "w"}))["requested_time"]
    for _ in range(2):
        rewrite_bucket(table)
    [clean] = plan(table, services=["clean"])
    time, files = clean["requested_time"], clean["plan"]["files_to_delete"]
    succeeded(table.inflight(time))
    succeeded(table.report(time, *({"partition_path": "", "file_name": name} for name in files)))
    succeeded(table.complete(time))

    preview = table.services("/preview")

    assert reasons(preview, "clean") == ["below-threshold", "savepoint"]
    assert messages(preview, "clean", "savepoint") == [f"files kept: 1, by the savepoint {savepoint}"]


def rewrite_bucket(table: Table) -> None:
    began = table.begun(action="deltacommit")
    succeeded(table.complete(began, write_stat(began)))
