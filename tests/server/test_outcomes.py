"""Every outcome is knowable: refusals are recorded and replayed as answers are, and each can be looked up.

Promise 4 of docs/architecture.md; races for one key are in test_idempotency.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import httpx
import pytest
from hypothesis import given, strategies as st

from chronolake_metastore import errors
from tests.fix_server import ServerProcess
from tests.server import database, rest
from tests.server.refusals import FUZZ
from tests.server.rest import Json, Table, keyed, marker, new_key, refused, succeeded, write_stat

SENDS = 8
PRINTABLE = "".join(chr(code) for code in range(0x21, 0x7F))
KEYS = (
    st.from_regex(r"[\x21-\x7e]([\x20-\x7e]{0,40}[\x21-\x7e])?", fullmatch=True)
    .filter(lambda key: key.strip("/"))
    .map(lambda key: key[:255])
)


def look_up(http: httpx.Client, key: str) -> httpx.Response:
    """Look up the outcome of a request."""
    return http.get(f"/v1/outcomes/{quote(key, safe='').replace('.', '%2E')}")


def answers(response: httpx.Response) -> tuple[int, str, bytes]:
    """The parts of a response that a retry must get again."""
    return response.status_code, response.headers["content-type"], response.content


# ---------------------------------------------------------------------------------- refusals

Refusing = Callable[[Table, str], httpx.Response]
"""Sends, under a key, a command on a table that will be refused."""


def _missing(table: Table) -> str:
    """A namespace that is not there, unless the test makes it."""
    return f"{table.name.partition('.')[0]}_not"


def _conflicting(table: Table, key: str) -> httpx.Response:
    loser, winner = table.begun(), table.begun()
    succeeded(table.complete(winner, write_stat(winner)))
    return table.complete(loser, write_stat(loser), key=key)


def _rolled_back(table: Table, key: str) -> httpx.Response:
    gone = table.begun()
    succeeded(table.roll_back(gone, reason="given up"))
    return table.heartbeat(gone, key=key)


def _savepointed(table: Table, key: str) -> httpx.Response:
    path = f"/v1/tables/{table.name}"
    pinned = []
    for _ in range(2):
        succeeded(table.complete(table.begun()))
        pinned.append(succeeded(table.http.post(f"{path}/savepoints", json={"writer": "w"})))
    body = {"writer": "w", "savepoint": pinned[0]["requested_time"]}
    return _post(table.http, f"{path}/restore", body, key)


def _unreconciled(table: Table, key: str) -> httpx.Response:
    writing = table.begun()
    table.marked(writing, marker(writing))
    return table.complete(writing, key=key)


def _never_marked(table: Table, key: str) -> httpx.Response:
    writing = table.begun()
    return table.report(writing, marker(writing), key=key)


def _undeleted(table: Table, key: str) -> httpx.Response:
    for _ in range(2):
        writing = table.begun()
        succeeded(table.complete(writing, write_stat(writing)))
    planned = table.http.post(f"/v1/tables/{table.name}/cleans", json={"writer": "w", "retain_commits": 1})
    return table.complete(succeeded(planned)["clean"]["requested_time"], key=key)


def _drop_column(table: Table, key: str, column: str, **body: object) -> httpx.Response:
    changes = [{"change": "drop", "name": column}]
    return _post(table.http, f"/v1/tables/{table.name}/schema", {"changes": changes} | body, key)


def _delete(http: httpx.Client, path: str, key: str) -> httpx.Response:
    return http.delete(path, headers=keyed(key))


def _post(http: httpx.Client, path: str, body: Json, key: str) -> httpx.Response:
    return http.post(path, json=body, headers=keyed(key))


def _begin_unpublished(table: Table, key: str) -> httpx.Response:
    """Begin a compaction on a table whose publisher has not published its plan: it is refused."""
    compacted = rest.make_table(table.http, type="merge_on_read", ordering_field=None)
    writing = compacted.begun(action="deltacommit")
    succeeded(compacted.complete(writing, write_stat(writing)))
    publisher = {"publisher": "p", "lease_seconds": 60}
    succeeded(table.http.post(f"/v1/tables/{compacted.name}/publication/lease", json=publisher))
    stat = write_stat(writing)
    group = {"partition_path": stat["partition_path"], "file_id": stat["file_id"]}
    return compacted.begin(key, action="compaction", plan={"file_groups": [group]})


REFUSALS: dict[str, Refusing] = {
    "not-published-yet": _begin_unpublished,
    "namespace-not-found": lambda table, key: _delete(table.http, f"/v1/namespaces/{_missing(table)}", key),
    "table-not-found": lambda table, key: Table(table.http, "shop.nothing").begin(key),
    "instant-not-found": lambda table, key: table.inflight("20260101000000000", key=key),
    "namespace-exists": lambda table, key: _post(
        table.http, "/v1/namespaces", {"name": table.name.partition(".")[0]}, key
    ),
    "namespace-not-empty": lambda table, key: _delete(
        table.http, f"/v1/namespaces/{table.name.partition('.')[0]}", key
    ),
    "table-exists": lambda table, key: _post(table.http, "/v1/tables", rest.table_body(table.name), key),
    "base-path-taken": lambda table, key: _post(
        table.http,
        "/v1/tables",
        rest.table_body(f"{table.name}3", base_path=rest.table_body(table.name)["base_path"]),
        key,
    ),
    "invalid-table": lambda table, key: _post(
        table.http, "/v1/tables", rest.table_body(f"{table.name}2", record_key_fields=["no"]), key
    ),
    "illegal-transition": lambda table, key: table.complete(table.begun(inflight=False), key=key),
    "lease-live": lambda table, key: table.roll_back(table.begun(), "another", key=key),
    "write-conflict": _conflicting,
    "instant-rolled-back": _rolled_back,
    "invalid-write-stat": lambda table, key: table.complete(
        table.begun(), write_stat("20260101000000000"), key=key
    ),
    "action-not-supported": lambda table, key: table.begin(key, action="compaction"),
    "invalid-plan": lambda table, key: table.begin(key, action="clustering"),
    "savepointed": _savepointed,
    "unreconciled-markers": _unreconciled,
    "invalid-deletion": _never_marked,
    "undeleted-files": _undeleted,
    "incompatible-schema": lambda table, key: _drop_column(table, key, "id"),
    "schema-changed": lambda table, key: _drop_column(table, key, "name", expected_schema_version=7),
}


def again(clients: list[httpx.Client], response: httpx.Response) -> httpx.Response:
    """The same request, byte for byte, to the other server."""
    request = response.request
    return clients[1].send(
        clients[1].build_request(
            request.method,
            request.url.raw_path.decode(),
            content=request.read(),
            headers={
                name: request.headers[name]
                for name in ("idempotency-key", "content-type")
                if name in request.headers
            },
        )
    )


@pytest.mark.parametrize("code", REFUSALS)
def test_a_refusal_is_given_again_byte_for_byte_although_its_reason_is_gone(
    tables: list[Table], clients: list[httpx.Client], code: str
) -> None:
    first = REFUSALS[code](tables[0], new_key())
    assert clients[0].delete(f"/v1/tables/{tables[0].name}").status_code == 204
    succeeded(clients[0].post("/v1/namespaces", json={"name": _missing(tables[0])}))

    repeated = again(clients, first)

    refused(first, first.status_code, code)
    assert answers(repeated) == answers(first)


@pytest.mark.parametrize("code", REFUSALS)
def test_a_refusal_can_be_looked_up(tables: list[Table], clients: list[httpx.Client], code: str) -> None:
    key = new_key()
    problem = REFUSALS[code](tables[0], key)

    outcome = succeeded(look_up(clients[1], key))

    assert (outcome["request_id"], outcome["status"]) == (key, problem.status_code)
    assert outcome["answer"] == problem.json()


@pytest.mark.parametrize("code", REFUSALS)
def test_a_refusal_leaves_a_row_for_auditors_and_no_event(
    tables: list[Table], shared_dsn: str, code: str
) -> None:
    key = new_key()
    problem = REFUSALS[code](tables[0], key).json()

    [row] = database.query(shared_dsn, "SELECT * FROM refusal WHERE request_id = %s", key)

    assert (row["code"], row["detail"]) == (code, problem["detail"])
    assert row["context"] == problem.get("context", {})
    assert (row["actor"], row["address"]) == ("anonymous", "127.0.0.1")
    assert database.query(shared_dsn, "SELECT 1 FROM event WHERE request_id = %s", key) == []


def test_the_refusals_of_these_tests_are_all_that_a_command_can_be_refused_with() -> None:
    kinds = (errors.NotFound, errors.Conflict, errors.Unprocessable)
    decided = {str(leaf.code) for kind in kinds for leaf in kind.__subclasses__()}
    decided |= {"instant-rolled-back"}
    decided -= {"outcome-not-found", "idempotency-key-reused"}
    # This refusal belongs to no command, so every caller may read it.
    decided -= {"schema-not-found", "reader-not-found", "invalid-filter", "invalid-marker"}
    decided -= {"metastore-moved", "base-path-shared", "not-published", "publication-fenced"}
    decided -= {"credentials-not-vended", "too-many-leases"}
    # The tests of locations try this, and those of streams these.
    decided -= {"location-not-allowed"}
    decided -= {"stream-not-found", "stream-fenced", "checkpoint-passed"}
    decided -= {"checkpoint-incomplete", "unknown-checkpoint", "may-conflict"}

    assert set(REFUSALS) == decided


def test_the_key_of_a_refusal_is_refused_to_another_request(tables: list[Table], shared_dsn: str) -> None:
    requested_time = tables[0].begun(inflight=False)
    key = new_key()
    refused(tables[0].complete(requested_time, key=key), 409, "illegal-transition")
    succeeded(tables[0].inflight(requested_time))
    before = database.contents(shared_dsn, *database.LOG)

    refused(
        tables[1].complete(requested_time, key=key, extra_metadata={"a": "b"}), 422, "idempotency-key-reused"
    )

    assert database.contents(shared_dsn, *database.LOG) == before
    assert tables[0].state(requested_time) == "inflight"


def test_a_refused_command_may_be_retried_with_a_new_key(tables: list[Table]) -> None:
    requested_time = tables[0].begun(inflight=False)
    refused(tables[0].complete(requested_time, key=new_key()), 409, "illegal-transition")
    succeeded(tables[0].inflight(requested_time))

    assert succeeded(tables[1].complete(requested_time, key=new_key()))["state"] == "completed"


def test_a_refusal_without_a_key_is_decided_anew_each_time(tables: list[Table]) -> None:
    requested_time = tables[0].begun(inflight=False)
    refused(tables[0].complete(requested_time), 409, "illegal-transition")
    succeeded(tables[0].inflight(requested_time))

    assert succeeded(tables[0].complete(requested_time))["state"] == "completed"


def test_a_request_sent_eight_times_at_once_is_refused_once(tables: list[Table], shared_dsn: str) -> None:
    requested_time = tables[0].begun(inflight=False)
    key = new_key()

    with ThreadPoolExecutor(SENDS) as threads:
        sent = [threads.submit(tables[number % 2].complete, requested_time, key=key) for number in range(SENDS)]
        given = {answers(response.result()) for response in sent}

    assert len(given) == 1
    assert len(database.query(shared_dsn, "SELECT 1 FROM refusal WHERE request_id = %s", key)) == 1


def test_of_a_refusal_and_a_success_under_one_key_only_the_first_takes_effect(
    tables: list[Table], clients: list[httpx.Client], shared_dsn: str
) -> None:
    keys = [new_key() for _ in range(SENDS)]
    nowhere = Table(clients[1], "shop.nothing")

    with ThreadPoolExecutor(2 * SENDS) as threads:
        here = [threads.submit(tables[0].begin, key) for key in keys]
        there = [threads.submit(nowhere.begin, key) for key in reversed(keys)]
        pairs = {
            (first.result().status_code, second.result().status_code)
            for first, second in zip(here, reversed(there), strict=True)
        }

    assert pairs <= {(201, 422), (422, 404)}
    recorded = database.query(shared_dsn, "SELECT code FROM outcome WHERE request_id = ANY (%s)", keys)
    assert len(recorded) == SENDS


def test_refusals_in_a_group_leave_their_neighbours_alone(tables: list[Table], shared_dsn: str) -> None:
    requested = [tables[0].begun(inflight=number % 2 == 0) for number in range(16)]

    with ThreadPoolExecutor(16) as threads:
        codes = list(threads.map(lambda time: tables[0].complete(time).status_code, requested))

    assert codes == [200, 409] * 8
    row = database.query(
        shared_dsn, "SELECT count(*) AS refusals FROM refusal WHERE table_name = %s", tables[0].name
    )
    assert row[0]["refusals"] == 8


def test_a_group_of_refusals_moves_no_clock(tables: list[Table], shared_dsn: str) -> None:
    before = database.contents(shared_dsn, "clock")

    refused(tables[0].inflight("20260101000000000"), 404, "instant-not-found")

    assert database.contents(shared_dsn, "clock") == before


def test_a_long_refusal_is_kept_whole_in_its_outcome_and_cut_for_auditors(
    clients: list[httpx.Client], shared_dsn: str
) -> None:
    table = rest.make_table(clients[0], partition_fields=["day"], index={"type": "bucket", "buckets": 100})
    loser, winner = table.begun(), table.begun()
    deep = f"day={'é' * 400}"
    succeeded(table.complete(winner, *(write_stat(winner, bucket, deep) for bucket in range(100))))
    key = new_key()

    problem = table.complete(loser, *(write_stat(loser, bucket, deep) for bucket in range(100)), key=key).json()

    assert len(succeeded(look_up(clients[1], key))["answer"]["context"]["file_groups"]) == 100
    [row] = database.query(shared_dsn, "SELECT context FROM refusal WHERE request_id = %s", key)
    assert row["context"]["winner"] == problem["context"]["winner"] == winner
    assert row["context"]["file_groups_in_common"] == 100
    assert len(row["context"]["file_groups"]) == 10
    assert len(json.dumps(row["context"], ensure_ascii=False).encode()) < 16_384


def test_a_server_does_not_answer_with_a_refusal_that_only_a_newer_one_knows(
    tables: list[Table], shared_dsn: str
) -> None:
    requested_time = tables[0].begun(inflight=False)
    key = new_key()
    tables[0].complete(requested_time, key=key)
    newer = '{"type":"Refused/1","code":"of-a-newer-server","detail":"because","context":{},"place":"/v1"}'
    database.query_nothing(
        shared_dsn,
        # The log refuses changes, so the row goes in under another key with the same fingerprint.
        f"""
        INSERT INTO outcome (
            request_id, fingerprint, table_id, version, code, result, chain_id, number, hash
        )
        SELECT
            '{key}-2', fingerprint, table_id, version, code, convert_to('{newer}', 'UTF8'),
            gen_random_uuid(), 1, sha256('')
        FROM outcome WHERE request_id = '{key}'
        """,
    )

    replayed = tables[1].complete(requested_time, key=f"{key}-2")

    assert "another release" in refused(replayed, 500, "internal-error")["detail"]
    assert "another release" in refused(look_up(tables[1].http, f"{key}-2"), 500, "internal-error")["detail"]


# ---------------------------------------------------------------------------------- looking up


def test_the_outcome_of_a_success_is_its_answer(tables: list[Table], clients: list[httpx.Client]) -> None:
    key = new_key()
    begun = succeeded(tables[0].begin(key=key))

    outcome = succeeded(look_up(clients[1], key))

    assert outcome.pop("recorded_at")
    assert outcome == {
        "request_id": key,
        "status": 201,
        "answer": begun,
        "table": tables[0].name,
        "version": 2,
    }


def test_the_outcome_of_a_dropped_table_still_names_it(
    tables: list[Table], clients: list[httpx.Client]
) -> None:
    key = new_key()
    assert _delete(clients[0], f"/v1/tables/{tables[0].name}", key).status_code == 204

    outcome = succeeded(look_up(clients[1], key))

    assert (outcome["status"], outcome["answer"], outcome["table"]) == (204, None, tables[0].name)


def test_the_outcome_of_a_namespace_has_no_table(clients: list[httpx.Client]) -> None:
    key = new_key()
    succeeded(_post(clients[0], "/v1/namespaces", {"name": key}, key))

    outcome = succeeded(look_up(clients[1], key))

    assert (outcome["status"], outcome["table"], outcome["answer"]["name"]) == (201, None, key)
    assert outcome["version"] >= 1


def test_totals_beyond_64_bits_are_replayed_unchanged(tables: list[Table], clients: list[httpx.Client]) -> None:
    requested_time = tables[0].begun()
    key = new_key()
    stats = [write_stat(requested_time, bucket, size_bytes=2**62) for bucket in range(4)]
    answered = tables[0].complete(requested_time, *stats, key=key).content

    assert answered in look_up(clients[1], key).content


def test_a_command_under_way_has_no_outcome_yet(tables: list[Table], shared_dsn: str) -> None:
    key = new_key()

    with ThreadPoolExecutor(1) as threads:
        with database.clock_held(shared_dsn, tables[0].name):
            under_way = threads.submit(tables[0].begin, key)
            database.wait_for_waiting(shared_dsn, 1)
            refused(look_up(tables[1].http, key), 404, "outcome-not-found")
        succeeded(under_way.result())

    assert succeeded(look_up(tables[1].http, key))["status"] == 201


def test_a_request_without_a_decision_has_no_outcome(tables: list[Table], clients: list[httpx.Client]) -> None:
    key = new_key()
    refused(tables[0].begin(key=key, lease_seconds=0), 400, "invalid-request")

    problem = refused(look_up(clients[1], key), 404, "outcome-not-found")

    assert problem["context"] == {"request_id": key}
    assert succeeded(tables[0].begin(key=key))["state"] == "inflight"


def test_reads_and_invalid_requests_record_nothing(tables: list[Table], shared_dsn: str) -> None:
    before = database.contents(shared_dsn, *database.LOG)

    refused(tables[0].http.get("/v1/tables/shop.nothing"), 404, "table-not-found")
    refused(tables[0].begin(key=new_key(), lease_seconds=0), 400, "invalid-request")
    refused(tables[0].inflight("x", key=new_key()), 400, "invalid-parameter")

    assert database.contents(shared_dsn, *database.LOG) == before


@FUZZ
@given(key=KEYS)
def test_any_key_can_be_looked_up_by_its_exact_name(clients_for_keys: httpx.Client, key: str) -> None:
    # The request of the odd keys below: a key that both draw is a retry of one of them.
    answer = _delete(clients_for_keys, "/v1/namespaces/odd", key)
    assert answer.status_code == 404

    outcome = succeeded(look_up(clients_for_keys, key))

    assert (outcome["request_id"], outcome["answer"]) == (key, answer.json())


@pytest.mark.parametrize("key", ["..", ".", "a/../b", "/a", "a/", "a//b", "%2F", "a b", "?x=1", "#", PRINTABLE])
def test_an_odd_key_can_be_looked_up_by_its_exact_name(clients: list[httpx.Client], key: str) -> None:
    answer = _delete(clients[0], "/v1/namespaces/odd", key)
    assert answer.status_code == 404

    outcome = succeeded(look_up(clients[1], key))

    assert (outcome["request_id"], outcome["answer"]) == (key, answer.json())


@pytest.fixture(scope="module")
def clients_for_keys(shared_servers: tuple[ServerProcess, ServerProcess]) -> Iterator[httpx.Client]:
    """One client for many examples."""
    with rest.connect(shared_servers[0].url) as http:
        yield http


# ---------------------------------------------------------------------------------- crashes


def test_a_refusal_outlives_its_server(dsn: str, new_server: Callable[..., ServerProcess]) -> None:
    victim, heir = new_server(dsn), new_server(dsn)
    key = new_key()
    with rest.connect(victim.url) as to_victim, rest.connect(heir.url) as to_heir:
        table = rest.make_table(to_victim)
        requested_time = table.begun(inflight=False)
        first = table.complete(requested_time, key=key)
        victim.kill()
        heirs = Table(to_heir, table.name)
        succeeded(heirs.inflight(requested_time))
        repeated = heirs.complete(requested_time, key=key)

    assert answers(repeated) == answers(first)
    assert refused(first, 409, "illegal-transition")["context"]["state"] == "requested"


def test_the_code_of_each_refusal_finds_its_class_again() -> None:
    error = errors.of_code("lease-live", "w has it", {"writer": "w"})

    assert isinstance(error, errors.LeaseLive)
    assert (error.detail, error.context) == ("w has it", {"writer": "w"})
