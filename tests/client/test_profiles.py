"""Profiles, variables and arguments: which one counts, and that a token goes to no server but its own."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import httpx
import pytest

from chronolake import ServerAccess, _http
from chronolake._http import Endpoint
from chronolake.cli import main
from chronolake_model import environment
from tests.fix_secrets import CLIENT_SECRET

LAKE = "https://lake.example"
OTHER = "https://other.example"


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of profiles, and no variable of a client. The profile ``lake`` has a token."""
    for name in environment.OF_CLIENTS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    file = tmp_path / "chronolake" / "config.toml"
    file.parent.mkdir()
    file.write_text(f'[profiles.lake]\nurl = "{LAKE}/"\ntoken_file = "token"\n')
    token = file.parent / "token"
    token.write_text("of-the-profile")
    token.chmod(0o600)
    return file


def sent(endpoint: Endpoint) -> tuple[str, str | None]:
    """The URL of an endpoint, and the token that it gets."""
    request = httpx.Request("GET", endpoint.url)
    if endpoint.token is not None:
        next(endpoint.token.sync_auth_flow(request))
    return endpoint.url, (request.headers.get("Authorization") or "").removeprefix("Bearer ") or None


def test_a_profile_has_the_url_and_the_token(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = _http.endpoint_of(None, 1, 1, profile="lake")
    assert sent(endpoint) == (LAKE, "of-the-profile")
    assert endpoint.access == ServerAccess(f"{LAKE}/", str(config.parent / "token"))
    monkeypatch.setenv("CHRONOLAKE_PROFILE", "lake")
    endpoint = _http.endpoint_of(None, 1, 1)
    assert sent(endpoint) == (LAKE, "of-the-profile")
    # Other processes have variables of their own.
    assert endpoint.access == ServerAccess(f"{LAKE}/")


def test_arguments_come_before_a_named_profile_before_variables_before_the_profile_of_the_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CHRONOLAKE_TOKEN", "of-the-variable")
    assert sent(_http.endpoint_of(LAKE, 1, 1, token="given", profile="lake")) == (LAKE, "given")
    monkeypatch.setenv("CHRONOLAKE_PROFILE", "lake")
    assert sent(_http.endpoint_of(None, 1, 1)) == (LAKE, "of-the-variable")
    monkeypatch.setenv("CHRONOLAKE_URL", OTHER)
    # Who names a profile has named the server: a forgotten variable leads to no other one.
    assert sent(_http.endpoint_of(None, 1, 1, profile="lake")) == (LAKE, "of-the-profile")


def test_the_token_of_a_profile_goes_to_no_other_server(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="no other server"):
        _http.endpoint_of(OTHER, 1, 1, profile="lake")
    monkeypatch.setenv("CHRONOLAKE_PROFILE", "lake")
    assert sent(_http.endpoint_of(OTHER, 1, 1)) == (OTHER, None)
    monkeypatch.setenv("CHRONOLAKE_URL", OTHER)
    assert sent(_http.endpoint_of(None, 1, 1)) == (OTHER, None)
    assert sent(_http.endpoint_of(LAKE, 1, 1)) == (LAKE, "of-the-profile")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('[profiles.lake]\nurl = "https://a"\ntoken = "clk_secret"', "unknown: token; .*files of their own"),
        ('[profiles.lake]\nurl = "https://a"\ntoken_flie = "x"', "unknown: token_flie"),
        ('[profiles.lake]\ntoken_file = "x"', "url is missing"),
        ('[profiles.lake]\nurl = "https://a"\noauth_scope = "x"', "missing: oauth_client_id"),
        ('[profiles.lake]\nurl = "https://clk_secret@a"', "no user"),
        ('[profile.lake]\nurl = "https://a"', "profile"),
        ("[profiles.lake]\nurl = clk_secret", "config.toml: "),
        ('[profiles.sea]\nurl = "https://a"', "no profile 'lake' .* it has sea"),
    ],
)
def test_a_faulty_profile_is_refused_without_its_values(config: Path, text: str, reason: str) -> None:
    config.write_text(text)
    with pytest.raises(ValueError, match=reason) as refused:
        _http.endpoint_of(None, 1, 1, profile="lake")
    assert "clk_secret" not in str(refused.value)


def test_variables_name_client_credentials_and_say_which_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = tmp_path / "secret"
    secret.write_text(CLIENT_SECRET)
    monkeypatch.setenv("CHRONOLAKE_OAUTH_CLIENT_ID", "etl")
    monkeypatch.setenv("CHRONOLAKE_OAUTH_CLIENT_SECRET_FILE", str(secret))
    with pytest.raises(ValueError, match="missing: CHRONOLAKE_OAUTH_TOKEN_URL"):
        _http.endpoint_of(LAKE, 1, 1)
    monkeypatch.setenv("CHRONOLAKE_OAUTH_TOKEN_URL", "https://idp.example/token")
    assert "FetchedToken" in repr(_http.endpoint_of(LAKE, 1, 1).token)


def test_a_secret_that_everyone_can_read_is_warned_of_once(
    config: Path, caplog: pytest.LogCaptureFixture
) -> None:
    token = config.parent / "open"
    token.write_text("of-the-profile")
    token.chmod(0o644)
    with caplog.at_level(logging.WARNING):
        for file in (token, token, config.parent / "token"):
            _http.endpoint_of(LAKE, 1, 1, token_file=file)
    assert [record.getMessage() for record in caplog.records] == [
        f"every user of this machine can read the secret in {token}: chmod 600 {token}"
    ]


def test_the_command_line_takes_a_profile_before_or_after_the_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = dict(os.environ)
    for words in (["--profile", "lak", "time"], ["time", "--profile", "lak"]):
        assert main.run(words) == 2
        assert "no profile 'lak'" in " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert os.environ == before
