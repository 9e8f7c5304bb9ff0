"""The answer to any invalid path, query, header or body is a documented problem, and nothing has changed."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import httpx
import msgspec
import pytest
from hypothesis import given, strategies as st
from litestar import Litestar

from chronolake_metastore.api import known_fields, parameters_in_openapi
from chronolake_metastore.app import create_app
from chronolake_metastore.settings import Settings
from chronolake_model.instants import BeginInstant
from chronolake_model.markers import CreateMarkers
from tests.fix_server import ServerProcess
from tests.server import operations, rest
from tests.server.operations import NEVER_BEGUN, OPERATIONS, TABLE, Operation, operation
from tests.server.refusals import FUZZ, JSON_VALUES, ServedTable, check_problem, cursor_of, named, request_of
from tests.server.rest import Json, Table, new_key, succeeded

MAX_BODY_BYTES = 2_048
SNAPSHOT = operation("GET", "/v1/tables/{table}/snapshot")
FEED = operation("GET", "/v1/events")
SCAN = operation("POST", "/v1/tables/{table}/scan")
CURSOR_TIME = operation("GET", "/v1/tables/{table}/cursor-time")
TIMELINE = operation("GET", "/v1/tables/{table}/instants")
JSON = {"Content-Type": "application/json"}
LISTS_OF_TABLES = {"/v1/tables", "/v1/health", "/v1/services"}
CURSORS = ("cursor", "after")
Refuse = Callable[..., None]


@pytest.fixture(scope="module")
def app() -> Litestar:
    """A server whose database cannot be reached: what it refuses has changed nothing."""
    return create_app(Settings(dsn="postgresql://nobody@127.0.0.1:1/nothing"))


def refuse_all(app: Litestar, tried: Operation, code: str, requests: Iterable[Json]) -> None:
    """Assert that each request is refused with 400 and this code."""

    async def send() -> None:
        transport = httpx.ASGITransport(app=app)  # type: ignore[arg-type]  # types of ASGI differ in names only
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as http:
            for request in requests:
                sent = request_of(tried, **{"path": tried.path(NEVER_BEGUN), **request})
                problem = check_problem(tried, await http.request(**sent))
                assert (problem.status, problem.code) == (400, code), (sent, problem)

    asyncio.run(send())


# Paths, queries and headers


@named(tuple(tried for tried in OPERATIONS if tried.parameters("path")))
def test_an_invalid_part_of_a_path_is_refused(app: Litestar, tried: Operation) -> None:
    paths = [
        tried.path(**{"requested_time": NEVER_BEGUN, name: operations.quoted(text)})
        for name, schema in tried.parameters("path").items()
        for text in operations.wrong_texts(schema)
        if text
    ]
    body = tried.body(NEVER_BEGUN)

    refuse_all(app, tried, "invalid-parameter", ({"path": path, "json": body} for path in paths))


@named(tuple(tried for tried in OPERATIONS if tried.parameters("query")))
def test_an_invalid_parameter_of_a_query_is_refused(app: Litestar, tried: Operation) -> None:
    wrong = (
        {"params": {name: text}}
        for name, schema in tried.parameters("query").items()
        if name not in CURSORS
        for text in operations.wrong_texts(schema)
        if text.isascii()
    )

    refuse_all(app, tried, "invalid-parameter", wrong)


@named(tuple(tried for tried in OPERATIONS if tried.parameters("header")))
def test_an_invalid_header_is_refused(app: Litestar, tried: Operation) -> None:
    body = tried.body(NEVER_BEGUN)
    wrong = (
        {"headers": [(name.encode(), text.encode(errors="surrogateescape"))], "json": body}
        for name, schema in tried.parameters("header").items()
        for text in (*operations.wrong_texts(schema), "a\tb")
        if not set(text) & {"\0", "\n"}
    )

    refuse_all(app, tried, "invalid-parameter", wrong)


@pytest.mark.parametrize(
    ("part", "code", "path"),
    [
        ("table", "table-not-found", {"table": "shop.nothing"}),
        ("namespace", "namespace-not-found", {"namespace": "nothing"}),
        ("key", "outcome-not-found", {}),
        *(
            ("requested_time", "instant-not-found", {"requested_time": time})
            for time in (NEVER_BEGUN, "00010101000000000", "99991231235959999", "20260101000000000001")
        ),
    ],
)
def test_what_was_never_there_is_not_found(
    served: ServedTable, refuse: Refuse, part: str, code: str, path: dict[str, str]
) -> None:
    for tried in operations.of(part):
        whole = {"requested_time": served.inflight} | path
        refuse(tried, 404, code, path=tried.path(**whole), json=tried.whole_body(whole["requested_time"]))


def test_tables_of_an_unknown_namespace_are_not_found(refuse: Refuse) -> None:
    refuse(operation("GET", "/v1/tables"), 404, "namespace-not-found", params={"namespace": "nothing"})


@pytest.mark.parametrize("path", ["/v1", "/v2/tables", "/v1/tables/shop%2Forders", "/v1/tables/%FF/x"])
def test_an_address_without_anything_is_not_found(served: ServedTable, path: str) -> None:
    response = served.http.get(path)

    assert response.status_code in (400, 404)
    assert response.headers["content-type"] == "application/problem+json"


@named(operations.COMMANDS)
def test_a_key_that_was_used_is_refused(served: ServedTable, tried: Operation) -> None:
    key = new_key()
    succeeded(Table(served.http, TABLE).begin(key=key, writer="somebody"))
    before = served.contents()

    answer = served.send(tried, json=tried.body(served.inflight), headers=rest.keyed(key))

    assert check_problem(tried, answer).code == "idempotency-key-reused"
    assert served.contents() == before


# Cursors


BAD_CURSORS = {
    "empty": "",
    "no base64": "!!!",
    "one letter": "x",
    "no ASCII": "%C3%A9",
    "no UTF-8": "%FF",
    "padded": f"{cursor_of(b'[1]')}==",
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
    "a leading zero": cursor_of(b'["0861",1]'),
    "a leading zero in a list": cursor_of(b'["c",["0861",1],true,"00000000-0000-0000-0000-000000000000"]'),
    "deep lists": cursor_of(b"[" * 5_000),
}


@named((*operations.LISTS, FEED, CURSOR_TIME, SCAN))
def test_a_cursor_that_no_list_gave_is_refused(served: ServedTable, refuse: Refuse, tried: Operation) -> None:
    for cursor in BAD_CURSORS.values():
        if tried is SCAN:
            refuse(tried, 400, "invalid-cursor", json={"cursor": httpx.QueryParams(f"c={cursor}")["c"]})
            continue
        path = tried.path(served.inflight).partition("?after")[0]
        name = CURSORS[tried not in operations.LISTS]
        refuse(tried, 400, "invalid-cursor", path=f"{path}{'&' if '?' in path else '?'}{name}={cursor}")


@named((*(tried for tried in operations.LISTS if tried.template != "/v1/namespaces"), FEED))
def test_a_cursor_with_a_part_too_few_or_too_many_is_refused(
    served: ServedTable, refuse: Refuse, tried: Operation
) -> None:
    page = succeeded(served.send(tried, params={"limit": 1}))
    given = page["cursor"] if tried is FEED else page["next_cursor"]
    place = json.loads(base64.urlsafe_b64decode(given + "===")) if given else ["v", 1]
    name = CURSORS[tried is FEED]

    for shape in (place[:-1], [*place, 1], place[1:], []):
        refuse(tried, 400, "invalid-cursor", params={name: cursor_of(json.dumps(shape).encode())})


@pytest.mark.parametrize("given_by", operations.LISTS, ids=str)
def test_a_cursor_of_another_list_is_refused(served: ServedTable, refuse: Refuse, given_by: Operation) -> None:
    cursor = succeeded(served.send(given_by, params={"limit": 1}))["next_cursor"]

    for tried in operations.LISTS:
        # The health and the services are lists of tables too.
        if tried != given_by and not {tried.template, given_by.template} <= LISTS_OF_TABLES:
            refuse(tried, 400, "invalid-cursor", params={"cursor": cursor})


# Details of the answers


@pytest.mark.parametrize(
    ("tried", "parameters", "detail"),
    [
        (SNAPSHOT, {"as_of": "00000101000000000"}, "no year 0000"),
        (SNAPSHOT, {"as_of": "20261301000000000"}, "no month 13"),
        (SNAPSHOT, {"as_of": "20260230000000000"}, "2026-02 has no day 30"),
        (SNAPSHOT, {"as_of": "20260101240000000"}, "no hour 24"),
        (SNAPSHOT, {"as_of": "20260101006000000"}, "no minute 60"),
        (SNAPSHOT, {"as_of": "20260101000060000"}, "seconds go from 00 to 59"),
        (SNAPSHOT, {"as_of": "20260101"}, "17 or 20 digits"),
        (TIMELINE, {"state": "foo"}, "'foo'; it is one of requested, inflight, completed, rolled_back"),
        (TIMELINE, {"direction": "foo"}, "direction: Invalid enum value 'foo'; it is one of asc, desc"),
        (TIMELINE, {"order_by": "foo"}, "it is one of requested_time, completion_time"),
        (TIMELINE, {"action": "foo"}, "it is one of commit, deltacommit"),
    ],
)
def test_the_refusal_of_a_parameter_names_what_is_wrong_or_what_it_takes(
    served: ServedTable, tried: Operation, parameters: dict[str, str], detail: str
) -> None:
    assert detail in rest.refused(served.send(tried, params=parameters), 400, "invalid-parameter")["detail"]


@pytest.mark.parametrize(
    ("body", "wanted", "advice"),
    [
        ('{"markers": [{"type": "x"}]}', CreateMarkers, "the fields are partition_path, file_name, kind"),
        ('{"plan": {"file_groups": [{"file": 1}]}}', BeginInstant, "the fields are partition_path, file_id"),
        ('{"inflght": true}', BeginInstant, "the fields are writer, action, operation, lease_seconds"),
        ('{"operation": "x"}', BeginInstant, "it is one of insert, upsert, bulk_insert"),
        ('{"writer": 1}', BeginInstant, ""),
    ],
)
def test_the_refusal_of_a_body_lists_the_known_fields(body: str, wanted: type, advice: str) -> None:
    with pytest.raises(msgspec.ValidationError) as refused:
        msgspec.json.decode(body, type=wanted)

    given_advice = known_fields.advice(str(refused.value), wanted)

    assert given_advice.startswith(f"; {advice}") if advice else not given_advice


def test_an_unknown_field_or_address_is_refused_with_the_known_ones(served: ServedTable) -> None:
    body, address = served.http.post("/v1/namespaces", json={"nme": "n"}), served.http.get("/v1/table")

    unknown = "body: Object contains unknown field `nme`; the fields are name, properties"
    assert body.json()["detail"] == unknown
    assert address.json()["detail"].endswith("; GET /openapi.json lists all addresses")


# Bodies


NOT_JSON = {
    "empty": b"",
    "a word": b"nonsense",
    "half an object": b'{"name": ',
    "two values": b"{} {}",
    "null": b"null",
    "a list": b"[]",
    "a text": b'"text"',
    "a number": b"1",
    "a huge number": b"9" * 5_000,
    "true": b"true",
    "no UTF-8": b"\xff\xfe",
    "no UTF-8 in a name": b'{"\xff": 1}',
    "no UTF-8 in a text": b'{"writer": "\xff", "name": "\xff"}',
    "deep lists": b"[" * 100_000,
    "deep objects": b'{"name":' * 100_000,
    "an unknown field": b'{"nobody_knows_this": 1}',
}
"""Bodies that no operation takes, but for an empty one where the body is optional."""


@named(operations.WITH_BODY)
def test_a_body_of_another_form_is_refused(app: Litestar, tried: Operation) -> None:
    unknown = json.dumps(tried.body(NEVER_BEGUN) | {"nobody_knows_this": 1}).encode()
    wrong = (raw for raw in (*NOT_JSON.values(), unknown) if raw or not tried.may_omit_body)

    refuse_all(app, tried, "invalid-request", ({"content": raw, "headers": JSON} for raw in wrong))


@named(operations.WITH_BODY)
def test_a_field_that_is_wrong_or_missing_is_refused(app: Litestar, tried: Operation) -> None:
    body = tried.whole_body(NEVER_BEGUN)
    places = [*operations.places(tried)]
    wrong = (
        {"content": operations.with_raw(body, place.at, raw), "headers": JSON}
        for place in places
        for raw in operations.wrong_values(place.schema)
        # A filter with it is refused with its place.
        if (place.at[0], raw) != ("filter", '"\\u0000"')
    )
    missing = ({"json": operations.without(body, place.at)} for place in places if place.is_required)

    refuse_all(app, tried, "invalid-request", (*wrong, *missing))


def test_the_document_has_the_patterns_of_times() -> None:
    """So a time in a body is among those that the test before takes from the document."""
    document = msgspec.json.encode(operations.DOCUMENT["components"])

    assert all(msgspec.json.encode(pattern) in document for pattern in parameters_in_openapi.PATTERNS.values())


@pytest.fixture(scope="module")
def narrow(
    shared_dsn: str, served: ServedTable, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[httpx.Client]:
    """A client of another server on the same database, which takes small bodies only."""
    log = tmp_path_factory.mktemp("narrow") / "server.log"
    server = ServerProcess(shared_dsn, log, "--max-body-bytes", str(MAX_BODY_BYTES))
    try:
        with rest.connect(server.start().url) as http:
            yield http
    finally:
        server.stop()


@named(operations.WITH_BODY)
def test_a_body_that_is_too_large_is_refused(
    served: ServedTable, narrow: httpx.Client, tried: Operation
) -> None:
    whole = json.dumps(tried.body(served.inflight)).encode().ljust(4 * MAX_BODY_BYTES)
    in_chunks: Any = iter([whole[:100], whole[100:]])
    before = served.contents()

    for content in (whole, in_chunks):
        response = narrow.request(tried.method, tried.path(served.inflight), content=content, headers=JSON)
        assert check_problem(tried, response).code == "body-too-large"

    assert served.contents() == before


@named(operations.WITH_BODY)
@FUZZ
@given(choice=st.data())
def test_no_change_of_a_valid_body_breaks_an_endpoint(
    served: ServedTable, tried: Operation, choice: st.DataObject
) -> None:
    at = choice.draw(st.sampled_from([place.at for place in operations.places(tried)]))
    body = operations.replaced(tried.whole_body(NEVER_BEGUN), at, choice.draw(JSON_VALUES))

    response = served.send(tried, path=tried.path(NEVER_BEGUN), content=json.dumps(body), headers=JSON)

    if not response.is_success:
        check_problem(tried, response)


# Tables


def column(type_: str, name: str = "extra") -> Json:
    """A schema with one column more."""
    return {"schema": [*rest.SCHEMA, {"name": name, "type": type_}]}


@pytest.mark.parametrize(
    "contradiction",
    [
        column("string", "id"),
        column("string", "ID"),
        column("string", "_hoodie_file_name"),
        column("decimal(99999999999999999999,1)"),
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
def test_a_table_that_contradicts_itself_is_refused(refuse: Refuse, contradiction: Json) -> None:
    refuse(
        operation("POST", "/v1/tables"), 422, "invalid-table", json=rest.table_body("shop.new", **contradiction)
    )
