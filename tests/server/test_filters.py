"""Lists, feeds, figures and errors tell a caller nothing of tables that it may not read."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator

import pytest

from chronolake_metastore.service.callers_rights import RIGHTS_SECONDS
from tests.server import access, rest
from tests.server.access import AccessServer, Caller
from tests.server.rest import Json, refused, succeeded

OPEN, SECRET = "open.orders", "secret.plans"


@pytest.fixture(scope="module")
def server(shared_dsn: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AccessServer]:
    with access.running(shared_dsn, tmp_path_factory.mktemp("filters")) as server:
        for name in (OPEN, SECRET):
            rest.make_table(server.admin, name)
        yield server


@pytest.fixture(scope="module")
def reader(server: AccessServer) -> Caller:
    """A caller that may read one namespace."""
    return new_caller(server, open="reader")


def new_caller(server: AccessServer, **roles: str) -> Caller:
    return server.caller(f"caller-{uuid.uuid4()}", **roles)


def body(name: str, base_path: str, **changes: object) -> Json:
    return rest.table_body(name, base_path=base_path, **changes)


def new_namespace(server: AccessServer) -> str:
    name = f"n{uuid.uuid4().hex[:10]}"
    succeeded(server.admin.post("/v1/namespaces", json={"name": name}))
    return name


LISTS = ["/v1/namespaces", "/v1/tables", "/v1/health", "/v1/services", "/v1/cut", "/v1/dropped-tables"]
OF_ICEBERG = ["/iceberg/v1/namespaces", "/iceberg/v1/namespaces/open/tables"]


@pytest.mark.parametrize("path", [*LISTS, *OF_ICEBERG])
def test_t28_no_list_names_a_hidden_table_or_its_namespace(
    server: AccessServer, reader: Caller, path: str
) -> None:
    everything = server.admin.get(path).text
    shown = reader.http.get(path)

    assert ("secret" in everything) == (path not in OF_ICEBERG[1:] and path != "/v1/dropped-tables")
    succeeded(shown)
    assert "secret" not in shown.text
    assert ("open" in shown.text or "orders" in shown.text) == (path != "/v1/dropped-tables")


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/v1/tables?namespace=secret", "namespace-not-found"),
        ("/v1/cut?namespace=secret", "namespace-not-found"),
        (f"/v1/cut?tables={OPEN},{SECRET}", "table-not-found"),
        (f"/v1/events?table={SECRET}", "table-not-found"),
        (f"/v1/events/stream?table={SECRET}", "table-not-found"),
        ("/v1/namespaces/secret", "namespace-not-found"),
    ],
)
def test_t28_a_hidden_name_is_one_that_does_not_exist(reader: Caller, path: str, code: str) -> None:
    hidden = reader.http.get(path)
    missing = reader.http.get(path.replace("secret", "nowhere"))

    refused(hidden, 404, code)
    assert hidden.text.replace("secret", "nowhere") == missing.text


def test_t62_the_figures_of_the_server_need_the_right_to_read_everything(
    server: AccessServer, reader: Caller
) -> None:
    succeeds = new_caller(server)
    succeeds.grant("reader", "*")

    problem = refused(reader.http.get("/metrics"), 403, "forbidden")
    assert problem["context"] == {"right": "read", "on": "*"}
    assert "chronolake_" in succeeds.http.get("/metrics").raise_for_status().text


def test_a_base_path_of_a_hidden_table_is_taken_without_a_name(server: AccessServer) -> None:
    mine, theirs = new_namespace(server), new_namespace(server)
    caller = new_caller(server)
    caller.grant("admin", mine)
    succeeded(server.admin.post("/v1/tables", json=body(f"{theirs}.live", f"/lake/{theirs}/live")))
    asked = body(f"{mine}.t", f"/lake/{theirs}/live/below")

    for path in ("/v1/tables", "/v1/tables/dry-run"):
        problem = refused(caller.http.post(path, json=asked), 409, "base-path-taken")
        assert problem["context"] == {"base_path": asked["base_path"]}
        assert theirs not in problem["detail"]


@pytest.mark.parametrize("published", [False, True])
def test_a_dropped_table_gives_its_base_path_only_to_an_admin_of_its_name(
    server: AccessServer, published: bool
) -> None:
    mine, theirs = new_namespace(server), new_namespace(server)
    caller, of_both = new_caller(server), new_caller(server)
    for named in (caller, of_both):
        named.grant("admin", mine)
    of_both.grant("admin", theirs)
    old, place = f"{theirs}.old", f"/lake/{theirs}/old"
    table = rest.make_table(server.admin, old, base_path=place)
    if published:
        requested_time = table.begun()
        succeeded(table.complete(requested_time, rest.write_stat(requested_time)))
    server.admin.delete(f"/v1/tables/{old}").raise_for_status()
    asked = body(f"{mine}.new", place, reuse_base_path=True)

    for path in ("/v1/tables/dry-run", "/v1/tables"):
        problem = refused(caller.http.post(path, json=asked), 409, "base-path-taken")
        assert "old" not in problem["detail"]
        assert problem["context"] == {"base_path": place}
    caller.grant("reader", theirs)
    time.sleep(RIGHTS_SECONDS)
    problem = refused(caller.http.post("/v1/tables", json=asked), 409, "base-path-taken")
    assert problem["context"]["table"] == old
    succeeded(of_both.http.post("/v1/tables", json=asked))


def test_t53_keys_and_outcomes_belong_to_their_subject(server: AccessServer) -> None:
    first, second = new_caller(server, open="writer"), new_caller(server, open="writer")
    path = f"/v1/tables/{OPEN}/instants"

    of_first = first.http.post(path, json={"writer": "w"}, headers=rest.keyed("nightly"))
    unknown = refused(second.http.get("/v1/outcomes/nightly"), 404, "outcome-not-found")
    of_second = second.http.post(path, json={"writer": "another"}, headers=rest.keyed("nightly"))

    assert unknown["context"] == {"request_id": "nightly"}
    assert succeeded(of_first)["requested_time"] != succeeded(of_second)["requested_time"]
    for caller, answer in ((first, of_first), (second, of_second)):
        assert succeeded(caller.http.get("/v1/outcomes/nightly"))["answer"] == answer.json()


def test_t53_an_outcome_does_not_tell_the_present_name_of_a_table_that_is_hidden_now(
    server: AccessServer,
) -> None:
    mine, theirs = new_namespace(server), new_namespace(server)
    caller = new_caller(server)
    caller.grant("writer", mine)
    name, renamed = f"{mine}.t", f"{theirs}.secret_name"
    rest.make_table(server.admin, name)
    sent = caller.http.post(f"/v1/tables/{name}/instants", json={"writer": "w"}, headers=rest.keyed("begin"))
    before = succeeded(caller.http.get("/v1/outcomes/begin"))
    succeeded(server.admin.patch(f"/v1/tables/{name}", json={"name": renamed}))

    succeeded(sent)
    after = caller.http.get("/v1/outcomes/begin")
    assert before["table"] == name
    assert succeeded(after) == before | {"table": None}
    assert "secret_name" not in caller.http.get(f"/v1/tables/{name}").text
