"""Tokens of OAuth 2 by the client credentials grant (RFC 6749, section 4.4), renewed before they expire."""

from __future__ import annotations

import functools
import logging
import math
import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator
from pathlib import Path
from typing import Final, NoReturn
from urllib.parse import quote_plus, urlsplit

import httpx
import msgspec

from chronolake import _credentials, errors
from chronolake._access import ClientCredentials
from chronolake_model import decoding, problems
from chronolake_model.problems import ProblemCode

_LOG: Final = logging.getLogger(_credentials.CREDENTIALS_LOGGER)
_ANSWER_SECONDS: Final = 10.0
_RENEWED_AT: Final = 0.8
"""The part of a token's life after which it is renewed."""
_LIFE_SECONDS_DEFAULT: Final = 60.0
"""The life of a token without ``expires_in``."""
_PAUSE_SECONDS: Final = 10.0
"""The pause after a failed renewal, and the age at which a refused token may be replaced."""
_SHOWN_CHARS: Final = 200


class _Answer(msgspec.Struct, frozen=True):
    access_token: str
    token_type: str = "Bearer"
    expires_in: int | float | str | None = None


class _Refusal(msgspec.Struct, frozen=True):
    error: str = ""
    error_description: str = ""


class _Fetched(msgspec.Struct, frozen=True):
    text: str
    fetched_at: float
    renewed_at: float
    expires_at: float

    def __repr__(self) -> str:  # type: ignore[explicit-override]  # typing.override is Python 3.12's
        return "<a fetched token>"


