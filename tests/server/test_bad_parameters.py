"""The answer to any invalid path, query or header is a documented problem, and nothing has changed."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from urllib.parse import quote, unquote

import pytest
from hypothesis import given, strategies as st

from tests.server import operations, rest
from tests.server.operations import OPERATIONS, TABLE, Operation
from tests.server.refusals import FUZZ, JSON_VALUES, NEVER_BEGUN, ServedTable, cursor_of, named, operation
from tests.server.rest import Table, new_key, succeeded

SNAPSHOT = operation("GET", "/v1/tables/{table}/snapshot")
CHANGES = operation("GET", "/v1/tables/{table}/changes")
FEED = operation("GET", "/v1/events")
CURSOR_TIME = operation("GET", "/v1/tables/{table}/cursor-time")
SCAN = operation("POST", "/v1/tables/{table}/scan")
LISTS_OF_PLACES = tuple(tried for tried in operations.LISTS if tried.template != "/v1/namespaces")
"""The cursor of the other is one text."""
HISTORY = operation("GET", "/v1/tables/{table}/file-groups/history")
PARTITIONS = operation("GET", "/v1/tables/{table}/partitions")
REPLACED = operation("GET", "/v1/tables/{table}/replaced-file-groups")
PENDING = operation("GET", "/v1/tables/{table}/pending-file-groups")
TIMELINE = operation("GET", "/v1/tables/{table}/instants")
OUTCOME = operation("GET", "/v1/outcomes/{key}")


# ---------------------------------------------------------------------------------- paths


BAD_TABLE_NAMES = (
    "orders",
    "shop.orders.more",
    ".orders",
    "shop.",
    "shop.or ders",
    "shop.orders;",
    "shop.-orders",
    "shop.órders",
    "shop.orders\n",
    "shop.orders\0",
    "x" * 129 + ".orders",
    "shop." + "x" * 5_000,
    "shop.' OR 1=1",
)
BAD_TIMES = (
    "2026010100000000",
    "202601010000000000",
    "20261301000000000",
    "20260230000000000",
    "20260101240000000",
    "20260101006000000",
    "20260101000060000",
    "00000101000000000",
    "2026010100000000x",
    "-0260101000000000",
    "\uff12026010100000000",
    "20260101000000000\n",
    "\0",
    "x" * 5_000,
)


@named(operations.OF_A_TABLE)
def test_an_invalid_table_name_is_refused(
    served: ServedTable, refuse: Callable[..., None], tried: Operation
) -> None:
    body = None if tried.body is None else tried.body(served.inflight)

    for name in BAD_TABLE_NAMES:
        path = tried.path(served.inflight, table=operations.quoted(name))
        refuse(tried, 400, "invalid-parameter", path=path, json=body)


@named(operations.OF_A_TABLE)
def test_an_unknown_table_is_not_found(
    served: ServedTable, refuse: Callable[..., None], tried: Operation
) -> None:
    body = None if tried.body is None else tried.body(served.inflight)

    refuse(tried, 404, "table-not-found", path=tried.path(served.inflight, table="shop.nothing"), json=body)


@named(operations.OF_A_NAMESPACE)
@pytest.mark.parametrize("name", ["a.b", "a b", "é", "\0", "-a", "x" * 129], ids=repr)
def test_an_invalid_namespace_is_refused(
    served: ServedTable, refuse: Callable[..., None], tried: Operation, name: str
) -> None:
    path = tried.path(served.inflight, namespace=operations.quoted(name))

    refuse(tried, 400, "invalid-parameter", path=path)


@named(operations.OF_A_NAMESPACE)
def test_an_unknown_namespace_is_not_found(
    served: ServedTable, refuse: Callable[..., None], tried: Operation
) -> None:
    refuse(tried, 404, "namespace-not-found", path=tried.path(served.inflight, namespace="nothing"))


@named(operations.OF_AN_INSTANT)
def test_an_invalid_time_is_refused(served: ServedTable, refuse: Callable[..., None], tried: Operation) -> None:
    body = None if tried.body is None else tried.body(served.inflight)

    for time in BAD_TIMES:
        refuse(tried, 400, "invalid-parameter", path=tried.path(operations.quoted(time)), json=body)


@named(operations.OF_AN_INSTANT)
def test_an_instant_that_was_never_begun_is_not_found(refuse: Callable[..., None], tried: Operation) -> None:
    for time in (NEVER_BEGUN, "00010101000000000", "99991231235959999", "20260101000000000001"):
        body = None if tried.body is None else tried.body(time)
        refuse(tried, 404, "instant-not-found", path=tried.path(time), json=body)


@pytest.mark.parametrize("key", ["é", "\0", " a", "a ", "\x7f", "x" * 256, "\t", "\udcff"], ids=ascii)
def test_an_invalid_key_is_refused(served: ServedTable, refuse: Callable[..., None], key: str) -> None:
    quoted = quote(key, safe="", errors="surrogateescape")

    refuse(OUTCOME, 400, "invalid-parameter", path=OUTCOME.path(served.inflight, key=quoted))


def test_an_unused_key_is_not_found(refuse: Callable[..., None]) -> None:
    refuse(OUTCOME, 404, "outcome-not-found")


@pytest.mark.parametrize(
    "path",
    ["/v1", "/v2/tables", "/v1/tables/shop%2Forders", "/v1/tables/%FF/x"],
)
def test_an_address_without_anything_is_not_found(served: ServedTable, path: str) -> None:
    response = served.http.get(path)

    assert response.status_code in (400, 404)
    assert response.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE"])
def test_a_method_that_an_address_does_not_take_is_refused(served: ServedTable, method: str) -> None:
    response = served.http.request(method, "/v1/tables")

    assert rest.refused(response, 405, "method-not-allowed")
    assert "POST" in response.headers["allow"]


# ---------------------------------------------------------------------------------- queries


@named(operations.LISTS)
def test_a_limit_out_of_bounds_is_refused(
    served: ServedTable, refuse: Callable[..., None], tried: Operation
) -> None:
    for limit in ("0", "-1", "1000000", "9" * 40, "x", "1.5", "", "NaN", "%00"):
        refuse(tried, 400, "invalid-parameter", path=f"{tried.path(served.inflight)}?limit={limit}")


BAD_CURSORS = {
    "no base64": "!!!",
    "one letter": "x",
    "no ASCII": "%C3%A9",
    "no UTF-8": "%FF",
    "NUL": "%00",
    "not JSON": cursor_of(b"nonsense"),
    "no UTF-8 inside": cursor_of(b'"\xff"'),
    "no UTF-8 inside lists": cursor_of(b'["\xff","\xff"]'),
    "null": cursor_of(b"null"),
    "an object": cursor_of(b"{}"),
    "an empty list": cursor_of(b"[]"),
    "a huge number": cursor_of(b"[" + b"9" * 40 + b"]"),
    "a negative number": cursor_of(b"[-1]"),
    "huge numbers": cursor_of(b'[999999999999999999,999999999999999999,["a","b"]]'),
    "NUL in a text": cursor_of(b'"\\u0000"'),
    "NUL in texts": cursor_of(b'["\\u0000","\\u0000"]'),
    "NUL in a group": cursor_of(b'[1,["\\u0000","\\u0000"]]'),
    "deep lists": cursor_of(b"[" * 5_000),
}


@named(operations.LISTS)
def test_a_cursor_that_no_list_gave_is_refused(
    served: ServedTable, refuse: Callable[..., None], tried: Operation
) -> None:
    for cursor in BAD_CURSORS.values():
        refuse(tried, 400, "invalid-cursor", path=f"{tried.path(served.inflight)}?cursor={cursor}")


@pytest.mark.parametrize("cursor", BAD_CURSORS.values(), ids=BAD_CURSORS.keys())
def test_a_cursor_that_no_list_gave_is_refused_wherever_else_one_is_taken(
    refuse: Callable[..., None], cursor: str
) -> None:
    refuse(FEED, 400, "invalid-cursor", path=f"/v1/events?after={cursor}")
    refuse(FEED, 400, "invalid-cursor", path=f"/v1/events?table={TABLE}&after={cursor}")
    refuse(HISTORY, 400, "invalid-cursor", path=f"{HISTORY.path(NEVER_BEGUN)}&cursor={cursor}")
    refuse(CURSOR_TIME, 400, "invalid-cursor", path=f"/v1/tables/{TABLE}/cursor-time?after={cursor}")
    code = "invalid-request" if cursor == "%00" else "invalid-cursor"
    refuse(SCAN, 400, code, json={"cursor": unquote(cursor)})


@pytest.mark.parametrize(
    "shape", [lambda place: place[:-1], lambda place: [*place, 1], lambda place: place[1:], lambda _: []]
)
@named((*LISTS_OF_PLACES, FEED))
def test_a_cursor_with_a_part_too_few_or_too_many_is_refused(
    served: ServedTable,
    refuse: Callable[..., None],
    tried: Operation,
    shape: Callable[[list[object]], list[object]],
) -> None:
    page = succeeded(served.send(tried, params={"limit": 1}))
    given = page["cursor"] if tried is FEED else page["next_cursor"]
    place = json.loads(base64.urlsafe_b64decode(given + "===")) if given else ["v", 1]
    name = "after" if tried is FEED else "cursor"

    refuse(tried, 400, "invalid-cursor", params={name: cursor_of(json.dumps(shape(place)).encode())})


@pytest.mark.parametrize("given_by", operations.LISTS, ids=str)
def test_a_cursor_of_another_list_is_refused(
    served: ServedTable, refuse: Callable[..., None], given_by: Operation
) -> None:
    cursor = succeeded(served.send(given_by, params={"limit": 1}))["next_cursor"]

    for tried in operations.LISTS:
        if tried != given_by:
            refuse(tried, 400, "invalid-cursor", params={"cursor": cursor})


@pytest.mark.parametrize(
    ("tried", "parameter"),
    [
        (SNAPSHOT, "as_of"),
        (SNAPSHOT, "before_or_on"),
        (PARTITIONS, "as_of"),
        (REPLACED, "as_of"),
        (PENDING, "as_of"),
        (CHANGES, "from"),
        (CHANGES, "to"),
        (TIMELINE, "requested_from"),
        (TIMELINE, "requested_to"),
        (TIMELINE, "completed_from"),
        (TIMELINE, "completed_to"),
    ],
    ids=str,
)
def test_a_time_in_a_query_that_is_none_is_refused(
    refuse: Callable[..., None], tried: Operation, parameter: str
) -> None:
    for time in (*BAD_TIMES, ""):
        refuse(tried, 400, "invalid-parameter", params={parameter: time})


@pytest.mark.parametrize(
    ("tried", "query"),
    [
        (TIMELINE, "state=nonsense"),
        (TIMELINE, "state="),
        (TIMELINE, "state=completed&state=nonsense"),
        (TIMELINE, "action=nonsense"),
        (TIMELINE, "order_by=nonsense"),
        (TIMELINE, "direction=up"),
        (SNAPSHOT, "partition_path=%00"),
        (SNAPSHOT, "view=newest"),
        (SNAPSHOT, "view="),
        (SNAPSHOT, "view=latest&before_or_on=x"),
        (operation("GET", "/v1/tables"), "namespace=a.b"),
        (operation("GET", "/v1/tables"), "namespace="),
        (operation("GET", "/v1/tables"), "namespace=%00"),
    ],
    ids=str,
)
def test_a_filter_that_makes_no_sense_is_refused(
    served: ServedTable, refuse: Callable[..., None], tried: Operation, query: str
) -> None:
    refuse(tried, 400, "invalid-parameter", path=f"{tried.path(served.inflight)}?{query}")


@pytest.mark.parametrize(
    "query",
    [
        "",
        "file_id=",
        "file_id=%00",
        "file_id=" + "x" * 256,
        "file_id=x&partition_path=%00",
        "file_id=x&as_of=x",
        "file_id=x&limit=0",
    ],
    ids=lambda query: query[:20],
)
def test_a_history_of_an_invalid_file_group_is_refused(
    served: ServedTable, refuse: Callable[..., None], query: str
) -> None:
    path = HISTORY.path(served.inflight).partition("?")[0]

    refuse(HISTORY, 400, "invalid-parameter", path=f"{path}?{query}")


def test_a_history_continues_with_its_own_cursor_only(served: ServedTable, refuse: Callable[..., None]) -> None:
    cursor = succeeded(served.send(SNAPSHOT, params={"limit": 1}))["next_cursor"]

    for other in (cursor, cursor_of(b"nonsense")):
        path = f"{HISTORY.path(served.inflight)}&cursor={other}"
        refuse(HISTORY, 400, "invalid-cursor", path=path)


def test_tables_of_an_unknown_namespace_are_not_found(refuse: Callable[..., None]) -> None:
    refuse(operation("GET", "/v1/tables"), 404, "namespace-not-found", params={"namespace": "nothing"})


# ---------------------------------------------------------------------------------- headers


@named(operations.COMMANDS)
def test_a_header_of_another_form_is_refused(
    served: ServedTable, refuse: Callable[..., None], tried: Operation
) -> None:
    body = None if tried.body is None else tried.body(served.inflight)

    for header in (b"Idempotency-Key", b"Chronolake-Actor"):
        for value in (b"", b"x" * 256, b"a\tb", b"\xff", "é".encode()):
            refuse(tried, 400, "invalid-parameter", json=body, headers=[(header, value)])


@named(operations.COMMANDS)
def test_a_key_that_was_used_is_refused(served: ServedTable, tried: Operation) -> None:
    key = new_key()
    succeeded(Table(served.http, TABLE).begin(key=key, writer="somebody"))
    before = served.contents()
    body = None if tried.body is None else tried.body(served.inflight)

    problem = served.check_problem(tried, served.send(tried, json=body, headers=rest.keyed(key)))

    assert problem.code == "idempotency-key-reused"
    assert served.contents() == before


# ---------------------------------------------------------------------------------- fuzz


@named(operations.LISTS)
@FUZZ
@given(cursor=JSON_VALUES)
def test_no_cursor_breaks_a_list(served: ServedTable, tried: Operation, cursor: object) -> None:
    response = served.send(tried, params={"cursor": cursor_of(json.dumps(cursor).encode())})

    if not response.is_success:
        served.check_problem(tried, response)


@named(OPERATIONS)
@FUZZ
@given(segment=st.text(min_size=1, max_size=30))
def test_no_path_breaks_an_endpoint(served: ServedTable, tried: Operation, segment: str) -> None:
    quoted = operations.quoted(segment)
    path = tried.path(quoted, table=quoted, namespace=quoted, key=quoted)

    response = served.send(tried, path=path, json={})

    assert response.status_code < 500, response.text


# ---------------------------------------------------------------------------------- details of the answers


@pytest.mark.parametrize(
    ("time", "detail"),
    [
        ("00000101000000000", "no year 0000"),
        ("20261301000000000", "no month 13"),
        ("20260230000000000", "2026-02 has no day 30"),
        ("20260101240000000", "no hour 24"),
        ("20260101006000000", "no minute 60"),
        ("20260101000060000", "seconds go from 00 to 59"),
        ("20260101", "17 or 20 digits"),
    ],
)
def test_the_refusal_names_the_wrong_part_of_a_time(served: ServedTable, time: str, detail: str) -> None:
    problem = rest.refused(served.send(SNAPSHOT, params={"as_of": time}), 400, "invalid-parameter")

    assert detail in problem["detail"]


@pytest.mark.parametrize(
    ("parameter", "words"),
    [
        ("state", "requested, inflight, completed, rolled_back"),
        ("direction", "asc, desc"),
        ("order_by", "requested_time, completion_time"),
        ("action", "commit, deltacommit"),
    ],
)
def test_the_words_that_a_parameter_takes_are_listed(served: ServedTable, parameter: str, words: str) -> None:
    problem = rest.refused(served.send(TIMELINE, params={parameter: "foo"}), 400, "invalid-parameter")

    assert problem["detail"].startswith(f"{parameter}: Invalid enum value 'foo'; it is one of {words}")


def test_null_is_no_number_in_a_query(table: Table) -> None:
    answer = table.http.get(f"/v1/tables/{table.name}/unswept", params={"grace_seconds": "null"})

    rest.refused(answer, 400, "invalid-parameter")
