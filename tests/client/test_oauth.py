"""Client credentials of OAuth 2: tokens are fetched, shared, renewed in time, and no text has a secret."""

from __future__ import annotations

import asyncio
import logging
import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

import chronolake
from chronolake import ClientCredentials, errors
from chronolake._oauth import FetchedToken
from tests.fix_clock import SettableClock
from tests.fix_secrets import CLIENT_SECRET
from tests.fix_server import ServerProcess
from tests.identity_provider import IdentityProvider

LIFE = 1_000


@pytest.fixture
def idp() -> Iterator[IdentityProvider]:
    with IdentityProvider() as provider:
        yield provider


@pytest.fixture
def token(idp: IdentityProvider, tmp_path: Path, clock: SettableClock) -> FetchedToken:
    idp.expires_in = LIFE
    return FetchedToken(idp.credentials(tmp_path, scope="lake", audience="chronolake"), None, clock)


def test_both_clients_and_all_of_a_process_share_a_token_that_a_server_accepts(
    new_server: Callable[..., ServerProcess],
    dsn: str,
    idp: IdentityProvider,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    server = new_server(dsn, *idp.flags(tmp_path))
    idp.grant(server.url)
    credentials = idp.credentials(tmp_path)

    async def names() -> list[str]:
        async with chronolake.connect_async(server.url, oauth=credentials) as client:
            return [namespace.name async for namespace in client.namespaces()]

    with chronolake.connect(server.url, oauth=credentials) as client:
        client.create_namespace("shop")
        *_, created = client.events()
        passed_on = pickle.loads(pickle.dumps(client.access))
    assert asyncio.run(names()) == ["shop"]
    with chronolake.connect(passed_on) as client:
        assert [namespace.name for namespace in client.namespaces()] == ["shop"]
    assert created.actor == "oidc:corp:etl"
    assert [form["grant_type"] for form in idp.asked] == ["client_credentials"]
    shown = server.log() + caplog.text + repr(passed_on)
    assert not [secret for secret in (CLIENT_SECRET, *idp.given) if secret in shown]


def test_a_token_is_renewed_at_four_fifths_of_its_life(
    idp: IdentityProvider, token: FetchedToken, clock: SettableClock
) -> None:
    first = token.current().text
    clock.now = 0.79 * LIFE
    assert token.current().text == first
    clock.now = 0.81 * LIFE
    assert [token.current().text, token.current().text] == [idp.given[1]] * 2
    assert idp.asked[0] == {"grant_type": "client_credentials", "scope": "lake", "audience": "chronolake"}


def test_one_thread_renews_a_token_and_the_others_use_the_former_one_while_it_is_valid(
    idp: IdentityProvider, token: FetchedToken, clock: SettableClock
) -> None:
    with ThreadPoolExecutor(8) as threads:
        texts = [future.result().text for future in [threads.submit(token.current) for _ in range(8)]]
        assert (len(idp.asked), set(texts)) == (1, {idp.given[0]})
        clock.now = 0.9 * LIFE
        idp.opened.clear()
        renewing = threads.submit(token.current)
        while len(idp.asked) < 2:
            assert not renewing.done()
        assert {token.current().text for _ in range(3)} == {idp.given[0]}
        idp.opened.set()
        assert renewing.result().text == idp.given[1]
    assert len(idp.asked) == 2


def test_a_failed_renewal_leaves_the_former_token_until_it_expires(
    idp: IdentityProvider, token: FetchedToken, clock: SettableClock, caplog: pytest.LogCaptureFixture
) -> None:
    first = token.current().text
    idp.answer = (503, b"")
    clock.now = 0.9 * LIFE
    assert [token.current().text, token.current().text] == [first] * 2
    assert len(idp.asked) == 2
    assert "could not be renewed" in caplog.text
    clock.now = LIFE + 1
    with pytest.raises(errors.ServerUnavailable, match="answered 503"):
        token.current()


@pytest.mark.parametrize(
    ("answer", "raised", "reason"),
    [
        (None, errors.Unauthenticated, "401 invalid_client unknown client"),
        ((404, b"<html>"), errors.Unauthenticated, "answered 404"),
        ((200, b"<html>"), errors.Unauthenticated, "without a token"),
        ((200, b'{"access_token": "a b"}'), errors.Unauthenticated, "one word"),
        ((200, b'{"access_token": "a", "token_type": "mac"}'), errors.Unauthenticated, "'mac', not Bearer"),
        ((429, b""), errors.ServerUnavailable, "answered 429"),
    ],
)
def test_a_refusal_says_what_to_do_without_a_secret(
    idp: IdentityProvider,
    tmp_path: Path,
    answer: tuple[int, bytes] | None,
    raised: type[errors.ChronolakeError],
    reason: str,
) -> None:
    idp.answer = answer
    token = FetchedToken(idp.credentials(tmp_path, client_id="another"), None)
    with pytest.raises(raised, match=reason) as refused:
        token.current()
    assert idp.url in str(refused.value)
    assert CLIENT_SECRET not in str(refused.value)


def test_a_provider_may_want_the_secret_in_the_body(idp: IdentityProvider, tmp_path: Path) -> None:
    idp.takes_basic, idp.expires_in = False, "0"
    token = FetchedToken(idp.credentials(tmp_path), None)
    assert token.current().text == idp.given[0]
    assert ["client_secret" in form for form in idp.asked] == [False, True]


def test_a_token_that_the_server_refuses_is_replaced_once_and_not_when_it_is_new(
    idp: IdentityProvider, token: FetchedToken, clock: SettableClock
) -> None:
    accepted = {2}

    def answer(request: httpx.Request) -> httpx.Response:
        number = 1 + idp.given.index(request.headers["Authorization"].removeprefix("Bearer "))
        return httpx.Response(200 if number in accepted else 401)

    async def status() -> int:
        async with httpx.AsyncClient(transport=httpx.MockTransport(answer), auth=token) as client:
            return (await client.get("http://lake")).status_code

    with httpx.Client(transport=httpx.MockTransport(answer), auth=token) as client:
        assert client.get("http://lake").status_code == 401
        assert len(idp.asked) == 1
        clock.now = 60.0
        assert client.get("http://lake").status_code == 200
    accepted.add(3)
    accepted.remove(2)
    clock.now = 120.0
    assert [asyncio.run(status()), asyncio.run(status())] == [200, 200]
    assert len(idp.asked) == 3


def test_a_provider_that_does_not_answer_is_asked_again(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text(CLIENT_SECRET)
    credentials = ClientCredentials(
        client_id="etl", client_secret_file=str(file), token_url="http://127.0.0.1:1/token"
    )
    with pytest.raises(errors.ConnectionFailed, match="no answer from the token URL"):
        FetchedToken(credentials, None).current()
    assert CLIENT_SECRET not in repr(FetchedToken(credentials, None))


@pytest.mark.parametrize(
    "token_url", ["http://idp.example/token", f"https://etl:{CLIENT_SECRET}@idp.example", "idp.example/token"]
)
def test_the_secret_of_a_client_does_not_travel_over_plain_http(
    idp: IdentityProvider, tmp_path: Path, token_url: str
) -> None:
    with pytest.raises(ValueError, match="https") as refused:
        FetchedToken(idp.credentials(tmp_path, token_url=token_url), None)
    assert CLIENT_SECRET not in str(refused.value)
