"""Well-formed requests that the state of the served, or they themselves, contradict."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from chronolake_model.file_names import bucket_file_id
from tests.server import rest
from tests.server.operations import TABLE
from tests.server.refusals import NEVER_BEGUN, ServedTable, operation
from tests.server.rest import Json, log_stat, succeeded, write_stat

CREATE_TABLE = operation("POST", "/v1/tables")
COMPLETE = operation("POST", "/v1/tables/{table}/instants/{requested_time}/complete")


# ---------------------------------------------------------------------------------- transitions


@pytest.mark.parametrize(
    ("state", "verb", "status", "code"),
    [
        ("requested", "complete", 409, "illegal-transition"),
        ("inflight", "inflight", 409, "illegal-transition"),
        ("completed", "inflight", 409, "illegal-transition"),
        ("completed", "complete", 409, "illegal-transition"),
        ("completed", "heartbeat", 409, "illegal-transition"),
        ("completed", "rollback", 409, "illegal-transition"),
        ("rolled_back", "inflight", 410, "instant-rolled-back"),
        ("rolled_back", "complete", 410, "instant-rolled-back"),
        ("rolled_back", "heartbeat", 410, "instant-rolled-back"),
    ],
)
def test_an_illegal_transition_is_refused_and_names_the_state(
    served: ServedTable, state: str, verb: str, status: int, code: str
) -> None:
    requested_time = getattr(served, state)
    tried = operation("POST", f"/v1/tables/{{table}}/instants/{{requested_time}}/{verb}")
    before = served.timelines()

    body = None if tried.body is None else tried.body(requested_time)
    problem = served.check_problem(tried, served.send(tried, path=tried.path(requested_time), json=body))

    assert (problem.status, problem.code, problem.context["state"]) == (status, code, state)
    assert served.timelines() == before


@pytest.mark.parametrize(
    ("state", "verb", "after"),
    [
        ("requested", "inflight", "inflight"),
        ("requested", "heartbeat", "requested"),
        ("requested", "rollback", "rolled_back"),
        ("inflight", "complete", "completed"),
        ("inflight", "heartbeat", "inflight"),
        ("inflight", "rollback", "rolled_back"),
        ("rolled_back", "rollback", "rolled_back"),
    ],
)
def test_a_legal_transition_is_made(served: ServedTable, state: str, verb: str, after: str) -> None:
    table = rest.make_table(served.http)
    requested_time = table.begun(inflight=state != "requested")
    if state == "rolled_back":
        succeeded(table.roll_back(requested_time))
    tried = operation("POST", f"/v1/tables/{{table}}/instants/{{requested_time}}/{verb}")

    body = None if tried.body is None else tried.body(requested_time)
    if body is not None and verb == "complete":
        # A commit replaces nothing and cleans nothing.
        del body["replaced_file_groups"], body["cleaned_before"]
    answer = served.send(tried, path=tried.path(requested_time, table=table.name), json=body)

    assert succeeded(answer)["state"] == after


@pytest.mark.parametrize(
    "action", ["deltacommit", "compaction", "savepoint", "rollback", "logcompaction", "restore"]
)
def test_an_action_that_the_table_does_not_take_is_refused(refuse: Callable[..., None], action: str) -> None:
    begin = operation("POST", "/v1/tables/{table}/instants")

    refuse(begin, 422, "action-not-supported", json={"writer": "w", "action": action})


# ---------------------------------------------------------------------------------- contradictory requests


@pytest.mark.parametrize(
    ("name", "status", "code"),
    [
        (TABLE, 409, "table-exists"),
        ("nothing.orders", 404, "namespace-not-found"),
    ],
)
def test_a_table_where_none_can_be_is_refused(
    refuse: Callable[..., None], name: str, status: int, code: str
) -> None:
    refuse(CREATE_TABLE, status, code, json=rest.table_body(name))


def test_a_namespace_that_exists_is_refused(refuse: Callable[..., None]) -> None:
    refuse(operation("POST", "/v1/namespaces"), 409, "namespace-exists", json={"name": "shop"})


def test_a_namespace_that_holds_tables_is_not_dropped(refuse: Callable[..., None]) -> None:
    refuse(operation("DELETE", "/v1/namespaces/{namespace}"), 409, "namespace-not-empty")


def column(type_: str, name: str = "extra") -> Json:
    """A schema with one column more."""
    return {"schema": [*rest.SCHEMA, {"name": name, "type": type_}]}


@pytest.mark.parametrize(
    "contradiction",
    [
        column("string", "id"),
        column("string", "ID"),
        column("string", "_hoodie_file_name"),
        column("varchar"),
        column("decimal"),
        column("decimal(39,0)"),
        column("decimal(5,6)"),
        column("decimal(0,0)"),
        column("decimal(99999999999999999999,1)"),
        column("array"),
        column("array<int"),
        column("array<int>>"),
        column("map<int>"),
        column("struct<>"),
        column("struct<a int>"),
        column(" "),
        column("é"),
        column("array<" * 33 + "int" + ">" * 33),
        column("array<" * 9_000),
        column("`" * 60_001),
        {"record_key_fields": ["nothing"]},
        {"record_key_fields": ["id", "id"]},
        {"record_key_fields": ["ID"]},
        {"partition_fields": ["nothing"]},
        {"partition_fields": ["day", "day"]},
        {"ordering_field": "nothing"},
        column("double") | {"record_key_fields": ["extra"]},
        column("Float") | {"partition_fields": ["extra"]},
        {
            "schema": [{"name": "a,b", "type": "int"}, {"name": "c", "type": "int"}],
            "record_key_fields": ["a,b", "c"],
            "partition_fields": [],
            "ordering_field": None,
        },
        {
            "schema": [{"name": "a", "type": "int"}, {"name": "x:,x", "type": "int"}],
            "record_key_fields": ["a", "x:,x"],
            "partition_fields": [],
            "ordering_field": None,
        },
        column("binary") | {"partition_fields": ["extra"]},
        column("array<int>") | {"ordering_field": "extra"},
        column(" MAP < int , int > ") | {"record_key_fields": ["extra"]},
        {"properties": {"storage.secret_key": "hunter2"}},
        {"properties": {"storage.acces_key": "k"}},
    ],
    ids=lambda changes: json.dumps(changes)[-60:],
)
def test_a_table_that_contradicts_itself_is_refused(refuse: Callable[..., None], contradiction: Json) -> None:
    refuse(CREATE_TABLE, 422, "invalid-table", json=rest.table_body("shop.new", **contradiction))


def _renamed(requested_time: str, name: str) -> Json:
    return write_stat(requested_time, file_name=name.replace("TIME", requested_time))


MISFITS: dict[str, Callable[[str], list[Json]]] = {
    "another instant in the name": lambda time: [write_stat(NEVER_BEGUN)],
    "20 digits in the name": lambda time: [write_stat(time + "000")],
    "another file id in the name": lambda time: [write_stat(time) | {"file_id": bucket_file_id(1)}],
    "no data file": lambda time: [_renamed(time, "data.parquet")],
    "no write token": lambda time: [_renamed(time, f"{bucket_file_id(0)}_TIME.parquet")],
    "another ending": lambda time: [_renamed(time, f"{bucket_file_id(0)}_0-0-0_TIME.orc")],
    "a folder in the name": lambda time: [_renamed(time, f"../{bucket_file_id(0)}_0-0-0_TIME.parquet")],
    "a line feed in the name": lambda time: [_renamed(time, f"{bucket_file_id(0)}_0-0-0_TIME.parquet\n")],
    "an unknown bucket": lambda time: [write_stat(time, bucket=4)],
    "no bucket": lambda time: [
        write_stat(time) | {"file_id": "abcdefgh-0", "file_name": f"abcdefgh-0_0-0-0_{time}.parquet"}
    ],
    "a bucket of one digit": lambda time: [
        write_stat(time) | {"file_id": "1", "file_name": f"1_0-0-0_{time}.parquet"}
    ],
    "a partition in an unpartitioned table": lambda time: [write_stat(time, partition_path="day=1")],
    "a parent folder": lambda time: [write_stat(time, partition_path="day=1/..")],
    "an absolute folder": lambda time: [write_stat(time, partition_path="/day=1")],
    "a log file on copy-on-write": lambda time: [log_stat(time)],
    "one file twice": lambda time: [write_stat(time), write_stat(time)],
    "bounds of another type": lambda time: [write_stat(time, column_stats=[{"field_id": 1, "max": "9"}])],
    "stats of no column": lambda time: [write_stat(time, column_stats=[{"field_id": 99}])],
    "two base files of a group": lambda time: [
        write_stat(time),
        _renamed(time, f"{bucket_file_id(0)}_0-0-1_TIME.parquet"),
    ],
}


@pytest.mark.parametrize("stats", MISFITS.values(), ids=MISFITS.keys())
def test_a_write_stat_that_does_not_fit_is_refused(
    served: ServedTable, refuse: Callable[..., None], stats: Callable[[str], list[Json]]
) -> None:
    refuse(COMPLETE, 422, "invalid-write-stat", json={"write_stats": stats(served.inflight)})


@pytest.mark.parametrize(
    "partition_path", ["", "/", "a/", "/a", "a//b", ".", "..", "a/../b", "a/./b", "../../etc", "é" * 3_000]
)
def test_a_partition_path_that_is_none_is_refused(served: ServedTable, partition_path: str) -> None:
    table = rest.make_table(served.http, partition_fields=["day"])
    requested_time = table.begun()

    answer = table.complete(requested_time, write_stat(requested_time, partition_path=partition_path))

    rest.refused(answer, 422, "invalid-write-stat")
    assert table.state(requested_time) == "inflight"


def test_totals_beyond_64_bits_are_added_up(served: ServedTable) -> None:
    table = rest.make_table(served.http)
    requested_time = table.begun()
    stats = [write_stat(requested_time, bucket, size_bytes=2**62) for bucket in range(4)]

    completed = succeeded(table.complete(requested_time, *stats))

    assert completed["summary"]["size_bytes"] == 2**64
    shown = served.http.get(f"/v1/tables/{table.name}/instants/{requested_time}")
    assert succeeded(shown)["summary"]["size_bytes"] == 2**64
