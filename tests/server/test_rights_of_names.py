"""Roles on tables whose names change: a server knows roles a second later, and names may be others by then."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import httpx
import pytest
from typer.testing import CliRunner

import chronolake
from chronolake_metastore.cli import main
from tests.server import access, rest
from tests.server.access import AccessServer, Caller
from tests.server.operations import NEVER_BEGUN, OPERATIONS
from tests.server.rest import succeeded

_NUMBERS = itertools.count(1)
AT_ONCE = 12
"""Requests that are sent before the server reads the rights of their caller again."""
OF_TABLES = [tried for tried in OPERATIONS if "/tables/{table}" in str(tried)]


@pytest.fixture(scope="module")
def server(shared_dsn: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AccessServer]:
    with access.running(shared_dsn, tmp_path_factory.mktemp("access")) as server:
        succeeded(server.admin.post("/v1/namespaces", json={"name": "names"}))
        yield server


def created(admin: httpx.Client, name: str | None = None) -> str:
    """A new table, at a place of its own."""
    number = next(_NUMBERS)
    name = name or f"names.t{number}"
    body = rest.table_body(name, base_path=f"file:///lake/names/{number}")
    succeeded(admin.post("/v1/tables", json=body))
    return name


@pytest.fixture
def name(server: AccessServer) -> str:
    return created(server.admin)


@pytest.fixture(scope="module")
def maintainer(server: AccessServer) -> Caller:
    return server.caller("maintainer")


def known(caller: Caller, name: str) -> None:
    """The server knows the rights of the caller now, and keeps them for a second."""
    succeeded(caller.http.get(f"/v1/tables/{name}"))


def renamed(admin: httpx.Client, name: str) -> str:
    succeeded(admin.patch(f"/v1/tables/{name}", json={"name": f"{name}_old"}))
    return f"{name}_old"


def dropped(admin: httpx.Client, name: str) -> None:
    assert admin.delete(f"/v1/tables/{name}").is_success


@pytest.mark.parametrize("leave", [renamed, dropped])
@pytest.mark.parametrize("first", range(0, len(OF_TABLES), AT_ONCE))
def test_a_role_on_a_table_opens_no_successor(
    server: AccessServer, maintainer: Caller, leave: Callable[[httpx.Client, str], object], first: int
) -> None:
    name = created(server.admin)
    maintainer.grant("maintainer", name)
    known(maintainer, name)
    leave(server.admin, name)
    created(server.admin, name)

    for tried in OF_TABLES[first : first + AT_ONCE]:
        path, body = tried.path(NEVER_BEGUN, table=name), tried.body(NEVER_BEGUN)
        answer = maintainer.http.request(tried.method, path, json=body)
        if tried.method != "HEAD":
            told = answer.status_code, answer.json().get("code")
            assert told in {(404, "table-not-found"), (403, "forbidden")}, (tried, answer.text)


def test_roles_on_tables_open_a_cut_of_these_tables_and_of_no_successor(server: AccessServer) -> None:
    admin, caller = server.admin, server.caller("cutting")
    names = [created(admin), created(admin)]
    for name in names:
        caller.grant("reader", name)
    cut = {"tables": ",".join(names)}
    states = succeeded(caller.http.get("/v1/cut", params=cut))["tables"]
    assert {state["table"] for state in states} == set(names)

    for name in names:
        dropped(admin, name)
        created(admin, name)
        rest.refused(caller.http.get("/v1/cut", params=cut), 404, "table-not-found")
        caller.grant("reader", name)
        caller.http.get("/v1/tables/names.hidden")  # A refusal has the roles read again.


def test_the_expected_id_of_a_successor_opens_it_neither(
    server: AccessServer, maintainer: Caller, name: str
) -> None:
    maintainer.grant("maintainer", name)
    known(maintainer, name)
    dropped(server.admin, name)
    successor = succeeded(server.admin.get(f"/v1/tables/{created(server.admin, name)}"))

    headers = {"Chronolake-Table-Id": successor["table_id"]}
    answer = maintainer.http.get(f"/v1/tables/{name}", headers=headers)

    rest.refused(answer, 404, "table-not-found")


def test_a_role_counts_for_the_first_request_after_it_was_granted(server: AccessServer, name: str) -> None:
    caller = server.caller("new")
    for _ in range(30):
        assert caller.http.get(f"/v1/tables/{name}").status_code == 404
        begun = caller.http.post(f"/v1/tables/{name}/instants", json={"writer": "w", "operation": "insert"})
        assert begun.status_code == 404
    caller.grant("writer", name)

    succeeded(caller.http.get(f"/v1/tables/{name}"))
    succeeded(caller.http.post(f"/v1/tables/{name}/instants", json={"writer": "w", "operation": "insert"}))


def test_the_operator_is_told_whether_there_was_a_role_to_revoke(
    server: AccessServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chronolake_metastore.telemetry.configure", lambda *_: None)
    subject = server.caller("leaving", names="reader").subject
    command = ["grants", "revoke", subject, "names", "--dsn", server.dsn]
    first, second = (CliRunner().invoke(main.app, command).stdout for _ in range(2))
    assert first == f"{subject} is no longer reader on exactly names\n"
    assert second == f"nothing changed: {subject} has no role on exactly names\n"


def test_a_writer_may_ask_for_its_namespace_as_if_to_create_it(server: AccessServer) -> None:
    writer, stranger = server.caller("of_names", names="writer"), server.caller("of_nothing")
    with chronolake.connect(server.process.url, token=writer.token) as lake:
        assert lake.create_namespace("names", if_not_exists=True).name == "names"
    with (
        chronolake.connect(server.process.url, token=stranger.token) as lake,
        pytest.raises(chronolake.errors.Forbidden),
    ):
        lake.create_namespace("names", if_not_exists=True)


def test_a_writer_with_a_role_on_a_table_follows_its_renames(server: AccessServer, name: str) -> None:
    caller = server.caller("following")
    caller.grant("writer", name)
    with chronolake.connect(server.process.url, token=caller.token) as lake:
        table = lake.table(name)
        for number in range(5):
            new = f"{name}_{number}"
            succeeded(server.admin.patch(f"/v1/tables/{table.name}", json={"name": new}))
            assert table.reload().name == new
            table.begin().complete([])
        assert len(list(table.instants())) == 5
