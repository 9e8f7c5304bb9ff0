"""Sends a call and waits out what passes: a broken connection, a restarting server, a full queue."""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import importlib.metadata
import os
import random
import socket
import time
import urllib.parse
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator, Mapping
from typing import Any, TypeVar

import httpx
import msgspec

from chronolake import errors
from chronolake.calls.base import Call, Page
from chronolake_model.files import ARROW
from chronolake_model.problems import Problem

URL_VARIABLE = "CHRONOLAKE_URL"
URL_DEFAULT = "http://127.0.0.1:7077"

_PAUSE_FIRST_SECONDS = 0.1
_PAUSE_MAX_SECONDS = 5.0
_STREAM_SILENT_SECONDS = 60.0
"""A server says every fifteen seconds that its stream lives."""
_UNAVAILABLE_STATUS = frozenset({502, 503, 504})
_BODY_SHOWN_CHARS = 200
_KEY_HEADER = "Idempotency-Key"
_ARROW_OR_PROBLEM = f"{ARROW}, application/problem+json;q=0.5"

_Answer = TypeVar("_Answer")
_Page = TypeVar("_Page", bound=Page)


class Endpoint(msgspec.Struct, frozen=True):
    """Where the server is, and how long to wait for it: for one answer, and over all retries."""

    url: str
    timeout_seconds: float
    retry_seconds: float

    @property
    def is_encrypted(self) -> bool:
        """Whether there are certificates to check.

        What checks them takes 30 ms to load, in each task of a job: so it is left out where there are none.
        """
        return not self.url.lower().startswith("http:")


class Transport:
    """Sends calls, blocking. Threads may share it."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._http = httpx.Client(
            base_url=endpoint.url,
            timeout=endpoint.timeout_seconds,
            headers=standing_headers(),
            verify=endpoint.is_encrypted,
        )

    def send(
        self, call: Call[_Answer], *, key: str | None = None, retry_seconds: float | None = None
    ) -> _Answer:
        """The answer to ``call``; raises a ``ChronolakeError`` when there is none.

        ``key`` is the idempotency key of a command, a new one unless given; ``retry_seconds`` is the
        endpoint's unless given, and 0 tries once.
        """
        return answer_of(call, self._respond(call, headers_of(call, key or new_key()), retry_seconds))

    def send_for_arrow(self, call: Call[Any]) -> bytes:
        """The answer to ``call`` as an Arrow IPC stream."""
        return self._respond(call, arrow_headers_of(call)).content

    def _respond(
        self, call: Call[Any], headers: dict[str, str], retry_seconds: float | None = None
    ) -> httpx.Response:
        # A POST may be retried as safely as a GET: each command carries one key over all of its tries, and
        # the server answers the second arrival of a key with the first one's answer.
        patience = Patience(self.endpoint.retry_seconds if retry_seconds is None else retry_seconds)
        while True:
            try:
                with failures_name_the_key(headers), no_answer_is_an_error(self.endpoint.url):
                    response = self._http.request(
                        call.method, call.path, params=call.query, content=call.body, headers=headers
                    )
                    return successful(response)
            except (errors.ConnectionFailed, errors.ServerUnavailable) as failure:
                pause = patience.pause_after(failure)
                if pause is None:
                    raise
            time.sleep(pause)

    def pages(self, call: Call[_Page]) -> Iterator[_Page]:
        """All pages of a list, each fetched when it is asked for."""
        page = self.send(call)
        yield page
        while page.next_cursor is not None:
            page = self.send(call.page_at(page.next_cursor))
            yield page

    def lines(self, call: Call[Any]) -> Generator[str, None, None]:
        """The lines of an answer that goes on and on, as they come; one try."""
        with (
            no_answer_is_an_error(self.endpoint.url),
            self._http.stream(
                call.method, call.path, params=call.query, timeout=_stream_timeout(self.endpoint)
            ) as response,
        ):
            if not _is_stream(response):
                response.read()
                raise _no_stream(response)
            splitter = LineSplitter()
            for text in response.iter_text():
                yield from splitter.lines_in(text)

    @contextlib.contextmanager
    def chunks(self, call: Call[Any]) -> Generator[Iterator[bytes], None, None]:
        """The bytes of an answer as an Arrow IPC stream, as they come; one try."""
        with (
            no_answer_is_an_error(self.endpoint.url),
            self._http.stream(**_arrow_request(call, self.endpoint)) as response,
        ):
            if not response.is_success:
                response.read()
                raise _error_of(response)
            yield response.iter_bytes()

    def close(self) -> None:
        """Give the connections back."""
        self._http.close()


class AsyncTransport:
    """Sends calls, awaiting. Tasks of one event loop may share it."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._http = httpx.AsyncClient(
            base_url=endpoint.url,
            timeout=endpoint.timeout_seconds,
            headers=standing_headers(),
            verify=endpoint.is_encrypted,
        )

    async def send(
        self, call: Call[_Answer], *, key: str | None = None, retry_seconds: float | None = None
    ) -> _Answer:
        """As ``Transport.send``; a cancelled command may or may not have happened."""
        return answer_of(call, await self._respond(call, headers_of(call, key or new_key()), retry_seconds))

    async def send_for_arrow(self, call: Call[Any]) -> bytes:
        """As ``Transport.send_for_arrow``."""
        return (await self._respond(call, arrow_headers_of(call))).content

    async def _respond(
        self, call: Call[Any], headers: dict[str, str], retry_seconds: float | None = None
    ) -> httpx.Response:
        patience = Patience(self.endpoint.retry_seconds if retry_seconds is None else retry_seconds)
        while True:
            try:
                with failures_name_the_key(headers), no_answer_is_an_error(self.endpoint.url):
                    response = await self._http.request(
                        call.method, call.path, params=call.query, content=call.body, headers=headers
                    )
                    return successful(response)
            except (errors.ConnectionFailed, errors.ServerUnavailable) as failure:
                pause = patience.pause_after(failure)
                if pause is None:
                    raise
            await asyncio.sleep(pause)

    async def pages(self, call: Call[_Page]) -> AsyncGenerator[_Page, None]:
        """All pages of a list, each fetched when it is asked for."""
        page = await self.send(call)
        yield page
        while page.next_cursor is not None:
            page = await self.send(call.page_at(page.next_cursor))
            yield page

    async def lines(self, call: Call[Any]) -> AsyncGenerator[str, None]:
        """As ``Transport.lines``."""
        with no_answer_is_an_error(self.endpoint.url):
            async with self._http.stream(
                call.method, call.path, params=call.query, timeout=_stream_timeout(self.endpoint)
            ) as response:
                if not _is_stream(response):
                    await response.aread()
                    raise _no_stream(response)
                splitter = LineSplitter()
                async for text in response.aiter_text():
                    for line in splitter.lines_in(text):
                        yield line

    @contextlib.asynccontextmanager
    async def chunks(self, call: Call[Any]) -> AsyncGenerator[AsyncIterator[bytes], None]:
        """As ``Transport.chunks``."""
        with no_answer_is_an_error(self.endpoint.url):
            async with self._http.stream(**_arrow_request(call, self.endpoint)) as response:
                if not response.is_success:
                    await response.aread()
                    raise _error_of(response)
                yield response.aiter_bytes()

    async def close(self) -> None:
        """Give the connections back."""
        await self._http.aclose()


