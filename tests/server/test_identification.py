"""Access: each request needs a known caller, before a byte of its body is read."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from litestar.routes import HTTPRoute
from litestar.types import ASGIApp
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import UnauthorizedError
from structlog.testing import capture_logs
from typing_extensions import override

from chronolake_metastore import errors
from chronolake_metastore.api import callers, identification
from chronolake_metastore.api.application import Application
from chronolake_metastore.app import create_app, served
from chronolake_metastore.domain.subjects import Subject, actor_of
from chronolake_metastore.identification import secret_files
from chronolake_metastore.identification.identifier import Identifier
from chronolake_metastore.identification.secret_files import SecretFile
from chronolake_metastore.metrics import Metrics
from chronolake_metastore.service.service import Service
from chronolake_metastore.settings import Access, Settings, warnings_of
from chronolake_metastore.store.postgres.engine import Database
from tests.fix_secrets import ADMIN_TOKEN as SECRET
from tests.fix_server import ServerProcess
from tests.processes import wait_until
from tests.server import rest
from tests.server.operations import ALL, NEVER_BEGUN, Operation
from tests.server.rest import Json

BEARER = {"authorization": f"Bearer {SECRET}"}
OPEN = {(method, path.decode()) for path in identification.OPEN_PATHS for method in ("GET", "HEAD")}


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


@pytest.fixture(scope="module")
def secret_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("secrets") / "admin"
    path.write_text(f"{SECRET}\n")
    return path


@pytest.fixture(scope="module")
def app(secret_file: Path) -> Application:
    return create_app(
        Settings(dsn="postgresql://nobody@127.0.0.1:1/nothing", access=Access.ON, admin_token_file=secret_file)
    )


@pytest.fixture(scope="module")
def server_app(app: Application) -> ASGIApp:
    return served(app, Settings())


def ask(app: ASGIApp, method: str, path: str, *headers: tuple[str, str], receives: bool = False) -> Answer:
    """The answer to a request, of whose body not a byte may be read unless ``receives``."""
    raw_path, _, query = path.partition("?")
    sent: list[Any] = []

    async def receive() -> Any:
        assert receives, "the body was read"
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    scope: Any = {
        "type": "http",
        "method": method,
        "path": httpx.URL(raw_path).path if raw_path.startswith("/") else raw_path,
        "raw_path": raw_path.encode(),
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in headers],
        "client": ("127.0.0.1", 1),
        "state": {},
    }
    asyncio.run(_awaited(app(scope, receive, send)))
    start, *parts = sent
    answered = {name.decode(): value.decode() for name, value in start["headers"]}
    return Answer(start["status"], answered, b"".join(part["body"] for part in parts))


async def _awaited(answering: Awaitable[None]) -> None:
    await answering


def assert_unauthenticated(answer: Answer, method: str, path: str) -> None:
    assert answer.status == HTTPStatus.UNAUTHORIZED
    assert answer.headers["www-authenticate"] == 'Bearer realm="chronolake"'
    if method == "HEAD":
        assert answer.body == b""
    elif path.startswith("/iceberg"):
        assert json.loads(answer.body)["error"]["type"] == "NotAuthorizedException"
    else:
        assert json.loads(answer.body)["code"] == "unauthenticated"


@pytest.mark.parametrize("tried", ALL, ids=str)
def test_each_operation_needs_a_caller_before_its_body_is_read(server_app: ASGIApp, tried: Operation) -> None:
    path = tried.path(NEVER_BEGUN)
    if (tried.method, path) not in OPEN:
        answer = ask(server_app, tried.method, path, ("content-type", "application/json"))
        assert_unauthenticated(answer, tried.method, path)


def test_each_route_of_the_application_needs_a_caller(app: Application, server_app: ASGIApp) -> None:
    routes = [
        (method, route.path_format.replace("{", "").replace("}", ""))
        for route in app.routes
        if isinstance(route, HTTPRoute)
        for method in {*route.methods, "HEAD", "OPTIONS"}
    ]
    assert {"/", "/metrics", "/iceberg/v1/config", "/v1/events/stream"} <= {path for _, path in routes}
    for method, path in routes:
        if (method, path) not in OPEN:
            assert_unauthenticated(ask(server_app, method, path), method, path)


@pytest.mark.parametrize(
    "path",
    [
        *("/nowhere", "/v1", "/v1/tables/", "//", "*", "/iceberg", "/iceberg/nowhere"),
        *("/health/", "//health", "/Health", "/%68ealth", "/health%2f", "/health;a", "/v1/../health"),
        *("/v1/outcomes/x/health", "/ready/x", "/docs/", "/openapi.json/x", "/metrics"),
    ],
)
def test_unknown_addresses_and_other_spellings_of_open_ones_need_a_caller(
    server_app: ASGIApp, path: str
) -> None:
    assert_unauthenticated(ask(server_app, "GET", path), "GET", path)


@pytest.mark.parametrize("path", ["/health", "/ready", "/docs", "/openapi.json"])
def test_open_addresses_are_open_to_reads_alone(server_app: ASGIApp, path: str) -> None:
    assert_unauthenticated(ask(server_app, "POST", path), "POST", path)
    assert_unauthenticated(ask(server_app, "OPTIONS", path), "OPTIONS", path)


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_health_answers_strangers(server_app: ASGIApp, method: str) -> None:
    assert ask(server_app, method, "/health", receives=True).status == HTTPStatus.OK


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param([("authorization", f"Basic {SECRET}")], id="another scheme"),
        pytest.param([("authorization", SECRET)], id="no scheme"),
        pytest.param([("authorization", "Bearer")], id="no token"),
        pytest.param([("authorization", f"Bearer {SECRET} {SECRET}")], id="two tokens"),
        pytest.param([("authorization", f"Bearer {SECRET}")] * 2, id="two headers"),
        pytest.param([("authorization", f"Bearer {SECRET}x")], id="another token"),
        pytest.param([("authorization", "Bearer \xff")], id="no ASCII"),
        pytest.param([("authorization", f"Bearer {'x' * 20_000}")], id="a long text"),
        pytest.param([("x-authorization", f"Bearer {SECRET}")], id="another header"),
        pytest.param([("cookie", f"access_token={SECRET}")], id="a cookie"),
    ],
)
def test_the_answer_to_a_stranger_is_the_same_for_each_reason(
    server_app: ASGIApp, sent: list[tuple[str, str]]
) -> None:
    assert ask(server_app, "GET", "/v1/tables", *sent) == ask(server_app, "GET", "/v1/tables")


def test_a_token_in_the_url_is_none(server_app: ASGIApp) -> None:
    answer = ask(server_app, "GET", f"/v1/tables?access_token={SECRET}")

    assert_unauthenticated(answer, "GET", "/v1/tables")
    assert SECRET.encode() not in answer.body


def test_the_scheme_may_be_spelled_in_any_case(server_app: ASGIApp) -> None:
    assert ask(server_app, "GET", "/", ("authorization", f"bEARER  {SECRET}"), receives=True).status == 200


def test_a_secret_file_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secret_files, "LOOK_SECONDS", 0.0)
    path = tmp_path / "admin"
    path.write_text(SECRET)
    file = SecretFile(path)

    assert asyncio.run(file.holds(SECRET))
    path.write_text(SECRET[::-1])
    assert not asyncio.run(file.holds(SECRET))
    assert asyncio.run(file.holds(SECRET[::-1]))
    path.unlink()
    assert not asyncio.run(file.holds(SECRET[::-1]))


@pytest.mark.parametrize(
    "content", ["", "too short", "\n", "x" * 5_000, f"{'x' * 20} {'x' * 20}", "\u00e9" * 40]
)
def test_a_server_does_not_start_with_a_weak_admin(tmp_path: Path, content: str) -> None:
    (tmp_path / "admin").write_text(content)
    with pytest.raises(errors.ConfigurationError, match="openssl rand"):
        SecretFile(tmp_path / "admin")


def test_a_server_that_could_know_no_caller_does_not_start() -> None:
    with pytest.raises(errors.ConfigurationError, match="--token-key-file"):
        create_app(Settings(dsn="postgresql://nobody@127.0.0.1:1/nothing", access=Access.ON))


@pytest.mark.parametrize(
    ("host", "certificate", "warns"),
    [("0.0.0.0", None, True), ("127.0.0.1", None, False), ("0.0.0.0", Path("certificate"), False)],
)
def test_tokens_without_encryption_are_a_warning(host: str, certificate: Path | None, warns: bool) -> None:
    warnings = warnings_of(Settings(access=Access.ON, host=host, tls_certificate=certificate))
    assert any("without encryption" in warning for warning in warnings) == warns


def test_a_stream_whose_caller_is_no_longer_known_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secret_files, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(identification, "STREAM_CHECK_SECONDS", 0.0)
    path = tmp_path / "admin"
    path.write_text(SECRET)
    sent: list[bytes] = []

    async def stream(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"before", "more_body": True})
        path.write_text(SECRET[::-1])
        await send({"type": "http.response.body", "body": b"after", "more_body": True})

    async def send(message: Any) -> None:
        sent.append(message.get("body", b""))

    identified = identification.with_callers(stream, Identifier(SecretFile(path)), Metrics())
    with pytest.raises(identification.CallerLost):
        ask_with(identified, send)
    assert sent == [b"", b"before"]


def ask_with(app: ASGIApp, send: Any) -> None:
    """Send the request of an admin."""
    headers = [(name.encode(), value.encode()) for name, value in BEARER.items()]
    scope: Any = {"type": "http", "method": "GET", "path": "/", "raw_path": b"/", "headers": headers}
    asyncio.run(_awaited(app(scope, send, send)))


def test_another_actor_needs_the_right_to_act_for_others() -> None:
    scope: Any = {"client": None, "raw_path": b"/", "user": Subject("token:a")}
    service = Service(Database(Settings(dsn="postgresql://nobody@127.0.0.1:1/nothing")))

    assert callers.of_request(service, scope, None, None).actor == "token:a"
    with pytest.raises(errors.Forbidden):
        callers.of_request(service, scope, "ann", None)


def test_the_name_after_a_subject_cannot_be_taken_for_part_of_it() -> None:
    assert actor_of(Subject("oidc:corp:a/b"), "ann") == "oidc:corp:a%2Fb/ann"
    assert actor_of(Subject("oidc:corp:a/b"), None) == "oidc:corp:a%2Fb"


class _Broken(Identifier):
    """An identifier with a bug."""

    @override
    async def identify(self, token: str, address: str | None = None) -> Subject:
        raise RuntimeError("broken")


@pytest.mark.parametrize(("path", "code"), [("/v1/tables", "internal-error"), ("/iceberg/v1/config", None)])
def test_a_bug_of_the_identification_is_a_problem_and_in_the_log(
    app: Application, path: str, code: str | None
) -> None:
    with capture_logs() as lines:
        answer = ask(identification.with_callers(app, _Broken(), Metrics()), "GET", path, *BEARER.items())

    assert (answer.status, json.loads(answer.body).get("code")) == (500, code)
    [line] = [line for line in lines if line["event"] == "request failed"]
    assert str(line["exc_info"]) == "broken"


def test_the_log_has_the_subject_and_whom_it_acts_for(
    new_server: Callable[..., ServerProcess], dsn: str, secret_file: Path
) -> None:
    server = new_server(dsn, "--access", "on", "--admin-token-file", str(secret_file))
    with httpx.Client(base_url=server.url, headers=BEARER, verify=False) as http:
        rest.succeeded(http.post("/v1/namespaces", json={"name": "a"}))
        other = {"chronolake-actor": "ann"}
        rest.succeeded(http.post("/v1/namespaces", json={"name": "b"}, headers=other))
        events: list[Json] = rest.succeeded(http.get("/v1/events"))["events"]
        unknown = httpx.get(f"{server.url}/v1/events", verify=False)
        with contextlib.closing(RestCatalog("c", uri=f"{server.url}/iceberg", token=SECRET)) as catalog:
            assert catalog.list_namespaces() == [("a",), ("b",)]
        with pytest.raises(UnauthorizedError, match="Authorization"):
            RestCatalog("c", uri=f"{server.url}/iceberg")
        metrics = http.get("/metrics").text

    assert [event["actor"] for event in events] == ["admin", "admin/ann"]
    assert unknown.status_code == HTTPStatus.UNAUTHORIZED
    assert 'chronolake_unauthenticated_total{reason="no token"} 1.0' in metrics
    assert SECRET not in server.log() + metrics


@pytest.mark.parametrize("form", ["console", "json"])
def test_t51_the_log_shows_the_path_of_a_stranger_and_no_terminal_executes_it(
    new_server: Callable[..., ServerProcess], dsn: str, secret_file: Path, form: str
) -> None:
    flags = ("--access", "on", "--admin-token-file", str(secret_file), "--request-log", "info")
    server = new_server(dsn, *flags, "--log-format", form)
    path = "/v1/%1b]0;title%07%0a%c2%9b2J%e2%80%ae"

    assert httpx.get(f"{server.url}{path}", verify=False).status_code == HTTPStatus.UNAUTHORIZED
    wait_until(lambda: "title" in server.log())
    assert {"\x1b", "\x07", "\x9b", "\u202e"}.isdisjoint(server.log())
    [line] = (line for line in server.log().splitlines() if "title" in line)
    assert "x1b" in line or "u001b" in line
    assert "401" in line