class FetchedToken(httpx.Auth):
    """The token of a client of OAuth 2. All threads and event loops of a process share it."""

    def __init__(
        self, credentials: ClientCredentials, ca_file: str | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """``ca_file`` has CAs that are trusted besides the usual ones.

        Raises ``ValueError`` for a file that cannot be used now, and for a URL by plain http.
        """
        self._credentials = credentials
        self._clock = clock
        self._url = credentials.token_url
        _refuse_unfit(self._url)
        self._secret()
        self._trusted = _credentials.trust(self._url, ca_file, besides_usual=True)
        self._sends_in_body: bool | None = None
        self._lock = threading.Lock()
        self._token: _Fetched | None = None
        self._failed_at = -math.inf
        self._failure: errors.ChronolakeError | None = None

    def sync_auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:  # type: ignore[explicit-override]  # as above
        """Send the token; a new one if the server refuses it, because it may have been revoked."""
        token = self.current()
        response = yield _with(token, request)
        if response.status_code == ProblemCode.UNAUTHENTICATED.status and self._forgets(token):
            yield _with(self.current(), request)

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:  # type: ignore[explicit-override]  # as above
        """As ``sync_auth_flow``. A thread waits for the identity provider."""
        token = await self._awaited()
        response = yield _with(token, request)
        if response.status_code == ProblemCode.UNAUTHENTICATED.status and self._forgets(token):
            yield _with(await self._awaited(), request)

    def __repr__(self) -> str:  # type: ignore[explicit-override]  # as above
        return "<FetchedToken>"

    def __reduce__(self) -> tuple[object, ...]:  # type: ignore[explicit-override]  # as above
        raise TypeError("a token is not pickled; each process fetches its own")

    async def _awaited(self) -> _Fetched:
        import asyncio  # noqa: PLC0415  # the blocking client does without

        if (token := self._fresh()) is not None:
            return token
        return await asyncio.to_thread(self.current)

    def _fresh(self) -> _Fetched | None:
        token = self._token
        return token if token is not None and self._clock() < token.renewed_at else None

    def current(self) -> _Fetched:
        """The token, renewed by one thread at a time. Raises ``ChronolakeError`` if there is none.

        While one thread renews a token that is still valid, the others use it.
        """
        if (token := self._fresh()) is not None:
            return token
        asked_at = self._clock()
        token = self._token
        is_valid = token is not None and asked_at < token.expires_at
        if not self._lock.acquire(blocking=not is_valid):
            assert token is not None
            return token
        try:
            return self._fresh() or self._renewed(asked_at)
        finally:
            self._lock.release()

    def _renewed(self, asked_at: float) -> _Fetched:
        """A new token; the former one if it is valid and there is no new one."""
        if self._failure is not None and self._failed_at > asked_at:
            # It failed while this thread waited for the lock.
            raise type(self._failure)(str(self._failure), self._failure.problem)
        try:
            self._token = self._fetched()
        except errors.ChronolakeError as failure:
            self._failed_at, self._failure = self._clock(), failure
            former = self._token
            if former is None or self._failed_at >= former.expires_at:
                raise
            _LOG.warning("a token could not be renewed, and the former one is used: %s", failure)
            renewed_at = min(self._failed_at + _PAUSE_SECONDS, former.expires_at)
            self._token = msgspec.structs.replace(former, renewed_at=renewed_at)
        return self._token

    def _forgets(self, refused: _Fetched) -> bool:
        """Whether another token may be accepted. One that was just fetched is not replaced."""
        token = self._token
        if token is not None and token.text == refused.text:
            if self._clock() - refused.fetched_at < _PAUSE_SECONDS:
                return False
            self._token = None
        return True

    def _fetched(self) -> _Fetched:
        began = self._clock()
        response = self._response()
        try:
            answer = decoding.decode(response.content, _Answer)
        except msgspec.DecodeError as exc:
            self._refuse(f"answered {response.status_code} without a token: is it the URL of tokens?", exc)
        if answer.token_type.lower() != "bearer":
            self._refuse(f"gives tokens of the type {answer.token_type[:_SHOWN_CHARS]!r}, not Bearer")
        try:
            text = _credentials.checked(answer.access_token, "its token")
        except ValueError as exc:
            self._refuse(str(exc), exc)
        life = _life(answer.expires_in)
        return _Fetched(text, began, began + _RENEWED_AT * life, began + life)

    def _response(self) -> httpx.Response:
        """The successful answer of the identity provider.

        Some take id and secret as Basic, and some in the body: as Go's library does, both are tried, once.
        """
        try:
            secret = self._secret()
        except ValueError as exc:
            self._refuse(f"is not asked: {exc}", exc)
        is_here = _credentials.is_plain_loopback(self._url)
        in_body = bool(self._sends_in_body)
        try:
            with httpx.Client(verify=self._trusted, timeout=_ANSWER_SECONDS, trust_env=not is_here) as http:
                response = self._ask(http, secret, in_body=in_body)
                if self._sends_in_body is None and response.status_code in (400, 401):
                    in_body = True
                    response = self._ask(http, secret, in_body=in_body)
        except httpx.TransportError as exc:
            reason = str(exc) or type(exc).__name__
            raise errors.ConnectionFailed(f"no answer from the token URL {self._url}: {reason}") from exc
        if not response.is_success:
            self._raise_refusal(response)
        self._sends_in_body = in_body
        return response

    def _ask(self, http: httpx.Client, secret: str, *, in_body: bool) -> httpx.Response:
        own = self._credentials
        form = {"grant_type": "client_credentials", "scope": own.scope, "audience": own.audience}
        if in_body:
            form |= {"client_id": own.client_id, "client_secret": secret}
        data = {name: value for name, value in form.items() if value is not None}
        basic = httpx.BasicAuth(quote_plus(own.client_id), quote_plus(secret))
        auth = httpx.USE_CLIENT_DEFAULT if in_body else basic
        return http.post(self._url, data=data, auth=auth, headers={"Accept": "application/json"})

    def _raise_refusal(self, response: httpx.Response) -> NoReturn:
        status = response.status_code
        if status == httpx.codes.TOO_MANY_REQUESTS or response.is_server_error:
            raise errors.ServerUnavailable(f"the token URL {self._url} answered {status}")
        try:
            refusal = decoding.decode(response.content, _Refusal)
        except msgspec.DecodeError:
            refusal = _Refusal()
        reason = f"{refusal.error} {refusal.error_description}".strip()[:_SHOWN_CHARS]
        self._refuse(f"answered {status} {reason}".strip())

    def _refuse(self, reason: str, cause: Exception | None = None) -> NoReturn:
        detail = (
            f"no token for the client {self._credentials.client_id!r}: the token URL {self._url} {reason}. Its "
            "settings are client_id, client_secret_file, token_url, scope and audience"
        )
        raise errors.error_of(problems.problem(ProblemCode.UNAUTHENTICATED, detail, "", {})) from cause

    def _secret(self) -> str:
        return _credentials.secret_in(Path(self._credentials.client_secret_file).expanduser())


@functools.cache
def token_of(credentials: ClientCredentials, ca_file: str | None) -> FetchedToken:
    """The token of these credentials, one in a process: each task of Spark makes a client of its own."""
    return FetchedToken(credentials, ca_file)


def _with(token: _Fetched, request: httpx.Request) -> httpx.Request:
    request.headers["Authorization"] = f"Bearer {token.text}"
    return request


def _refuse_unfit(token_url: str) -> None:
    parts = urlsplit(token_url)
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in token_url:
        # Without the URL: it may hold a secret.
        raise ValueError("token_url must be an https URL without a user, as https://idp.example/oauth2/token")
    _credentials.refuse_plain_http(token_url, "the secret of a client")


def _life(expires_in: int | float | str | None) -> float:
    """The life of a token in seconds. Some identity providers write the number as a text."""
    try:
        seconds = float(expires_in or 0)
    except ValueError:
        seconds = 0.0
    return seconds if 0 < seconds < math.inf else _LIFE_SECONDS_DEFAULT
