"""Rights: what a caller may do follows from its roles, at each operation, at the moment of the request."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

import chronolake
from chronolake.cli import main, output
from chronolake_metastore.service.callers_rights import RIGHTS_SECONDS
from chronolake_model import operations as declared
from chronolake_model.roles import RIGHTS, ROLES, Right, Role
from tests.server import access, operations, rest
from tests.server.access import AccessServer, Caller
from tests.server.operations import NEVER_BEGUN, OPERATIONS, TABLE, Operation
from tests.server.rest import Json, refused, succeeded

HIDDEN = "shop.no_such_table"
ROLE_ADVICE = ", or ask an administrator for a role on it"
DECLARED = {f"{operation.method} {operation.path}": operation for operation in declared.ALL}
NAMELESS = {
    "/v1/events",
    "/v1/cut",
    "/v1/time",
    "/v1/health",
    "/v1/services",
    "/v1/namespaces",
    "/v1/tables",
    "/v1/dropped-tables",
    "/v1/outcomes/{key}",
    "/v1/grants",
    "/v1/whoami",
    "/v1/can-i",
}
"""Paths whose reads name no table: every known caller may send them, and their answers are filtered."""


@pytest.fixture(scope="module")
def server(shared_dsn: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AccessServer]:
    with access.running(shared_dsn, tmp_path_factory.mktemp("access")) as server:
        admin = server.admin
        succeeded(admin.post("/v1/namespaces", json={"name": "shop"}))
        succeeded(admin.post("/v1/tables", json=rest.table_body(TABLE)))
        yield server


@pytest.fixture(scope="module")
def callers(server: AccessServer) -> dict[Role | None, Caller]:
    """A caller without a role, and one with each role on everything."""
    of_role: dict[Role | None, Caller] = {None: server.caller("nobody")}
    for role in ROLES:
        of_role[role] = server.caller(role)
        of_role[role].grant(role, "*")
    return of_role


def send(http: httpx.Client, tried: Operation, **parts: str) -> httpx.Response:
    return http.request(tried.method, tried.path(NEVER_BEGUN, **parts), json=tried.body(NEVER_BEGUN))


def right_of(tried: Operation) -> Right:
    return DECLARED[str(tried)].right


OF_API = [tried for tried in OPERATIONS if str(tried) in DECLARED]


def test_each_operation_of_the_document_is_declared_or_open() -> None:
    others = {str(tried) for tried in operations.ALL} - {str(tried) for tried in OF_API}
    assert others == {"GET /", "GET /health", "GET /ready", "GET /v1/events/stream"}


@pytest.mark.parametrize("tried", OF_API, ids=str)
def test_an_operation_needs_its_right(
    server: AccessServer, callers: dict[Role | None, Caller], tried: Operation
) -> None:
    right = right_of(tried)
    if tried.template in NAMELESS and right is Right.READ:
        assert send(callers[None].http, tried).status_code not in (401, 403)
        return
    table = new_table(server)
    allowed = [role for role in ROLES if right in RIGHTS[role]]
    for role in [None, *ROLES]:
        answer = send(callers[role].http, tried, table=table)
        if role in allowed:
            assert answer.status_code not in (401, 403), (role, answer.text)
        else:
            is_hidden = role is None and "-not-found" in answer.text
            assert is_hidden or refused(answer, 403, "forbidden"), (role, answer.text)


@pytest.mark.parametrize("tried", [tried for tried in OF_API if "{table}" in tried.template], ids=str)
def test_a_hidden_table_is_answered_as_one_that_does_not_exist(
    server: AccessServer, callers: dict[Role | None, Caller], tried: Operation
) -> None:
    hidden = send(callers[None].http, tried)
    missing = [send(http, tried, table=HIDDEN) for http in (callers[None].http, server.admin)]
    texts = [hidden.text, *(answer.text.replace(HIDDEN, TABLE) for answer in missing)]
    told = [
        {name: value for name, value in json.loads(text).items() if name != "idempotency_key"} for text in texts
    ]
    assert hidden.status_code == 404
    assert told[0] == told[1]
    # Who may do everything lacks no role.
    assert told[1] | {"detail": told[1]["detail"].replace(ROLE_ADVICE, "")} == told[2]


BEGIN = {"action": "commit", "operation": "upsert", "writer": "w"}


def test_a_caller_without_roles_is_told_the_command_that_grants_one(
    server: AccessServer,
    callers: dict[Role | None, Caller],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    caller = callers[None]
    file = tmp_path / "token"
    file.write_text(caller.token)
    file.chmod(0o600)

    assert main.run(["whoami", "--url", server.process.url, "--token-file", str(file)]) == output.OK

    shown = " ".join(capsys.readouterr().out.split())
    assert f"chronolake grants add {caller.subject} ROLE ON" in shown


def test_a_reader_is_told_which_right_it_lacks(callers: dict[Role | None, Caller]) -> None:
    answer = callers[Role.READER].http.post(f"/v1/tables/{TABLE}/instants", json=BEGIN)
    problem = refused(answer, 403, "forbidden")
    assert problem["context"] == {"right": "write", "on": TABLE}
    assert "'writer'" in problem["detail"]


def new_table(server: AccessServer, namespace: str = "shop") -> str:
    name = f"{namespace}.t_{uuid.uuid4().hex[:12]}"
    succeeded(server.admin.post("/v1/tables", json=rest.table_body(name, base_path=f"/lake/{name}")))
    return name


def test_a_grant_on_a_table_follows_it_and_does_not_fit_its_successor(server: AccessServer) -> None:
    name, caller = new_table(server), server.caller("etl")
    caller.grant("writer", name)
    renamed = f"{name}_renamed"
    succeeded(server.admin.patch(f"/v1/tables/{name}", json={"name": renamed}))
    succeeded(server.admin.post("/v1/tables", json=rest.table_body(name, base_path=f"/lake/{name}_2")))
    time.sleep(RIGHTS_SECONDS)

    succeeded(caller.http.get(f"/v1/tables/{renamed}"))
    refused(caller.http.get(f"/v1/tables/{name}"), 404, "table-not-found")
    succeeded(caller.http.post(f"/v1/tables/{renamed}/instants", json=BEGIN))
    refused(caller.http.post(f"/v1/tables/{name}/instants", json=BEGIN), 404, "table-not-found")


def test_a_writer_with_a_role_on_a_table_follows_its_rename(server: AccessServer) -> None:
    name, caller = new_table(server), server.caller("job")
    caller.grant("writer", name)
    with chronolake.connect(server.process.url, token=caller.token) as lake:
        table = lake.table(name)
        succeeded(server.admin.patch(f"/v1/tables/{name}", json={"name": f"{name}_2"}))
        time.sleep(RIGHTS_SECONDS)

        assert table.begin(writer="w").refresh().table == f"{name}_2"
        assert table.reload().name == f"{name}_2"


def test_roles_are_granted_asked_and_revoked_by_the_client(server: AccessServer) -> None:
    caller, other = server.caller("lead", shop="admin"), server.caller("guest")
    with chronolake.connect(server.process.url, token=caller.token) as lake:
        assert lake.who_am_i().subject == caller.subject
        assert [lake.can_i("grant", on) for on in ("shop", "shop.raw_*", "*", "sho*")] == [
            True,
            True,
            False,
            False,
        ]
        granted = lake.grant(other.subject, "reader", "shop.raw_*")
        assert (granted.granted_by, granted.on) == (caller.subject, "shop.raw_*")
        assert [grant.on for grant in lake.grants(other.subject)] == ["shop.raw_*"]
        with pytest.raises(chronolake.errors.Forbidden):
            lake.grant(caller.subject, "admin", "*")
        lake.revoke(other.subject, "shop.raw_*")
        assert list(lake.grants(other.subject)) == []
    assert [grant["on"] for grant in succeeded(other.http.get("/v1/whoami"))["grants"]] == []
    revoked = server.run("grants", "revoke", caller.subject, "shop")
    assert revoked == {"subject": caller.subject, "on": "shop"}


@pytest.mark.parametrize(
    ("path", "body", "why"),
    [
        ("/v1/grants", {"subject": "etl", "role": "reader", "on": "*"}, "chronolake whoami shows"),
        ("/v1/grants", {"subject": "token:a234567bcd", "role": "reader", "on": "a."}, "'a.' is no pattern: *"),
        ("/v1/grants/revoke", {"subject": "token:", "on": "*"}, "'token:' is no subject: token:<id"),
        ("/v1/can-i", {"checks": [{"right": "read", "on": "shop."}]}, "'shop.' is no pattern: *"),
    ],
)
def test_a_malformed_subject_or_pattern_is_refused_in_words(
    server: AccessServer, path: str, body: Json, why: str
) -> None:
    problem = refused(server.admin.post(path, json=body), 400, "invalid-request")
    assert why in problem["detail"]
    assert "^" not in problem["detail"]
