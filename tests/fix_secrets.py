"""No secret that the tests use is anywhere that others read (T50 of ``server/attacks.py``).

Tests fail that leave a secret in one of these places:

- the log of each server, when it stops,
- each database of a server with access on or with keys of storage, before it is dropped: all rows but answers
  to successes, which are packed,
- problems that clients over httpx get,
- the output and the errors of command lines that end, and what pytest captures of a test.

Secrets are the fixed ones below, those that a test ``add``s, keys that the STS of the tests gives, and all
tokens of ours and of issuers, which are known by their form. What a command line prints may have tokens,
because some are there to show one. Not searched are programs in Java, what Spark shows and logs, which has
tests of its own (``spark/test_secrets.py``, ``spark/test_token.py``), and processes that tests start by
themselves.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from typing import Any, Final

import httpx
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from typer.testing import CliRunner

ADMIN_TOKEN: Final = "an-admins-secret-of-more-than-32-characters"
STORAGE_SECRET: Final = "a-secret-key-of-the-storage"
DATABASE_PASSWORD: Final = "a-password-of-the-database"
CLIENT_SECRET: Final = "secret:of/a+client%of-the-provider"
TOKENS: Final = r"clk_[a-z2-7]{10}_[0-9A-Za-z]{49}|eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{20,}"
"""Tokens of ours, and of issuers."""

_TOKEN: Final = re.compile(TOKENS)
_TABLES: Final = """
    SELECT format('SELECT %L AS name, t::text AS row FROM chronolake.%I t', relname, relname)
    FROM pg_class WHERE relnamespace = 'chronolake'::regnamespace AND relkind = 'r'
"""
_LEAKS: Final = """
    SELECT name, row FROM ({rows}) AS rows
    WHERE row ~ %(tokens)s OR EXISTS (SELECT FROM unnest(%(known)s::text[]) k WHERE position(k IN row) > 0)
"""
_known: Final[set[str]] = {ADMIN_TOKEN, STORAGE_SECRET, DATABASE_PASSWORD, CLIENT_SECRET}
_databases: Final[set[str]] = set()


def add(*secrets: str) -> None:
    """Search for more secrets from now on."""
    _known.update(secrets)


def guard(dsn: str) -> None:
    """Search a database for secrets before it is dropped."""
    _databases.add(_name(dsn))


def search(text: str, place: str, *, shows_tokens: bool = False) -> None:
    """Fail if a text has a secret; tokens do not count where one may be shown."""
    leaked = [secret for secret in _known if secret in text]
    if not shows_tokens:
        leaked += _TOKEN.findall(text)
    for secret in leaked:
        line = next(line for line in text.splitlines() if secret in line)
        raise AssertionError(f"{place} has a secret: {line.replace(secret, '<the secret>')[:500]}")


def search_database(dsn: str) -> None:
    """Fail if a row has a secret. PostgreSQL shows bytes in hexadecimal."""
    known = [form for secret in _known for form in (secret, secret.encode().hex())]
    with psycopg.connect(dsn) as connection:
        rows = " UNION ALL ".join(query for (query,) in connection.execute(_TABLES).fetchall())
        sql = _LEAKS.replace("{rows}", rows).encode()
        for table, row in connection.execute(sql, {"tokens": TOKENS, "known": known}).fetchall():
            raise AssertionError(f"a row of {table} has a secret: {row[:500]}")


def search_guarded(dsn: str) -> None:
    """Search a database that is to be dropped, if a server has used it with secrets."""
    name = _name(dsn)
    if name in _databases:
        _databases.remove(name)
        search_database(dsn)


@pytest.fixture(scope="session", autouse=True)
def searched_texts() -> Iterator[None]:
    """Search each problem, and each output of a command that a test reads."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(httpx.Client, "send", _searched_send(httpx.Client.send))
        patched.setattr(httpx.AsyncClient, "send", _searched_async_send(httpx.AsyncClient.send))
        patched.setattr(CliRunner, "invoke", _searched_invoke(CliRunner.invoke))
        patched.setattr(pytest.CaptureFixture, "readouterr", _searched_output(pytest.CaptureFixture.readouterr))
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Search what pytest captured of a test."""
    report = yield
    for name, text in report.sections:
        try:
            search(text, name, shows_tokens="log" not in name)
        except AssertionError as exc:
            report.outcome, report.longrepr = "failed", str(exc)
    return report


def _searched_send(send: Any) -> Any:
    def searched(client: httpx.Client, *args: Any, **kwargs: Any) -> httpx.Response:
        return _without_secret(send(client, *args, **kwargs))

    return searched


def _searched_async_send(send: Any) -> Any:
    async def searched(client: httpx.AsyncClient, *args: Any, **kwargs: Any) -> httpx.Response:
        return _without_secret(await send(client, *args, **kwargs))

    return searched


def _without_secret(response: httpx.Response) -> httpx.Response:
    # The body of a stream is not here yet.
    if response.is_error and response.is_closed:
        search(response.text, f"the answer {response.status_code}")
    return response


def _searched_invoke(invoke: Any) -> Any:
    def searched(*args: Any, **kwargs: Any) -> Any:
        ended = invoke(*args, **kwargs)
        search(ended.output, "the output of a command", shows_tokens=True)
        return ended

    return searched


def _searched_output(readouterr: Any) -> Any:
    def searched(capture: pytest.CaptureFixture[Any]) -> Any:
        read = readouterr(capture)
        for text in read:
            if isinstance(text, str):
                search(text, "the output of a command", shows_tokens=True)
        return read

    return searched


def _name(dsn: str) -> str:
    return str(conninfo_to_dict(dsn)["dbname"])
