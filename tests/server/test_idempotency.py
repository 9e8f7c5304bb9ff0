"""Every outcome is knowable: one effect and one answer for one key, through faults of servers and requests.

Promise 4 of docs/architecture.md.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import get_args

import httpx
import pytest

from chronolake_metastore.api.v1 import rendering
from chronolake_metastore.domain import results
from tests.fix_server import ServerProcess
from tests.server import database, rest
from tests.server.rest import Json, Table, keyed, new_key, refused, succeeded, write_stat

ENTRIES = json.loads(Path(__file__).with_name("recorded_results.json").read_text(encoding="utf-8"))
KEY = "a-key"

SENDS = 8


def send_at_once(clients: list[httpx.Client], path: str, body: Json | None, key: str) -> list[httpx.Response]:
    """The answers to one request, sent many times at once, by turns to each server."""
    with ThreadPoolExecutor(SENDS) as threads:
        sent = [
            threads.submit(clients[number % 2].post, path, json=body, headers=keyed(key))
            for number in range(SENDS)
        ]
        return [response.result() for response in sent]


def the_one_answer(answers: list[httpx.Response]) -> tuple[int, bytes]:
    """Status and body that all the answers share."""
    distinct = {(answer.status_code, answer.content) for answer in answers}
    assert len(distinct) == 1
    return distinct.pop()


def test_an_instant_begun_eight_times_at_once_is_one_instant(tables: list[Table], shared_dsn: str) -> None:
    key = new_key()
    clients = [table.http for table in tables]

    status, _ = the_one_answer(
        send_at_once(clients, f"/v1/tables/{tables[0].name}/instants", {"writer": "w"}, key)
    )

    assert status == 201
    log = database.events(shared_dsn, tables[0].name)
    assert [event["type"] for event in log] == ["TableCreated", "InstantRequested"]


@pytest.mark.parametrize(
    ("verb", "event_type"),
    [
        ("inflight", "InstantInflight"),
        ("heartbeat", "LeaseRenewed"),
        ("complete", "InstantCompleted"),
        ("rollback", "InstantRolledBack"),
    ],
)
def test_an_instant_changed_eight_times_at_once_changes_once(
    tables: list[Table], shared_dsn: str, verb: str, event_type: str
) -> None:
    requested_time = tables[0].begun(inflight=verb != "inflight")
    bodies: dict[str, Json | None] = {
        "inflight": None,
        "heartbeat": {},
        "complete": {"write_stats": [write_stat(requested_time)]},
        "rollback": {"writer": "w"},
    }

    status, _ = the_one_answer(
        send_at_once(
            [table.http for table in tables],
            f"/v1/tables/{tables[0].name}/instants/{requested_time}/{verb}",
            bodies[verb],
            new_key(),
        )
    )

    assert status == 200
    log = database.events(shared_dsn, tables[0].name)
    # A rollback is an instant of its own, which begins before the other's end and completes after it.
    around = (["InstantRequested"], ["InstantCompleted"]) if verb == "rollback" else ([], [])
    assert [event["type"] for event in log] == [
        "TableCreated",
        "InstantRequested",
        *around[0],
        event_type,
        *around[1],
    ]


@pytest.mark.parametrize("verb", ["inflight", "heartbeat"])
def test_a_body_left_out_is_the_same_request_as_an_empty_object(tables: list[Table], verb: str) -> None:
    requested_time = tables[0].begun(inflight=verb != "inflight")
    address = f"/v1/tables/{tables[0].name}/instants/{requested_time}/{verb}"
    key = keyed(new_key())

    left_out = tables[0].http.post(address, headers=key)
    empty = tables[0].http.post(address, json={}, headers=key)

    assert succeeded(left_out)["requested_time"] == requested_time
    assert empty.content == left_out.content


def test_a_replay_gets_the_first_answer_although_the_state_moved_on(tables: list[Table]) -> None:
    key = new_key()
    first = tables[0].begin(key=key)
    requested_time = succeeded(first)["requested_time"]
    succeeded(tables[0].complete(requested_time))

    again = tables[1].begin(key=key)

    assert (again.status_code, again.content) == (first.status_code, first.content)
    assert again.json()["state"] == "inflight"


def test_a_replay_is_answered_although_the_table_is_gone(tables: list[Table]) -> None:
    key = new_key()
    first = tables[0].begin(key=key)
    assert tables[0].http.delete(f"/v1/tables/{tables[0].name}").status_code == 204

    assert tables[1].begin(key=key).content == first.content


def test_a_body_written_in_another_way_is_the_same_request(tables: list[Table]) -> None:
    key = new_key()
    path = f"/v1/tables/{tables[0].name}/instants"
    headers = keyed(key) | {"Content-Type": "application/json"}
    first = tables[0].http.post(path, content=b'{"writer": "w", "action": "commit"}', headers=headers)

    again = tables[1].http.post(
        path, content=b'{\n"action":"commit",\n"lease_seconds":60, "writer":"\\u0077"}', headers=headers
    )

    assert succeeded(again) == succeeded(first)


def test_the_same_key_with_another_body_is_refused_and_has_no_effect(
    tables: list[Table], shared_dsn: str
) -> None:
    key = new_key()
    succeeded(tables[0].begin(key=key))
    before = database.contents(shared_dsn, *database.LOG)

    refused(tables[1].begin(key=key, lease_seconds=61), 422, "idempotency-key-reused")

    assert database.contents(shared_dsn, *database.LOG) == before


def test_of_two_tables_that_use_one_key_at_once_exactly_one_gets_it(
    tables: list[Table], clients: list[httpx.Client], shared_dsn: str
) -> None:
    other = rest.make_table(clients[1])
    keys = [new_key() for _ in range(SENDS)]

    with ThreadPoolExecutor(2 * SENDS) as threads:
        here = [threads.submit(tables[0].begin, key) for key in keys]
        there = [threads.submit(other.begin, key) for key in reversed(keys)]
        statuses = [
            {first.result().status_code, second.result().status_code}
            for first, second in zip(here, reversed(there), strict=True)
        ]

    assert statuses == [{201, 422}] * SENDS
    recorded = database.query(shared_dsn, "SELECT 1 FROM event WHERE request_id = ANY (%s)", keys)
    assert len(recorded) == SENDS


def test_a_command_whose_server_died_before_the_commit_takes_effect_once_by_retry(
    dsn: str, new_server: Callable[..., ServerProcess]
) -> None:
    victim, heir = new_server(dsn), new_server(dsn)
    key = new_key()
    with rest.connect(victim.url) as to_victim, rest.connect(heir.url) as to_heir:
        table = rest.make_table(to_victim)
        with ThreadPoolExecutor(1) as threads, database.clock_held(dsn, table.name):
            lost = threads.submit(table.begin, key)
            database.wait_for_waiting(dsn, 1)
            victim.kill()
            with pytest.raises(httpx.TransportError):
                lost.result()
        answer = Table(to_heir, table.name).begin(key=key)
        replayed = Table(to_heir, table.name).begin(key=key)

    assert succeeded(answer) == succeeded(replayed)
    assert [event["request_id"] for event in database.events(dsn, table.name)][1:] == [key]


def test_a_command_whose_server_died_after_the_commit_takes_effect_once(
    dsn: str, new_server: Callable[..., ServerProcess]
) -> None:
    victim, heir = new_server(dsn), new_server(dsn)
    with rest.connect(victim.url) as to_victim, rest.connect(heir.url) as to_heir:
        table = rest.make_table(to_victim)
        requested_time = table.begun()
        key = new_key()
        first = table.complete(requested_time, write_stat(requested_time), key=key)
        victim.kill()
        again = Table(to_heir, table.name).complete(requested_time, write_stat(requested_time), key=key)

    assert (again.status_code, again.content) == (first.status_code, first.content)
    assert [event["request_id"] for event in database.events(dsn, table.name)].count(key) == 1


def test_a_server_whose_connection_is_cut_in_a_command_carries_it_out_once(
    dsn: str, server: ServerProcess, http: httpx.Client
) -> None:
    table = rest.make_table(http)
    key = new_key()

    with ThreadPoolExecutor(1) as threads:
        with database.clock_held(dsn, table.name):
            troubled = threads.submit(table.begin, key)
            database.wait_for_waiting(dsn, 1)
            assert database.sever(dsn) > 0
            database.wait_for_waiting(dsn, 1)
        answer = troubled.result()

    assert succeeded(answer)["state"] == "inflight"
    assert [event["request_id"] for event in database.events(dsn, table.name)][1:] == [key]


def test_a_request_without_a_key_gets_the_key_of_the_server(tables: list[Table]) -> None:
    http, name = tables[0].http, tables[0].name
    begun = tables[0].begin()
    missing = http.post(f"/v1/tables/{name}/instants/20200101000000000/complete", json={})
    malformed = http.post(f"/v1/tables/{name}/instants/x/complete", json={})

    key = begun.headers["Idempotency-Key"]
    assert succeeded(http.get(f"/v1/outcomes/{key}"))["answer"] == begun.json()
    refusal = refused(missing, 404, "instant-not-found")
    assert refusal["idempotency_key"] == missing.headers["Idempotency-Key"]
    assert succeeded(http.get(f"/v1/outcomes/{refusal['idempotency_key']}"))["answer"] == refusal
    problem = refused(malformed, 400, "invalid-parameter")
    assert problem["idempotency_key"] == malformed.headers["Idempotency-Key"]


def test_a_request_with_a_key_gets_it_back_each_time(tables: list[Table]) -> None:
    key = new_key()

    answers = [tables[0].begin(key=key), tables[0].begin(key=key)]

    assert [answer.headers["Idempotency-Key"] for answer in answers] == [key, key]
    assert "Idempotency-Key" not in tables[0].http.get("/v1/time").headers


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: json.loads(entry["result"])["type"])
def test_a_recorded_result_has_the_answer_that_it_always_had(entry: dict[str, str]) -> None:
    recorded = results.decode(KEY, entry["result"].encode())
    assert rendering.V1.render(recorded, KEY).decode() == entry["answer"]


def test_every_kind_of_result_has_an_answer_that_stays() -> None:
    kinds = {kind.__struct_config__.tag for kind in get_args(results.AnyRecorded)}
    assert {json.loads(entry["result"])["type"] for entry in ENTRIES} == kinds
