"""A wrong executor of a table service: what would lose records is refused, before anything is visible."""

from __future__ import annotations

import httpx
import pytest

from tests.server.planned import append, merge_on_read, planned, simple, small_stat, write_small
from tests.server.rest import Json, Table, log_stat, refused, succeeded, write_stat

RECORDS = 10
"""Records of each file of these tables."""


def taken_clustering(http: httpx.Client, **of_table: str) -> tuple[Table, str, list[Json]]:
    """A table of four small file groups, the clustering of these that is inflight, and the groups."""
    table = simple(http, **of_table)
    for _ in range(4):
        write_small(table, "day=1")
    [instant] = planned(table, services=["clustering"])
    succeeded(table.inflight(instant["requested_time"]))
    return table, instant["requested_time"], instant["plan"]["file_groups"]


def test_a_clustering_without_files_does_not_replace_records(shared_http: httpx.Client) -> None:
    table, requested, groups = taken_clustering(shared_http)

    problem = refused(table.complete(requested, replaced_file_groups=groups), 422, "invalid-write-stat")

    assert "reports 0 records" in problem["detail"]
    assert problem["context"]["least"] == 4 * RECORDS
    assert table.state(requested) == "inflight"


@pytest.mark.parametrize("is_staged", [False, True])
def test_a_clustering_with_too_few_records_is_refused(shared_http: httpx.Client, is_staged: bool) -> None:
    table, requested, groups = taken_clustering(shared_http)
    stats = [small_stat(requested, number, "day=1") | {"records": 19} for number in range(2)]
    whole = [small_stat(requested, number, "day=1") | {"records": 20} for number in range(2)]

    def complete(*files: Json) -> httpx.Response:
        if not is_staged:
            return table.complete(requested, *files, replaced_file_groups=groups)
        version = table.staged(requested, *files)
        return table.complete(requested, staged=[version], replaced_file_groups=groups)

    problem = refused(complete(*stats), 422, "invalid-write-stat")

    assert (problem["context"]["least"], problem["context"]["reported"]) == (40, 38)
    assert succeeded(complete(*whole))["state"] == "completed"


def test_records_that_merging_removed_are_reported_as_deletes(shared_http: httpx.Client) -> None:
    table, requested, groups = taken_clustering(shared_http)
    stat = small_stat(requested, 0, "day=1") | {"records": 38, "deletes": 2}

    assert succeeded(table.complete(requested, stat, replaced_file_groups=groups))["state"] == "completed"


def test_a_clustering_moves_no_records_to_another_partition(shared_http: httpx.Client) -> None:
    table, requested, groups = taken_clustering(shared_http)
    stats = [small_stat(requested, 0, "day=1") | {"records": 40}, small_stat(requested, 1, "day=2")]

    problem = refused(table.complete(requested, *stats, replaced_file_groups=groups), 422, "invalid-write-stat")

    assert "the partition 'day=2'" in problem["detail"]


def test_a_clustering_does_not_write_over_another_file_group(shared_http: httpx.Client) -> None:
    table = simple(shared_http)
    other, mine = write_small(table, "day=1"), write_small(table, "day=1")
    groups = [{"partition_path": "day=1", "file_id": f"{mine}-0"}]
    requested = table.begun(action="clustering", plan={"file_groups": groups})
    file_id = f"{other}-0"
    over = small_stat(requested, 0, "day=1") | {
        "file_id": file_id,
        "file_name": f"{file_id}_0-0-0_{requested}.parquet",
    }

    problem = refused(table.complete(requested, over, replaced_file_groups=groups), 422, "invalid-write-stat")

    assert "does not replace it" in problem["detail"]


def test_a_compaction_with_too_few_records_is_refused(shared_http: httpx.Client) -> None:
    table = merge_on_read(shared_http)
    began = table.begun(action="deltacommit")
    succeeded(table.complete(began, log_stat(began) | {"records": 3}))
    requested = table.begun(action="compaction", plan={"file_groups": [{**GROUP}]})

    few = refused(table.complete(requested, write_stat(requested) | {"records": 6}), 422, "invalid-write-stat")

    assert (few["context"]["least"], few["context"]["reported"]) == (7, 6)
    assert succeeded(table.complete(requested, write_stat(requested) | {"records": 7}))


def test_deletes_that_are_no_records_of_their_log_file_count(shared_http: httpx.Client) -> None:
    """Hudi's writers count the keys of delete blocks apart."""
    table = merge_on_read(shared_http)
    began = table.begun(action="deltacommit")
    deletes = log_stat(began) | {"records": 0, "inserts": 0, "deletes": 4}
    version = table.staged(began, deletes)
    succeeded(table.complete(began, staged=[version]))
    began = table.begun(action="deltacommit")
    succeeded(table.complete(began, log_stat(began) | {"records": 0, "inserts": 0, "deletes": 6}))
    requested = table.begun(action="compaction", plan={"file_groups": [{**GROUP}]})

    assert succeeded(table.complete(requested, write_stat(requested) | {"records": 0}))


def test_log_files_of_the_next_slice_prove_nothing(shared_http: httpx.Client) -> None:
    table = merge_on_read(shared_http)
    requested = table.begun(action="compaction", plan={"file_groups": [{**GROUP}]})
    append(table, 0, times=2)

    refused(table.complete(requested, write_stat(requested) | {"records": 9}), 422, "invalid-write-stat")


GROUP = {"partition_path": "", "file_id": write_stat("20260101000000000")["file_id"]}
