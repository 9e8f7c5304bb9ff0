"""A clustering that reports too few records: its executor is wrong, and nothing is published."""

from __future__ import annotations

import httpx
import pytest

from chronolake_model.file_names import base_file_name, log_file_name
from tests.server import rest
from tests.server.planned import planned, simple, small_stat, write_small
from tests.server.rest import Json, Table, refused, succeeded

RECORDS = 10
"""Records of each file of these tables."""


@pytest.fixture
def table(shared_http: httpx.Client) -> Table:
    """A table of four small file groups in one partition."""
    table = simple(shared_http)
    for _ in range(4):
        write_small(table, "day=1")
    return table


def begun(table: Table) -> tuple[str, list[Json]]:
    """The planned clustering, inflight, and the file groups that it replaces."""
    [instant] = planned(table, services=["clustering"])
    succeeded(table.inflight(instant["requested_time"]))
    return instant["requested_time"], instant["plan"]["file_groups"]


def file(requested: str, number: int, records: int, **fields: object) -> Json:
    return small_stat(requested, number, "day=1") | {"records": records} | fields


def rewritten(requested: str, file_id: str, records: int) -> Json:
    """A base file of a file group that exists."""
    name = base_file_name(file_id, "0-0-0", requested)
    return file(requested, 0, records, file_id=file_id, file_name=name)


def test_a_clustering_without_files_does_not_replace_records(table: Table) -> None:
    requested, groups = begun(table)

    problem = refused(table.complete(requested, replaced_file_groups=groups), 422, "invalid-write-stat")

    assert problem["context"] == problem["context"] | {
        "partition_path": "day=1",
        "stored": 4 * RECORDS,
        "reported": 0,
    }
    assert table.state(requested) == "inflight"
    snapshot = succeeded(table.http.get(f"/v1/tables/{table.name}/snapshot"))
    assert len(snapshot["slices"]) == 4


@pytest.mark.parametrize("is_staged", [False, True])
def test_a_clustering_reports_all_records(table: Table, is_staged: bool) -> None:
    requested, groups = begun(table)

    def complete(*files: Json) -> httpx.Response:
        if not is_staged:
            return table.complete(requested, *files, replaced_file_groups=groups)
        version = table.staged(requested, *files)
        return table.complete(requested, staged=[version], replaced_file_groups=groups)

    few = refused(complete(file(requested, 0, 20), file(requested, 1, 19)), 422, "invalid-write-stat")
    done = succeeded(complete(file(requested, 0, 20), file(requested, 1, 20)))

    assert (few["context"]["stored"], few["context"]["reported"]) == (40, 39)
    assert done["state"] == "completed"


def test_records_that_a_clustering_leaves_out_are_reported_as_deletes(table: Table) -> None:
    requested, groups = begun(table)

    stat = file(requested, 0, 38, deletes=2)

    assert succeeded(table.complete(requested, stat, replaced_file_groups=groups))["state"] == "completed"


def test_the_records_of_a_partition_do_not_count_in_another_one(table: Table) -> None:
    requested, groups = begun(table)
    stats = [file(requested, 0, 39), small_stat(requested, 1, "day=2")]

    refused(table.complete(requested, *stats, replaced_file_groups=groups), 422, "invalid-write-stat")


def test_a_file_over_a_group_that_the_clustering_does_not_replace_has_the_records_of_that_too(
    table: Table,
) -> None:
    other = f"{write_small(table, 'day=1', size_bytes=2**30)}-0"
    requested, groups = begun(table)

    few = table.complete(requested, rewritten(requested, other, 49), replaced_file_groups=groups)
    all_ = table.complete(requested, rewritten(requested, other, 50), replaced_file_groups=groups)

    assert refused(few, 422, "invalid-write-stat")["context"]["stored"] == 50
    assert succeeded(all_)["state"] == "completed"


@pytest.mark.parametrize("of_log", [{"records": 1, "deletes": 1}, {"records": 0}])
def test_a_log_file_may_delete_all_records_of_its_group(shared_http: httpx.Client, of_log: Json) -> None:
    """A delete removes all records of its key, and of some log files of adopted tables no number is known."""
    table = rest.make_table(
        shared_http, type="merge_on_read", index={"type": "simple"}, partition_fields=["day"]
    )
    ids = [f"{write_small(table, 'day=1', action='deltacommit')}-0" for _ in range(2)]
    began = table.begun(action="deltacommit")
    log = rewritten(began, ids[0], 0) | {"file_name": log_file_name(ids[0], "0-0-0", began)} | of_log
    succeeded(table.complete(began, log))
    groups = [{"partition_path": "day=1", "file_id": file_id} for file_id in ids]
    requested = table.begun(action="clustering", plan={"file_groups": groups})

    few = table.complete(requested, file(requested, 0, 9), replaced_file_groups=groups)
    all_ = table.complete(requested, file(requested, 0, 10), replaced_file_groups=groups)

    assert refused(few, 422, "invalid-write-stat")["context"]["stored"] == RECORDS
    assert succeeded(all_)["state"] == "completed"
