"""Resizes: the number of buckets of a table and its files change in one moment (docs/decisions/0053)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from chronolake_model.file_names import base_file_name, bucket_file_id
from tests.server import planned, rest
from tests.server.rest import Json, Table, log_stat, refused, succeeded, write_stat


@pytest.fixture
def table(shared_http: httpx.Client) -> Table:
    """A copy-on-write table with four buckets, of which the first two have files."""
    return with_files(rest.make_table(shared_http))


def with_files(table: Table, action: str = "commit") -> Table:
    begun = table.begun(action=action)
    succeeded(table.complete(begun, write_stat(begun, 0), write_stat(begun, 1)))
    return table


def group(bucket: int, generation: int = 0) -> Json:
    return {"partition_path": "", "file_id": bucket_file_id(bucket, generation)}


def stat(time: str, bucket: int, generation: int = 0) -> Json:
    file_id = bucket_file_id(bucket, generation)
    return write_stat(time, bucket, file_id=file_id, file_name=base_file_name(file_id, "0-0-0", time))


def live(table: Table, as_of: str = "latest") -> list[Json]:
    snapshot = succeeded(table.http.get(f"/v1/tables/{table.name}/snapshot", params={"as_of": as_of}))
    return [{name: slice_[name] for name in ("partition_path", "file_id")} for slice_ in snapshot["slices"]]


def begin(table: Table, buckets: int, action: str = "clustering", **body: Any) -> httpx.Response:
    return table.begin(action=action, plan={"file_groups": live(table), "buckets": buckets}, **body)


def begun(table: Table, buckets: int, **body: Any) -> str:
    time: str = succeeded(begin(table, buckets, **body))["requested_time"]
    return time


def complete(table: Table, time: str, buckets: int | None, *stats: Json, **body: object) -> httpx.Response:
    """Complete a resize; by default it replaces the file groups of its plan."""
    plan = succeeded(table.http.get(f"/v1/tables/{table.name}/instants/{time}"))["plan"]
    whole = {"replaced_file_groups": plan["file_groups"], "buckets": buckets} | body
    # As many in each file as all of the replaced ones have.
    records = {"records": planned.base_records(table, plan["file_groups"])}
    return table.complete(time, *(stat | records for stat in stats), **whole)


def resized(table: Table, buckets: int) -> Json:
    """A resize of the table, whose file groups 0 and 1 are divided into the first and the last bucket."""
    time = begun(table, buckets)
    return succeeded(complete(table, time, buckets, *new_files(table, time, buckets)))


def new_files(table: Table, time: str, buckets: int) -> list[Json]:
    names = [{"partition_path": "", "bucket": bucket} for bucket in sorted({0, buckets - 1})]
    answer = table.http.post(f"/v1/tables/{table.name}/file-groups", json={"as_of": time, "buckets": names})
    stats = []
    for name, group_now in zip(names, succeeded(answer)["file_groups"], strict=True):
        last = group_now["slice"]["file_id"] if group_now["slice"] else group_now["replaced"]
        generation = 0 if last is None else int(last.split("-")[4]) + 1
        stats.append(stat(time, int(str(name["bucket"])), generation))
    return stats


def definition(table: Table) -> Json:
    return succeeded(table.http.get(f"/v1/tables/{table.name}"))


def buckets_of(table: Table) -> int:
    buckets: int = definition(table)["index"]["buckets"]
    return buckets


def test_a_resize_changes_files_and_definition_together(table: Table) -> None:
    before = begun(table, 8)
    assert buckets_of(table) == 4
    done = succeeded(complete(table, before, 8, stat(before, 0, 1), stat(before, 7)))
    assert (done["action"], done["operation"], done["plan"]["buckets"]) == ("replacecommit", "cluster", 8)
    assert done["buckets"] == 4, "the number as the instant began"
    changed = definition(table)
    assert changed["index"] == {"type": "bucket", "buckets": 8}
    assert changed["former_buckets"] == [{"buckets": 4, "until": done["completion_time"], "changed_by": before}]
    assert live(table) == [group(0, 1), group(7)]
    assert live(table, before) == [group(0), group(1)]
    later = table.begun()
    assert succeeded(table.complete(later, stat(later, 5)))["buckets"] == 8


def test_a_resize_states_the_number_of_its_plan_and_no_other_instant_states_one(table: Table) -> None:
    time = begun(table, 8)
    files = stat(time, 0, 1), stat(time, 7)
    for stated in (4, 16, None):
        problem = refused(complete(table, time, stated, *files), 422, "invalid-plan")
        assert "complete with buckets: 8" in problem["detail"]
    ordinary = table.begun()
    refused(table.complete(ordinary, stat(ordinary, 3), buckets=4), 422, "invalid-plan")
    clustering = {"file_groups": [group(1)]}
    succeeded(table.roll_back(time))
    plain = table.begun(action="clustering", plan=clustering)
    refused(table.complete(plain, replaced_file_groups=[group(1)], buckets=8), 422, "invalid-plan")
    assert buckets_of(table) == 4


def test_a_resize_places_its_files_by_its_own_number(table: Table) -> None:
    time = begun(table, 2)
    refused(table.stage(time, stat(time, 2)), 422, "invalid-write-stat")
    refused(complete(table, time, 2, stat(time, 2)), 422, "invalid-write-stat")
    refused(complete(table, time, 2, stat(time, 0, 2)), 422, "invalid-plan")
    succeeded(table.roll_back(time))
    time = begun(table, 8)
    version = table.staged(time, stat(time, 0, 1), stat(time, 7))
    succeeded(complete(table, time, 8, staged=[version]))
    assert (buckets_of(table), live(table)) == (8, [group(0, 1), group(7)])


def test_a_resize_replaces_all_file_groups_of_the_table(table: Table) -> None:
    part = {"file_groups": [group(0)], "buckets": 8}
    problem = refused(table.begin(action="clustering", plan=part), 409, "write-conflict")
    assert problem["context"]["file_groups"] == [group(1)]
    time = begun(table, 8)
    kept = complete(table, time, 8, stat(time, 0, 1), replaced_file_groups=[group(0)])
    refused(kept, 422, "invalid-plan")


def test_a_group_that_is_opened_meanwhile_makes_the_resize_lose(table: Table) -> None:
    time = begun(table, 8)
    other = table.begun()
    won = succeeded(table.complete(other, stat(other, 3)))
    problem = refused(complete(table, time, 8, stat(time, 0, 1)), 409, "write-conflict")
    assert problem["context"] == {
        "winner": other,
        "winner_action": "commit",
        "winner_state": "completed",
        "rebase_on": won["completion_time"],
        "file_groups": [group(3)],
        "file_groups_in_common": 1,
    }
    refused(begin(table, 8), 409, "write-conflict")
    succeeded(table.roll_back(time))
    resized(table, 8)


@pytest.mark.parametrize("staged", [False, True])
@pytest.mark.parametrize(
    ("to", "bucket"), [(8, 1), (8, 3), (2, 1), (2, 3)], ids=["stored", "new", "fewer-stored", "fewer-new"]
)
def test_a_write_that_began_before_the_resize_conflicts(
    table: Table, to: int, bucket: int, *, staged: bool
) -> None:
    early = table.begun()
    assert succeeded(table.http.get(f"/v1/tables/{table.name}/instants/{early}"))["buckets"] == 4
    version = table.staged(early, stat(early, bucket)) if staged else 0
    done = resized(table, to)
    refused(table.stage(early, stat(early, bucket)), 409, "write-conflict")
    late = table.complete(early, staged=[version]) if staged else table.complete(early, stat(early, bucket))
    problem = refused(late, 409, "write-conflict")
    assert problem["context"] == {
        "winner": done["requested_time"],
        "winner_action": "replacecommit",
        "winner_state": "completed",
        "rebase_on": done["completion_time"],
        "file_groups": [],
        "file_groups_in_common": 0,
        "buckets": to,
    }
    body = {"file_groups": [group(bucket)]}
    dry = table.http.post(f"/v1/tables/{table.name}/instants/{early}/conflicts", json=body)
    assert succeeded(dry)["conflict"]["winner"] == done["requested_time"]


def test_an_append_that_began_before_the_resize_conflicts_also_in_a_new_group(
    shared_http: httpx.Client,
) -> None:
    table = with_files(rest.make_table(shared_http, type="merge_on_read"), "deltacommit")
    append, opening = table.begun(action="deltacommit"), table.begun(action="deltacommit")
    resized(table, 8)
    refused(table.complete(append, log_stat(append, 0)), 409, "write-conflict")
    refused(table.complete(opening, log_stat(opening, 3)), 409, "write-conflict")
    later = table.begun(action="deltacommit")
    succeeded(table.complete(later, log_stat(later, 3)))


def test_a_pending_table_service_and_a_resize_exclude_each_other(shared_http: httpx.Client) -> None:
    table = with_files(rest.make_table(shared_http, type="merge_on_read"), "deltacommit")
    compaction = table.begun(action="compaction", plan={"file_groups": [group(0)]})
    refused(begin(table, 8), 409, "write-conflict")
    succeeded(table.roll_back(compaction))
    time = begun(table, 8)
    refused(table.begin(action="compaction", plan={"file_groups": [group(1)]}), 409, "write-conflict")
    refused(begin(table, 16), 409, "write-conflict")
    succeeded(complete(table, time, 8, stat(time, 0, 1)))


def test_of_two_resizes_of_an_empty_table_one_completes(shared_http: httpx.Client) -> None:
    table = rest.make_table(shared_http)
    first, second = begun(table, 8), begun(table, 16)
    succeeded(complete(table, second, 16))
    refused(complete(table, first, 8), 409, "write-conflict")
    assert (buckets_of(table), live(table)) == (16, [])


def test_the_first_write_of_an_empty_table_and_a_resize_do_not_both_complete(shared_http: httpx.Client) -> None:
    table = rest.make_table(shared_http)
    time, write = begun(table, 8), table.begun()
    succeeded(table.complete(write, stat(write, 3)))
    refused(complete(table, time, 8), 409, "write-conflict")


def test_a_resize_completes_only_alone(table: Table) -> None:
    time, write = begun(table, 8), table.begun()
    members: list[Json] = [
        {"table": table.name, "requested_time": write, "write_stats": [stat(write, 3)]},
        {
            "table": table.name,
            "requested_time": time,
            "replaced_file_groups": [group(0), group(1)],
            "buckets": 8,
        },
    ]
    refused(table.http.post("/v1/transactions/complete", json={"instants": members}), 422, "invalid-plan")
    members[1].pop("buckets")
    refused(table.http.post("/v1/transactions/complete", json={"instants": members}), 422, "invalid-plan")
    assert buckets_of(table) == 4


def test_a_restore_brings_the_number_back_with_the_files(table: Table) -> None:
    saved = succeeded(table.http.post(f"/v1/tables/{table.name}/savepoints", json={"writer": "w"}))
    first = resized(table, 8)
    resized(table, 16)
    pending = begun(table, 2)
    body = {"writer": "w", "savepoint": saved["requested_time"]}
    restored = succeeded(table.http.post(f"/v1/tables/{table.name}/restore", json=body))
    assert (buckets_of(table), live(table)) == (4, [group(0), group(1)])
    former = definition(table)["former_buckets"]
    assert [entry["buckets"] for entry in former] == [4, 8, 16]
    assert former[-1]["until"] == restored["completion_time"]
    assert former[-1]["changed_by"] == restored["requested_time"]
    refused(complete(table, pending, 2), 410, "instant-rolled-back")
    assert live(table, first["completion_time"]) == [group(0, 1), group(7)]
    # The same groups are opened again, and a restore that undoes no resize changes no number.
    again = succeeded(table.http.post(f"/v1/tables/{table.name}/restore", json=body))
    assert again["state"] == "completed"
    assert len(definition(table)["former_buckets"]) == 3
    resized(table, 8)
    assert live(table) == [group(0, 1), group(7)]


@pytest.mark.parametrize("repetition", range(3))
def test_a_resize_and_writes_that_race_leave_no_file_of_the_other_number(
    shared_http: httpx.Client, repetition: int
) -> None:
    table = with_files(rest.make_table(shared_http))
    time = begun(table, 2)
    writes = [table.begun() for _ in range(6)]

    def write(number: int) -> int:
        return table.complete(writes[number], stat(writes[number], 2 + number % 2)).status_code

    with ThreadPoolExecutor(7) as threads:
        statuses = [threads.submit(write, number) for number in range(6)]
        resize = threads.submit(complete, table, time, 2, stat(time, 0, 1)).result()
        written = [status.result() for status in statuses]
    assert set(written) <= {200, 409}
    assert (resize.status_code == 200) is (200 not in written)
    buckets = buckets_of(table)
    assert buckets == (2 if resize.status_code == 200 else 4)
    assert all(int(slice_["file_id"][:8]) < buckets for slice_ in live(table))
