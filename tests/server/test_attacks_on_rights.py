"""Attacks on rights by callers with a role elsewhere: other catalogs let them through.

The numbers are those of ``attacks.py``.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import httpx
import pytest
from litestar.routes import HTTPRoute

from chronolake_metastore import errors
from chronolake_metastore.app import create_app
from chronolake_metastore.commands import group
from chronolake_metastore.domain.context import Context
from chronolake_metastore.domain.namespaces import CreateNamespace
from chronolake_metastore.domain.rights import UNLIMITED, Rights
from chronolake_metastore.domain.subjects import Reason, Subject
from chronolake_metastore.service.callers_rights import RIGHTS_SECONDS, CallersRights
from chronolake_metastore.settings import Settings
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.postgres.transaction import Session
from chronolake_model import operations as declared
from chronolake_model.roles import Right, Role
from chronolake_model.times import Micros
from tests.server import access, database, operations, rest
from tests.server.access import AccessServer
from tests.server.operations import COMMANDS, NEVER_BEGUN, Operation
from tests.server.rest import Json, refused, succeeded

OWN: Final = "own.orders"
SECRET: Final = "secret.orders"
OF_TABLES = operations.of("table")


class Lake:
    """A server with two tables. ``caller`` is an admin of one, and of names that are like that of the other."""

    def __init__(self, server: AccessServer) -> None:
        self.server = server
        self.ids = {name: self._make_table(name) for name in (OWN, SECRET)}
        self.caller = server.caller("caller", own=Role.ADMIN, secret_2=Role.ADMIN)
        self.caller.grant(Role.ADMIN, f"{SECRET}_*")
        self.reader = server.caller("reader", own=Role.READER)

    def _make_table(self, name: str) -> str:
        rest.make_table(self.server.admin, name)
        table_id: str = succeeded(self.server.admin.get(f"/v1/tables/{name}"))["table_id"]
        return table_id

    def events(self) -> int:
        """The number of events of tables and of the catalog."""
        [row] = database.query(self.server.dsn, "SELECT count(*) AS events FROM event")
        return int(row["events"])


@pytest.fixture(scope="module")
def lake(shared_dsn: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with access.running(shared_dsn, tmp_path_factory.mktemp("attacks")) as server:
        yield Lake(server)


@pytest.fixture
def without_effect(lake: Lake) -> Iterator[None]:
    """No request of the test changes anything."""
    before = lake.events()
    yield
    assert lake.events() == before


READS: Final = {
    *("completion-times", "clean-plans", "scan", "file-groups", "can-i", "instants/{requested_time}/conflicts"),
    *("readers", "readers/{lease_id}", "readers/{lease_id}/heartbeat"),
}
"""The paths to which readers may send more than GET: they ask, or have leases of readers."""


OF_RIGHTS: Final = {
    Right.DEFINE: {
        *("POST namespaces", "DELETE namespaces/{namespace}", "POST tables", "POST tables/dry-run"),
        *("POST tables/adopt", "POST tables/adopt/dry-run", "PATCH tables/{table}", "DELETE tables/{table}"),
        "POST schema",
    },
    Right.GRANT: {"POST grants", "POST grants/revoke"},
    Right.MAINTAIN: {
        *("POST restore", "POST cleans", "POST services/plan", "POST deletable", "GET readers"),
        *("POST publication/lease", "POST publication", "POST publication/history"),
        *(f"POST instants/{{requested_time}}/{end}" for end in ("deletable", "deletions", "sweep")),
    },
}
"""Operations that writers may not send, by the right that each needs."""


@pytest.mark.parametrize("right", OF_RIGHTS)
def test_t23_an_operation_needs_the_right_of_what_it_does(right: Right) -> None:
    paths = {f"{of.method} {of.path.removeprefix('/v1/')}" for of in declared.ALL if of.right is right}
    shortened = {path.replace(" tables/{table}/", " ") for path in paths}

    assert shortened == OF_RIGHTS[right]


def test_t23_t57_readers_change_nothing_but_leases_of_readers() -> None:
    paths = {of.path for of in declared.ALL if of.right is Right.READ and of.method != "GET"}

    assert {path.removeprefix("/v1/").removeprefix("tables/{table}/") for path in paths} == READS


@pytest.mark.parametrize(
    ("end", "media_type"),
    [
        pytest.param(None, "application/json", id="without a body"),
        pytest.param(b"{", "application/json", id="malformed"),
        pytest.param(b" \r\n\t", "application/json", id="white space after it"),
        pytest.param(b"\0", "application/json", id="more after it"),
        pytest.param(b"", "text/plain", id="as text"),
        pytest.param(b"", "application/x-www-form-urlencoded", id="as a form"),
        pytest.param(b"", "", id="of no type"),
    ],
)
@pytest.mark.usefixtures("without_effect")
def test_t16_no_form_of_a_body_passes_the_check(lake: Lake, end: bytes | None, media_type: str) -> None:
    for tried in COMMANDS:
        body = tried.body(NEVER_BEGUN)
        sent = b"" if end is None else json.dumps(body).encode() + end
        path = tried.path(NEVER_BEGUN, table=OWN, namespace="own")
        answer = lake.reader.http.request(
            tried.method, path, content=sent, headers={"content-type": media_type}
        )
        assert answer.status_code in (400, 403, 404, 415, 422), (tried, answer.text)


@pytest.mark.parametrize("name", ["table", "tables", "name", "namespace", "table_id"])
@pytest.mark.usefixtures("without_effect")
def test_t17_a_name_beside_the_path_is_not_used(lake: Lake, name: str) -> None:
    for tried in OF_TABLES:
        path = tried.path(NEVER_BEGUN, table=SECRET)
        joined = f"{path}{'&' if '?' in path else '?'}{name}={OWN}"
        body = tried.body(NEVER_BEGUN)
        in_body = {**body, name: OWN} if isinstance(body, dict) else body
        for answer in (
            lake.caller.http.request(tried.method, joined, json=body),
            lake.caller.http.request(tried.method, path, json=in_body),
        ):
            assert answer.status_code in (400, 404, 422), (tried, answer.text)


@pytest.mark.usefixtures("without_effect")
def test_t18_t32_iceberg_clients_need_the_same_rights(lake: Lake) -> None:
    app = create_app(Settings(dsn=""))
    routes = [
        (method, route.path_format)
        for route in app.routes
        if isinstance(route, HTTPRoute)
        and "{namespace}" in route.path_format
        and "iceberg" in route.path_format
        for method in route.methods - {"OPTIONS"}
    ]
    assert len(routes) == 7
    for method, path in routes:
        answer = lake.caller.http.request(method, path.format(namespace="secret", table="orders"), json={})
        # The caller sees the namespace, because it has a role on names in it.
        is_list = "{table}" not in path and "orders" not in answer.text
        assert answer.status_code == 404 or is_list, (method, path, answer.text)


def test_t25_both_names_of_a_rename_need_the_right(lake: Lake) -> None:
    out = lake.caller.http.patch(f"/v1/tables/{OWN}", json={"name": "secret.taken"})
    taken = lake.caller.http.patch(f"/v1/tables/{OWN}", json={"name": SECRET})
    into = lake.caller.http.patch(f"/v1/tables/{SECRET}", json={"name": "own.stolen"})

    assert refused(out, 403, "forbidden")["context"] == {"right": "define", "on": "secret.taken"}
    assert refused(taken, 403, "forbidden")["context"] == {"right": "define", "on": SECRET}
    refused(into, 404, "table-not-found")


@pytest.mark.parametrize("tried", OF_TABLES, ids=str)
@pytest.mark.usefixtures("without_effect")
def test_t26_t27_neither_roles_on_like_names_nor_an_id_open_a_table(lake: Lake, tried: Operation) -> None:
    for path_of, header in ((SECRET, SECRET), (SECRET, OWN), (OWN, SECRET)):
        answer = lake.caller.http.request(
            tried.method,
            tried.path(NEVER_BEGUN, table=path_of),
            json=tried.body(NEVER_BEGUN),
            headers={"Chronolake-Table-Id": lake.ids[header]},
        )
        problem = refused(answer, 404, "table-not-found")
        assert problem["context"]["table"] == path_of
        assert problem["context"].get("renamed_to") in (None, OWN if header == OWN else None)


def test_t55_a_token_of_an_issuer_that_ended_while_its_command_waited_is_refused(dsn: str) -> None:
    async def answer(subject: Subject) -> group.Result:
        opened = Database(Settings(dsn=dsn))
        session = Session(opened)
        try:
            request = group.request_of(Context("ann", "request", subject=subject), CreateNamespace("a"))
            return (await group.run_tasks(session, [group.task_of(request, Right.DEFINE)], 0)).results[0]
        finally:
            await session.close()
            await opened.close()

    [now] = database.query(dsn, "SELECT now_us() AS us")
    result = asyncio.run(answer(Subject("oidc:corp:ann", until=Micros(now["us"]))))

    assert isinstance(result, errors.Unauthenticated)
    assert result.reason is Reason.EXPIRED
    # An unknown caller leaves nothing in a log that nobody may shorten.
    assert database.query(dsn, "SELECT request_id FROM outcome UNION SELECT request_id FROM refusal") == []


def test_t56_a_transaction_with_a_forbidden_table_completes_none(lake: Lake) -> None:
    tables = [rest.Table(lake.server.admin, name) for name in (OWN, SECRET)]
    members: list[Json] = []
    for table in tables:
        requested_time = table.begun()
        stats = [rest.write_stat(requested_time)]
        members.append({"table": table.name, "requested_time": requested_time, "write_stats": stats})
    before = lake.events()
    bodies = [{"instants": members}, {"instants": members[::-1]}]

    for body in bodies:
        refused(lake.caller.http.post("/v1/transactions/complete", json=body), 404, "table-not-found")
    lake.caller.grant(Role.READER, SECRET)
    for body in bodies:
        refused(lake.caller.http.post("/v1/transactions/complete", json=body), 403, "forbidden")
    lake.caller.revoke(SECRET)
    time.sleep(RIGHTS_SECONDS)
    assert lake.events() == before + 2


def test_a_denied_clean_does_not_touch_the_leases_of_readers(lake: Lake) -> None:
    path = f"/v1/tables/{SECRET}/readers"
    lease = succeeded(lake.server.admin.post(path, json={"reader": "report"}))["lease_id"]
    database.query_nothing(lake.server.dsn, "UPDATE reader SET expires_at = moment(steady_us() - 1000000)")

    for command in ("cleans", "services/plan"):
        answer = lake.caller.http.post(f"/v1/tables/{SECRET}/{command}", json={"writer": "w"})
        refused(answer, 404, "table-not-found")
    # A clean that is planned deletes leases that have ended: they could not be renewed.
    succeeded(lake.server.admin.post(f"{path}/{lease}/heartbeat", json={}))


def test_a_reader_does_not_learn_the_lease_of_another_one(lake: Lake) -> None:
    path = f"/v1/tables/{OWN}/readers"
    lease = succeeded(lake.server.admin.post(path, json={"reader": "report"}))["lease_id"]

    assert refused(lake.reader.http.get(path), 403, "forbidden")["context"]["right"] == "maintain"
    assert [each["lease_id"] for each in succeeded(lake.caller.http.get(path))["readers"]] == [lease]


@pytest.mark.parametrize(
    "name",
    [
        *("secret%2Eorders", "own.orders/../secret.orders", "own.orders%2f..%2fsecret.orders"),
        *("own.orders/..%2Fsecret.orders", "own.orders;/../secret.orders", "./secret.orders"),
        *("/secret.orders", "secret.orders/", "secret.orders%00", "secret.orders%00_2", "%00secret.orders"),
        *("secret.orders.", "secret.orders%20", "secret.orders;a=b", "secret..orders", "SECRET.ORDERS"),
        *("secret%c0%aeorders", "secret%ef%bc%8eorders", "secret.orders%252e", "secret.orders%3f", "%2a"),
        *("own.orders%0asecret.orders", "own.orders,secret.orders"),
    ],
)
@pytest.mark.usefixtures("without_effect")
def test_t59_no_spelling_of_a_name_leads_to_a_table(lake: Lake, name: str) -> None:
    bearer = {"authorization": f"Bearer {lake.caller.token}", "content-type": "application/json"}
    for method, end in (("GET", ""), ("GET", "/snapshot"), ("DELETE", ""), ("POST", "/instants")):
        connection = http.client.HTTPConnection("127.0.0.1", lake.server.process.port, timeout=60)
        with contextlib.closing(connection):
            body = b'{"writer": "w"}' if method == "POST" else None
            connection.request(method, f"/v1/tables/{name}{end}", body, bearer)
            answer = connection.getresponse()
            text = answer.read().decode()
        assert answer.status in (400, 404, 405), (method, end, text)
        assert lake.ids[SECRET] not in text


def test_t15_rights_that_could_not_be_read_deny_nothing_and_are_read_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failures: list[Exception] = [errors.DatabaseUnavailable("gone")]

    async def get_rights(*_: object) -> Rights:
        if failures:
            raise failures.pop()
        return UNLIMITED

    async def use() -> Rights:
        rights = CallersRights(Database(Settings(dsn="postgresql://nobody@127.0.0.1:1/nothing")))
        with pytest.raises(errors.DatabaseUnavailable):
            await rights.of(Subject("token:a"))
        return await rights.of(Subject("token:a"))

    monkeypatch.setattr("chronolake_metastore.store.grants.get_rights", get_rights)
    assert asyncio.run(use()) is UNLIMITED


def test_t14_t15_revocations_beside_sixteen_readers_hide_what_they_name_and_nothing_else(lake: Lake) -> None:
    steady, changing = (lake.server.caller(name, own=Role.READER) for name in ("steady", "changing"))
    stop = threading.Event()

    def read() -> set[int]:
        statuses = set()
        with httpx.Client(
            base_url=lake.server.process.url, headers=steady.http.headers, verify=False, timeout=60
        ) as client:
            while not stop.is_set():
                statuses.add(client.get(f"/v1/tables/{OWN}").status_code)
        return statuses

    changed = []
    with ThreadPoolExecutor(16) as threads:
        reading = [threads.submit(read) for _ in range(16)]
        try:
            for _ in range(2):
                changing.revoke("own")
                time.sleep(RIGHTS_SECONDS)
                changed.append(changing.http.get(f"/v1/tables/{OWN}").status_code)
                changing.grant(Role.READER, "own")
                steady.grant(Role.WRITER, "own")
                time.sleep(RIGHTS_SECONDS)
                changed.append(changing.http.get(f"/v1/tables/{OWN}").status_code)
                steady.grant(Role.READER, "own")
        finally:
            stop.set()
    assert [each.result() for each in reading] == [{200}] * 16
    assert changed == [404, 200] * 2
