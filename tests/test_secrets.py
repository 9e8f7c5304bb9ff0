"""The search for secrets finds them in each place that it names."""

from __future__ import annotations

import httpx
import psycopg
import pytest
import typer
from typer.testing import CliRunner

from chronolake_metastore.domain import tokens
from tests import fix_secrets
from tests.fix_secrets import ADMIN_TOKEN

TOKEN = tokens.text_of("abcdefghij", b"r" * 32)


@pytest.mark.parametrize("secret", [ADMIN_TOKEN, TOKEN, f"{'eyJ' + 'a' * 20}.{'eyJ' + 'b' * 20}.{'c' * 40}"])
def test_a_secret_in_a_text_is_found_and_not_shown(secret: str) -> None:
    with pytest.raises(AssertionError, match="the log of a server has a secret: b <the secret>") as found:
        fix_secrets.search(f"a\nb {secret}\nc", "the log of a server")
    assert secret not in str(found.value)


def test_a_command_may_show_a_token_and_no_other_secret() -> None:
    command = typer.Typer()
    command.command()(typer.echo)

    assert TOKEN in CliRunner().invoke(command, [TOKEN]).output
    with pytest.raises(AssertionError, match="the output of a command"):
        CliRunner().invoke(command, [ADMIN_TOKEN])


def test_a_secret_in_what_a_test_prints_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    typer.echo(ADMIN_TOKEN)
    with pytest.raises(AssertionError, match="the output of a command"):
        capsys.readouterr()


@pytest.mark.parametrize("secret", [ADMIN_TOKEN, ADMIN_TOKEN.encode().hex(), TOKEN])
def test_a_secret_in_a_row_is_found_before_the_database_is_dropped(dsn: str, secret: str) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute("INSERT INTO chronolake.token_name VALUES ('abcdefghij', %s)", [secret])

    fix_secrets.search_guarded(dsn)
    fix_secrets.guard(dsn)
    with pytest.raises(AssertionError, match="a row of token_name"):
        fix_secrets.search_guarded(dsn)


def test_a_secret_in_a_problem_is_found() -> None:
    def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(404, text=f"no {TOKEN}")

    with httpx.Client(transport=httpx.MockTransport(answer)) as client, pytest.raises(AssertionError):
        client.get("http://here")