class LineSplitter:
    """Lines of a text that comes in pieces, as server-sent events have them.

    Only line feeds end them: what Python takes for line ends beside those JSON holds as it is (U+2028, U+0085).
    """

    def __init__(self) -> None:
        self._begun = ""

    def lines_in(self, text: str) -> list[str]:
        """The lines that ``text`` ends; what it begins is kept for the next."""
        *lines, self._begun = (self._begun + text).split("\n")
        return [line.removesuffix("\r") for line in lines]


class Patience:
    """How long to pause before the next try, until ``retry_seconds`` after the first are used up."""

    def __init__(self, retry_seconds: float) -> None:
        self._deadline = time.monotonic() + retry_seconds
        self._tries = 0

    def pause_after(self, failure: errors.ConnectionFailed | errors.ServerUnavailable) -> float | None:
        """Seconds to pause; None when it is time to give up."""
        wanted = failure.retry_after_seconds if isinstance(failure, errors.ServerUnavailable) else 0.0
        pause = pause_seconds(self._tries, wanted, random.uniform(0.5, 1.0))
        self._tries += 1
        return pause if time.monotonic() + pause < self._deadline else None


def pause_seconds(tries: int, wanted_seconds: float, jitter: float) -> float:
    """Exponential in ``tries``, bounded, spread by ``jitter`` (0.5..1); never less than the server wants.

    Without the jitter all clients of a server that restarts would come back at once, again and again.
    """
    backoff: float = min(_PAUSE_FIRST_SECONDS * 2 ** min(tries, 30), _PAUSE_MAX_SECONDS)
    return wanted_seconds + backoff * jitter


@contextlib.contextmanager
def no_answer_is_an_error(url: str) -> Iterator[None]:
    """Turn httpx's errors into ours."""
    try:
        yield
    except httpx.TransportError as exc:
        what = str(exc) or type(exc).__name__
        raise errors.ConnectionFailed(f"no answer from {url}: {what}") from exc


@contextlib.contextmanager
def failures_name_the_key(headers: Mapping[str, str]) -> Iterator[None]:
    """Have a failure say under which idempotency key its command was sent, so that it can be asked after."""
    try:
        yield
    except errors.ChronolakeError as failure:
        failure.idempotency_key = headers.get(_KEY_HEADER)
        raise


