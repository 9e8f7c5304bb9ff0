"""The token of a client: where it comes from, where it goes, and that no text has it."""

from __future__ import annotations

import asyncio
import logging
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

import chronolake
from chronolake import _credentials, _http
from chronolake.cli import main
from tests.fix_secrets import ADMIN_TOKEN as SECRET
from tests.fix_server import ServerProcess

HERE = "http://127.0.0.1:1"
VARIABLES = ("CHRONOLAKE_TOKEN", "CHRONOLAKE_TOKEN_FILE", "CHRONOLAKE_CA_FILE", "CHRONOLAKE_TOKEN_OVER_HTTP")


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(f"{SECRET}\n")
    return path


@pytest.fixture
def guarded(new_server: Callable[..., ServerProcess], dsn: str, token_file: Path) -> Iterator[ServerProcess]:
    """A server with access control."""
    server = new_server(dsn, "--access", "on", "--admin-token-file", str(token_file))
    yield server
    assert SECRET not in server.log()


def sent(endpoint: _http.Endpoint) -> str | None:
    """The header of a request with the endpoint's token."""
    request = httpx.Request("GET", endpoint.url)
    if endpoint.token is not None:
        next(endpoint.token.auth_flow(request))
    header: str | None = request.headers.get("Authorization")
    return header


def test_a_token_is_the_argument_or_the_variable_or_a_file(
    token_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sent(_http.endpoint_of(HERE, 1, 1)) is None
    monkeypatch.setenv("CHRONOLAKE_TOKEN_FILE", str(token_file))
    assert sent(_http.endpoint_of(HERE, 1, 1)) == f"Bearer {SECRET}"
    monkeypatch.setenv("CHRONOLAKE_TOKEN", "of-the-variable")
    assert sent(_http.endpoint_of(HERE, 1, 1)) == "Bearer of-the-variable"
    assert sent(_http.endpoint_of(HERE, 1, 1, token="given")) == "Bearer given"
    assert sent(_http.endpoint_of(HERE, 1, 1, token_file=token_file)) == f"Bearer {SECRET}"


def test_a_token_file_is_read_again_and_may_be_missing_for_a_moment(token_file: Path) -> None:
    endpoint = _http.endpoint_of(HERE, 1, 1, token_file=token_file)

    token_file.unlink()
    assert sent(endpoint) == f"Bearer {SECRET}"
    token_file.write_text("another-token")
    assert sent(endpoint) == "Bearer another-token"


def test_with_a_token_the_client_names_no_actor() -> None:
    assert "Chronolake-Actor" not in _http.client_headers(_http.endpoint_of(HERE, 1, 1, token=SECRET))
    assert "Chronolake-Actor" in _http.client_headers(_http.endpoint_of(HERE, 1, 1))


@pytest.mark.parametrize("text", ["", "two words", f"{SECRET}\n", "caf\u00e9"])
def test_a_malformed_token_is_refused_without_its_text(text: str) -> None:
    with pytest.raises(ValueError, match="one word") as refused:
        _http.endpoint_of(HERE, 1, 1, token=text)
    assert SECRET not in str(refused.value)


def test_a_token_and_a_file_are_too_much(token_file: Path) -> None:
    with pytest.raises(ValueError, match="not two"):
        _http.endpoint_of(HERE, 1, 1, token=SECRET, token_file=token_file)


@pytest.mark.parametrize("host", ["lake.example", "192.0.2.1", "127.0.0.1.example", "localhost.example"])
def test_a_token_does_not_travel_over_plain_http(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="https"):
        _http.endpoint_of(f"http://{host}:7077", 1, 1, token=SECRET)
    assert sent(_http.endpoint_of(f"https://{host}", 1, 1, token=SECRET)) == f"Bearer {SECRET}"
    monkeypatch.setenv("CHRONOLAKE_TOKEN_OVER_HTTP", "true")
    assert sent(_http.endpoint_of(f"http://{host}:7077", 1, 1, token=SECRET)) == f"Bearer {SECRET}"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "127.9.9.9"])
def test_on_this_machine_a_token_may_travel_over_plain_http(host: str) -> None:
    assert sent(_http.endpoint_of(f"http://{host}:7077", 1, 1, token=SECRET)) is not None


@pytest.mark.parametrize(
    "url", [f"http://a:{SECRET}@127.0.0.1:1", f"{HERE}?token={SECRET}", f"{HERE}#{SECRET}"]
)
def test_a_token_in_the_url_is_refused_without_its_text(url: str) -> None:
    with pytest.raises(ValueError, match="token_file") as refused:
        chronolake.connect(url)
    assert SECRET not in str(refused.value)


def test_no_text_of_an_endpoint_has_the_token(token_file: Path) -> None:
    for endpoint in (
        _http.endpoint_of(HERE, 1, 1, token=SECRET),
        _http.endpoint_of(HERE, 1, 1, token_file=token_file),
    ):
        assert SECRET not in repr(endpoint)
        with pytest.raises(TypeError, match="token_file"):
            pickle.dumps(endpoint.token)


def test_a_ca_file_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="CA file"):
        _credentials.trust("https://lake.example", str(tmp_path / "nowhere"))


def test_both_clients_send_their_token(
    guarded: ServerProcess, token_file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def names() -> list[str]:
        async with chronolake.connect_async(guarded.url, token_file=token_file) as client:
            return [namespace.name async for namespace in client.namespaces()]

    caplog.set_level(logging.DEBUG)
    with chronolake.connect(guarded.url, token=SECRET) as client:
        client.create_namespace("shop")
        [event] = client.events()
        assert SECRET not in repr(vars(client))
    assert asyncio.run(names()) == ["shop"]
    assert event.actor == "admin"
    assert SECRET not in caplog.text


@pytest.mark.parametrize(("token", "advice"), [(None, "no token"), ("x" * 40, "not accepted")])
def test_a_stranger_learns_what_to_do_and_is_not_retried(
    guarded: ServerProcess, token: str | None, advice: str
) -> None:
    with (
        chronolake.connect(guarded.url, token=token) as client,
        pytest.raises(chronolake.errors.Unauthenticated, match=advice) as refused,
    ):
        client.create_namespace("shop")
    assert isinstance(refused.value, chronolake.errors.AccessRefused)
    assert "x" * 40 not in str(refused.value)


def test_the_command_line_has_the_token_from_a_file_or_a_profile(
    guarded: ServerProcess,
    token_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    created = ["namespaces", "create", "shop", "--url", guarded.url]

    assert main.run(created) == 6
    assert main.run([*created, "--token-file", str(token_file)]) == 0
    assert main.run(["--token-file", str(token_file), "--url", guarded.url, "events", "--json"]) == 0
    assert main.run(created) == 6
    assert main.run([*created, "--token-file", str(token_file / "nowhere")]) == 2
    config = tmp_path / "chronolake" / "config.toml"
    config.parent.mkdir()
    config.write_text(f'[profiles.lake]\nurl = "{guarded.url}"\ntoken_file = "{token_file}"\n')
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert main.run(["--profile", "lake", "namespaces", "list"]) == 0
    assert main.run(["namespaces", "list", "--profile", "lake"]) == 0
    printed = capsys.readouterr()
    assert SECRET not in printed.out + printed.err
    assert "CHRONOLAKE_TOKEN_FILE" in printed.err
