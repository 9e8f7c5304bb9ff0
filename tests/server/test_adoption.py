"""Adopting tables: what a request with an invented history can not do, and what a right one does."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import httpx
import pytest

from chronolake_metastore.proof import rebuilding, verification
from chronolake_metastore.settings import Settings
from tests.fix_server import ServerProcess
from tests.server import rest
from tests.server.rest import Json, Table, refused, succeeded

GROUP = "0b8ae5b5-1d8a-4f2b-8a6f-1b0a8a0a0001-0"
OTHER = "0b8ae5b5-1d8a-4f2b-8a6f-1b0a8a0a0002-0"
T = [f"202601010000{second:02}000" for second in range(60)]
"""Times of Hudi."""
FUTURE = "29990101000000000"


def stat(requested: str, file_id: str = GROUP, **changes: object) -> Json:
    """The write stat of a base file of Hudi."""
    name = f"{file_id}_0-12-34_{requested}.parquet"
    return {
        "partition_path": "",
        "file_id": file_id,
        "file_name": name,
        "size_bytes": 1_000,
        "records": 10,
    } | changes


def commit(requested: str, completed: str | None, *stats: Json, **changes: object) -> Json:
    """A commit of the history."""
    instant: Json = {"requested_time": requested, "action": "commit", "write_stats": list(stats)}
    return instant | ({} if completed is None else {"completion_time": completed}) | changes


HISTORY = (
    commit(T[1], T[2], stat(T[1]), operation="insert", extra_metadata={"app": "nightly"}),
    commit(T[3], T[4], stat(T[3]), stat(T[3], OTHER), operation="upsert"),
)


def body(http: httpx.Client, *instants: Json, **changes: Any) -> Json:
    """The body of an adoption, in a new namespace."""
    namespace = f"ns_{uuid.uuid4().hex[:12]}"
    succeeded(http.post("/v1/namespaces", json={"name": namespace}))
    definition = rest.table_body(f"{namespace}.orders", index={"type": "simple"}, **changes.pop("table", {}))
    return {"definition": definition, "instants": list(instants), "writer": "adopter"} | changes


def adopt(http: httpx.Client, request: Json, key: str | None = None) -> httpx.Response:
    """Adopt a table."""
    return http.post("/v1/tables/adopt", json=request, headers={} if key is None else rest.keyed(key))


def adopted(http: httpx.Client, *instants: Json, **changes: Any) -> Table:
    """A table that could be adopted."""
    request = body(http, *instants, **changes)
    return Table(http, succeeded(adopt(http, request))["table"]["name"])


def live_files(table: Table, **parameters: str) -> list[str]:
    """The live base files."""
    page = succeeded(table.http.get(f"/v1/tables/{table.name}/snapshot", params=parameters))
    return [slice_["base_file"]["path"] for slice_ in page["slices"] if slice_["base_file"]]


def log(table: Table) -> list[Json]:
    """The events of a table."""
    events: list[Json] = succeeded(table.http.get("/v1/events", params={"table": table.name}))["events"]
    return events


def test_the_history_has_its_own_times_and_later_events_the_servers(shared_http: httpx.Client) -> None:
    table = adopted(shared_http, *reversed(HISTORY))

    events = log(table)
    assert [event["type"] for event in events] == [
        "TableCreated",
        *["InstantRequested", "InstantCompleted"] * 2,
        "TableAdopted",
    ]
    assert [event["time"] for event in events[:-1]] == ["20260101000000999", *T[1:5]]
    assert events[-1]["time"] > "20261122"
    assert table.begun() > events[-1]["time"]


def test_the_table_is_read_as_of_the_times_of_its_history(shared_http: httpx.Client) -> None:
    table = adopted(shared_http, *HISTORY)

    assert live_files(table, as_of=T[2]) == [stat(T[1])["file_name"]]
    assert live_files(table) == [stat(T[3])["file_name"], stat(T[3], OTHER)["file_name"]]
    assert live_files(table, as_of=T[1]) == []


def test_what_hudi_has_cleaned_is_not_served(shared_http: httpx.Client) -> None:
    table = adopted(shared_http, *HISTORY, cleaned_before=T[4])

    path = f"/v1/tables/{table.name}/snapshot"
    refused(table.http.get(path, params={"as_of": T[2]}), 410, "history-cleaned")


def test_an_instant_keeps_its_operation_and_metadata(shared_http: httpx.Client) -> None:
    table = adopted(shared_http, *HISTORY)

    first = succeeded(table.http.get(f"/v1/tables/{table.name}/instants/{T[1]}"))

    assert (first["operation"], first["extra_metadata"]) == ("insert", {"app": "nightly"})
    assert (first["completion_time"], first["state"]) == (T[2], "completed")


def test_replaced_file_groups_are_gone_from_their_completion_on(shared_http: httpx.Client) -> None:
    replace = commit(
        T[5],
        T[6],
        stat(T[5], f"{OTHER[:-3]}9-0"),
        action="replacecommit",
        operation="insert_overwrite",
        replaced_file_groups=[{"partition_path": "", "file_id": GROUP}],
    )

    table = adopted(shared_http, *HISTORY, replace)

    assert [name[:36] for name in live_files(table)] == [OTHER[:-2], f"{OTHER[:-3]}9"]
    assert len(live_files(table, as_of=T[4])) == 2


def test_a_savepoint_pins_its_instant(shared_http: httpx.Client) -> None:
    savepoint: Json = {"requested_time": T[7], "completion_time": T[8], "action": "savepoint", "target": T[3]}

    table = adopted(shared_http, *HISTORY, savepoint)

    restored = table.http.post(
        f"/v1/tables/{table.name}/restore", json={"writer": "w", "savepoint": T[7]}, headers={}
    )
    assert succeeded(restored)["state"] == "completed"


def test_a_pending_instant_is_rolled_back_by_the_ordinary_path(shared_http: httpx.Client) -> None:
    table = adopted(shared_http, *HISTORY, commit(T[9], None))
    left_over = stat(T[9])
    mark = {"partition_path": "", "file_name": left_over["file_name"], "kind": "CREATE"}

    refused(table.roll_back(T[9], writer="another"), 409, "lease-live")
    assert table.marked(T[9], mark) == ["created"]
    succeeded(table.roll_back(T[9], writer="adopter"))

    assert table.state(T[9]) == "rolled_back"
    assert len(live_files(table)) == 2


def test_a_table_is_adopted_once(shared_http: httpx.Client) -> None:
    request, key = body(shared_http, *HISTORY), rest.new_key()
    first = succeeded(adopt(shared_http, request, key))

    assert succeeded(adopt(shared_http, request, key)) == first
    refused(adopt(shared_http, request), 409, "table-exists")


def test_a_dry_run_changes_nothing(shared_http: httpx.Client) -> None:
    request = body(shared_http, *HISTORY)
    wrong = request | {"instants": [commit(T[1], FUTURE)]}

    answer = succeeded(shared_http.post("/v1/tables/adopt/dry-run", json=request))
    refused(shared_http.post("/v1/tables/adopt/dry-run", json=wrong), 422, "invalid-table")

    table = succeeded(adopt(shared_http, request))["table"]
    assert answer == {"metastore_id": table["metastore_id"], "took_over": []}


@pytest.mark.parametrize(
    ("instants", "reason"),
    [
        ([commit(T[1], FUTURE)], "in the future"),
        ([commit("20091231000000000", T[1])], "before 2016"),
        ([commit(T[2], T[1])], "completes before it is requested"),
        ([commit(T[1], T[1])], "twice"),
        ([commit(T[1], T[2]), commit(T[2], T[3])], "twice"),
        ([commit("20260231000000000", T[3])], "not a time"),
        ([commit(T[1], T[2], action="deltacommit")], "has no deltacommit"),
        ([commit(T[1], T[2], action="rollback")], "has no rollback"),
        ([commit(T[1], T[2], action="clustering")], "has the operation cluster"),
        ([commit(T[1], T[2], operation="compact")], "has not the operation compact"),
        ([commit(T[1], T[2], stat(T[1]), action="clean")], "has no files"),
        ([commit(T[1], T[2], replaced_file_groups=[{"partition_path": "", "file_id": "a"}])], "replaces no"),
        (
            [
                commit(
                    T[1],
                    T[2],
                    action="replacecommit",
                    operation="insert_overwrite",
                    replaced_file_groups=[{"partition_path": "../other", "file_id": "a"}],
                )
            ],
            "replaced_file_groups: ",
        ),
        ([commit(T[1], T[2], target=T[1])], "has no target"),
        ([commit(T[1], T[2], action="savepoint", target=T[3])], "no completed write"),
        ([commit(T[1], None, action="savepoint", target=T[3])], "no completed write"),
        ([commit(T[1], None, action="clean")], "not adopted"),
        ([commit(T[1], None, stat(T[1]))], "pending"),
        ([commit(T[1], None, action="clustering", operation="cluster")], "needs them"),
    ],
)
def test_a_history_that_cannot_have_been_is_refused(
    shared_http: httpx.Client, instants: list[Json], reason: str
) -> None:
    problem = refused(adopt(shared_http, body(shared_http, *instants)), 422, "invalid-table")
    assert reason in problem["detail"]


@pytest.mark.parametrize(
    "wrong",
    [
        stat(T[9]),
        stat(T[1], file_name="../../etc/passwd"),
        stat(T[1], partition_path=".."),
        stat(T[1], partition_path="day=1"),
        stat(T[1], file_name=f".{GROUP}_{T[1]}.log.1_0-1-2"),
    ],
    ids=["of another instant", "no data file", "outside", "of a partition", "a log"],
)
def test_files_that_the_instant_cannot_have_written_are_refused(shared_http: httpx.Client, wrong: Json) -> None:
    request = body(shared_http, commit(T[1], T[2], wrong))
    refused(adopt(shared_http, request), 422, "invalid-write-stat")


@pytest.mark.parametrize("changes", [{"tick": "1us"}, {"index": {"type": "bucket", "buckets": 4}}])
def test_a_table_that_hudi_cannot_have_written_is_refused(
    shared_http: httpx.Client, changes: dict[str, Any]
) -> None:
    request = body(shared_http, *HISTORY)
    request["definition"] |= changes
    refused(adopt(shared_http, request), 422, "invalid-table")


def test_a_time_of_no_completion_is_no_begin_of_what_is_served(shared_http: httpx.Client) -> None:
    request = body(shared_http, *HISTORY, cleaned_before=T[3])
    refused(adopt(shared_http, request), 422, "invalid-plan")


def test_a_dropped_table_can_be_adopted_again_under_its_name(shared_http: httpx.Client) -> None:
    request = body(shared_http, *HISTORY)
    name = succeeded(adopt(shared_http, request))["table"]["name"]
    dropped = shared_http.delete(f"/v1/tables/{name}")
    assert dropped.status_code == 204

    refused(adopt(shared_http, request), 409, "base-path-taken")
    request["definition"]["reuse_base_path"] = True
    pending = request | {"instants": [*HISTORY, commit(T[9], None)]}
    problem = refused(adopt(shared_http, pending), 422, "invalid-table")
    assert "another table was" in problem["detail"]

    table = Table(shared_http, succeeded(adopt(shared_http, request))["table"]["name"])
    assert len(live_files(table)) == 2


def test_a_table_is_dropped_only_at_the_expected_version(shared_http: httpx.Client) -> None:
    table = adopted(shared_http, *HISTORY)
    last = log(table)[-1]["version"]
    table.begun()
    path = f"/v1/tables/{table.name}"

    refused(shared_http.delete(path, params={"version": last}), 409, "illegal-transition")
    assert shared_http.delete(path, params={"version": last + 1}).status_code == 204


def test_an_adopted_table_must_spell_its_partition_paths_as_hudi_did(shared_http: httpx.Client) -> None:
    hudi = "hoodie.table.name=t\nhoodie.table.type=COPY_ON_WRITE\nhoodie.table.version=8\n"
    properties = {"hudi.adopted": hudi, "partition-paths.url-encode": "false"}
    plain = {**properties, "partition-paths.hive-style": "false"}
    first = commit(T[1], T[2], stat(T[1], partition_path="2026-01-01"))
    by_day = {"partition_fields": ["day"]}

    request = body(shared_http, first, table={**by_day, "properties": properties})
    problem = refused(adopt(shared_http, request), 422, "invalid-table")
    assert "partition-paths.hive-style=false" in problem["detail"]
    succeeded(adopt(shared_http, body(shared_http, first, table={**by_day, "properties": plain})))


def test_an_adopted_table_is_written_verified_and_rebuilt(dsn: str, new_server: Any, tmp_path: Any) -> None:
    server: ServerProcess = new_server(dsn)
    with rest.connect(server.url) as http:
        table = adopted(http, *HISTORY, commit(T[9], None), cleaned_before=T[4])
        succeeded(table.roll_back(T[9], writer="adopter"))
        requested = table.begun()
        succeeded(table.complete(requested, stat(requested)))
        before = live_files(table)

    report = asyncio.run(verification.verify(Settings(dsn=dsn)))
    assert report.findings == []
    server.stop()
    asyncio.run(rebuilding.rebuild(Settings(dsn=dsn)))
    with rest.connect(server.start().url) as http:
        assert live_files(Table(http, table.name)) == before


def test_a_table_takes_no_writes_until_its_adoption_is_finished(shared_http: httpx.Client) -> None:
    request = body(shared_http, *HISTORY, table={"properties": {"hudi.adopting": "0" * 64}})
    name = succeeded(adopt(shared_http, request))["table"]["name"]
    table, url = Table(shared_http, name), f"/v1/tables/{name}"

    for path, refusal in (
        ("instants", {"writer": "w", "action": "commit"}),
        ("savepoints", {"writer": "w", "instant": T[1]}),
        ("cleans", {"writer": "w", "retain_commits": 1}),
        ("deletable", {"files": [{"partition_path": "", "file_name": stat(T[1])["file_name"]}]}),
    ):
        problem = refused(shared_http.post(f"{url}/{path}", json=refusal), 409, "illegal-transition")
        assert "its adoption from Hudi is not finished; run chronolake hudi adopt again" in problem["detail"]
    lease = shared_http.post(f"{url}/publication/lease", json={"publisher": "p"})
    problem = refused(lease, 409, "not-published")
    assert "its adoption from Hudi is not finished" in problem["detail"]

    succeeded(shared_http.patch(url, json={"unset": ["hudi.adopting"]}))
    assert succeeded(shared_http.post(f"{url}/instants", json={"writer": "w", "action": "commit"}))
    again = shared_http.patch(url, json={"set": {"hudi.adopting": "0" * 64}})
    assert "cannot change" in refused(again, 422, "invalid-table")["detail"]
    assert table.name == name