def successful(response: httpx.Response) -> httpx.Response:
    """The response, or its error raised."""
    if not response.is_success:
        raise _error_of(response)
    return response


def answer_of(call: Call[_Answer], response: httpx.Response) -> _Answer:
    """The decoded answer, or its error raised. Fields that this client does not know are ignored."""
    successful(response)
    if call.answer is type(None):
        return None
    try:
        return msgspec.json.decode(response.content, type=call.answer)
    except msgspec.DecodeError as exc:
        raise _unexpected(
            response, f"{exc}; is it a Chronolake server, and no newer than this client?"
        ) from exc


def endpoint_of(url: str | None, timeout_seconds: float, retry_seconds: float) -> Endpoint:
    """The endpoint at ``url``, or $CHRONOLAKE_URL, or on this host. Raises ``ValueError`` for no http URL."""
    chosen = url or os.environ.get(URL_VARIABLE) or URL_DEFAULT
    parts = urllib.parse.urlsplit(chosen)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"a server's URL is http://host:port or https://host:port, not {chosen!r}")
    return Endpoint(chosen.rstrip("/"), timeout_seconds, retry_seconds)


def standing_headers() -> dict[str, str]:
    """The headers of every request."""
    return {
        "Accept": "application/json, application/problem+json",
        "User-Agent": f"chronolake-python/{version()}",
        "Chronolake-Actor": _header_text(actor()),
    }


def headers_of(call: Call[_Answer], key: str) -> dict[str, str]:
    """The headers of one call, the same on each of its tries."""
    headers = {}
    if call.is_command:
        headers[_KEY_HEADER] = key
    if call.body is not None:
        headers["Content-Type"] = "application/json"
    return headers


def arrow_headers_of(call: Call[Any]) -> dict[str, str]:
    """The headers of one call, no command, that is to be answered as an Arrow IPC stream."""
    assert not call.is_command
    return {**headers_of(call, key=""), "Accept": _ARROW_OR_PROBLEM}


def new_key() -> str:
    """A new idempotency key."""
    return str(uuid.uuid4())


def version() -> str:
    """The version of this client."""
    return importlib.metadata.version("chronolake")


def actor() -> str:
    """Who we are: user@host."""
    return f"{_user()}@{socket.gethostname()}"


def default_writer() -> str:
    """This process: user@host:pid."""
    return f"{actor()}:{os.getpid()}"[:255]


def _arrow_request(call: Call[Any], endpoint: Endpoint) -> dict[str, Any]:
    """What httpx streams the answer to."""
    return {
        "method": call.method,
        "url": call.path,
        "params": call.query,
        "content": call.body,
        "headers": arrow_headers_of(call),
        "timeout": _stream_timeout(endpoint),
    }


def _stream_timeout(endpoint: Endpoint) -> httpx.Timeout:
    return httpx.Timeout(endpoint.timeout_seconds, read=_STREAM_SILENT_SECONDS)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # A container may run under a number that no passwd file knows.
        return f"uid-{os.getuid()}" if hasattr(os, "getuid") else "unknown"


def _header_text(text: str) -> str:
    return "".join(char if " " <= char <= "~" else "?" for char in text)[:255]


def _error_of(response: httpx.Response) -> errors.ChronolakeError:
    try:
        problem = msgspec.json.decode(response.content, type=Problem)
    except msgspec.DecodeError:
        error = _unexpected(response, "not a problem document; is it a Chronolake server?")
    else:
        error = errors.error_of(problem)
    if isinstance(error, errors.ServerUnavailable):
        error.retry_after_seconds = _retry_after_seconds(response)
    return error


def _is_stream(response: httpx.Response) -> bool:
    return response.is_success and response.headers.get("Content-Type", "").startswith("text/event-stream")


def _no_stream(response: httpx.Response) -> errors.ChronolakeError:
    if response.is_success:
        return _unexpected(response, "not a stream of events; is it a Chronolake server?")
    return _error_of(response)


def _unexpected(response: httpx.Response, why: str) -> errors.ChronolakeError:
    """The error of an answer that is not this API's, as if it were a problem."""
    shown = response.text[:_BODY_SHOWN_CHARS].strip()
    problem = Problem(
        type="about:blank",
        title=f"HTTP {response.status_code} {response.reason_phrase}".strip(),
        status=response.status_code,
        code=errors.UNEXPECTED_ANSWER,
        detail=f"{response.request.url} answered {shown!r}: {why}",
    )
    message = f"{problem.title}: {problem.detail}"
    unavailable = response.status_code in _UNAVAILABLE_STATUS
    return errors.ServerUnavailable(message, problem) if unavailable else errors.ServerError(message, problem)


def _retry_after_seconds(response: httpx.Response) -> float:
    # The header may also be a date; our server sends seconds, and without them the backoff serves.
    text = response.headers.get("Retry-After", "")
    return float(text) if text.isascii() and text.isdigit() else 0.0
