"""How a call becomes an HTTP request, and a response an answer or an error; and how long to retry. No I/O."""

from __future__ import annotations

import contextlib
import getpass
import importlib.metadata
import os
import random
import socket
import time
import urllib.parse
import uuid
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeVar

import httpx
import msgspec

from chronolake import errors
from chronolake.calls.base import Call
from chronolake_model.backoff import Backoff
from chronolake_model.files import ARROW
from chronolake_model.problems import Problem

URL_VARIABLE = "CHRONOLAKE_URL"
URL_DEFAULT = "http://127.0.0.1:7077"

_BACKOFF: Final = Backoff(first_seconds=0.1, max_seconds=5.0)
_STREAM_SILENT_SECONDS = 60.0
"""A server sends a comment every fifteen seconds, to show that its stream is alive."""
_UNAVAILABLE_STATUS = frozenset({502, 503, 504})
_BODY_SHOWN_CHARS = 200
_KEY_HEADER = "Idempotency-Key"
_ARROW_OR_PROBLEM = f"{ARROW}, application/problem+json;q=0.5"

_Answer = TypeVar("_Answer")


class Endpoint(msgspec.Struct, frozen=True):
    """Where the server is, and how long to wait for it: for one answer, and over all retries."""

    url: str
    timeout_seconds: float
    retry_seconds: float

    @property
    def is_encrypted(self) -> bool:
        """Whether there are certificates to check.

        Without certificates httpx loads no store of them, which takes 30 ms in each task of a job.
        """
        return not self.url.lower().startswith("http:")


class LineSplitter:
    """Splits a text that comes in pieces into lines, as server-sent events have them.

    Only a line feed ends a line: JSON may contain the other characters at which Python splits (U+2028, U+0085).
    """

    def __init__(self) -> None:
        self._incomplete_line = ""

    def lines_in(self, text: str) -> list[str]:
        """The lines that ``text`` completes; an incomplete last line is kept for the next piece."""
        *lines, self._incomplete_line = (self._incomplete_line + text).split("\n")
        return [line.removesuffix("\r") for line in lines]


class Retries:
    """The pauses between the tries of one request, until ``retry_seconds`` after the first try."""

    def __init__(self, retry_seconds: float) -> None:
        self._deadline = time.monotonic() + retry_seconds
        self._tries = 0

    def pause_after(self, failure: errors.ConnectionFailed | errors.ServerUnavailable) -> float | None:
        """Seconds to pause; None when it is time to give up."""
        retry_after = failure.retry_after_seconds if isinstance(failure, errors.ServerUnavailable) else 0.0
        pause = retry_after + _BACKOFF.pause_seconds(self._tries, random.uniform(0.5, 1.0))
        self._tries += 1
        return pause if time.monotonic() + pause < self._deadline else None


@contextlib.contextmanager
def connection_failures(url: str) -> Iterator[None]:
    """Turn httpx's errors into ``ConnectionFailed``."""
    try:
        yield
    except httpx.TransportError as exc:
        reason = str(exc) or type(exc).__name__
        raise errors.ConnectionFailed(f"no answer from {url}: {reason}") from exc


@contextlib.contextmanager
def failures_with_key(headers: Mapping[str, str]) -> Iterator[None]:
    """Add the idempotency key of the command to a failure, so that the caller can query the outcome."""
    try:
        yield
    except errors.ChronolakeError as failure:
        failure.idempotency_key = headers.get(_KEY_HEADER)
        raise


def successful(response: httpx.Response) -> httpx.Response:
    """The response, or its error raised."""
    if not response.is_success:
        raise error_of(response)
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
    server_url = url or os.environ.get(URL_VARIABLE) or URL_DEFAULT
    parts = urllib.parse.urlsplit(server_url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"a server's URL is http://host:port or https://host:port, not {server_url!r}")
    return Endpoint(server_url.rstrip("/"), timeout_seconds, retry_seconds)


def client_headers() -> dict[str, str]:
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


def table_headers(table_id: str) -> dict[str, str]:
    """The headers of calls of one table: the server refuses them where another table has the name by now."""
    return {"Chronolake-Table-Id": table_id}


def followed(call: Call[_Answer], key: str, refused: errors.NotFound) -> tuple[Call[_Answer], str] | None:
    """The call under the present name of its table, and a key for it; None if the table was not renamed.

    The first key is used up by the refusal. The next one follows from it, so that a repeated call is one
    command.
    """
    new_name = refused.context.get("renamed_to")
    # Only a refusal that says the id is sure of the table: a name alone may have had several.
    if not isinstance(new_name, str) or "table_id" not in refused.context:
        return None
    call_again = call.of_table(new_name)
    return call_again, str(uuid.uuid5(uuid.NAMESPACE_URL, f"{key} {new_name}"))


def new_key() -> str:
    """A new idempotency key."""
    return str(uuid.uuid4())


def version() -> str:
    """The version of this client."""
    return importlib.metadata.version("chronolake")


def actor() -> str:
    """The user of this process: user@host."""
    return f"{_user()}@{socket.gethostname()}"


def default_writer() -> str:
    """The writer unless the caller names one: this process, user@host:pid."""
    return f"{actor()}:{os.getpid()}"[:255]


def arrow_request(call: Call[Any], endpoint: Endpoint) -> dict[str, Any]:
    """The arguments of httpx for an answer that is streamed as Arrow."""
    return {
        "method": call.method,
        "url": call.path,
        "params": call.query,
        "content": call.body,
        "headers": arrow_headers_of(call),
        "timeout": stream_timeout(endpoint),
    }


def stream_timeout(endpoint: Endpoint) -> httpx.Timeout:
    """The timeouts of a streamed answer: longer between two pieces than between request and response."""
    return httpx.Timeout(endpoint.timeout_seconds, read=_STREAM_SILENT_SECONDS)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # A container may run under a user id that no passwd file has.
        return f"uid-{os.getuid()}" if hasattr(os, "getuid") else "unknown"


def _header_text(text: str) -> str:
    return "".join(char if " " <= char <= "~" else "?" for char in text)[:255]


def error_of(response: httpx.Response) -> errors.ChronolakeError:
    """The error that a response stands for, typed by its problem document."""
    try:
        problem = msgspec.json.decode(response.content, type=Problem)
    except msgspec.DecodeError:
        error = _unexpected(response, "not a problem document; is it a Chronolake server?")
    else:
        error = errors.error_of(problem)
    if isinstance(error, errors.ServerUnavailable):
        error.retry_after_seconds = _retry_after_seconds(response)
    return error


def is_event_stream(response: httpx.Response) -> bool:
    """Whether a response is a stream of server-sent events."""
    return response.is_success and response.headers.get("Content-Type", "").startswith("text/event-stream")


def not_event_stream(response: httpx.Response) -> errors.ChronolakeError:
    """The error of a response that is no stream of events."""
    if response.is_success:
        return _unexpected(response, "not a stream of events; is it a Chronolake server?")
    return error_of(response)


def _unexpected(response: httpx.Response, why: str) -> errors.ChronolakeError:
    """The error of an answer that is not from this API, in the form of a problem."""
    excerpt = response.text[:_BODY_SHOWN_CHARS].strip()
    problem = Problem(
        type="about:blank",
        title=f"HTTP {response.status_code} {response.reason_phrase}".strip(),
        status=response.status_code,
        code=errors.UNEXPECTED_ANSWER,
        detail=f"{response.request.url} answered {excerpt!r}: {why}",
    )
    message = f"{problem.title}: {problem.detail}"
    unavailable = response.status_code in _UNAVAILABLE_STATUS
    return errors.ServerUnavailable(message, problem) if unavailable else errors.ServerError(message, problem)


def _retry_after_seconds(response: httpx.Response) -> float:
    # HTTP allows a date too. Chronolake sends seconds; for anything else the backoff alone decides.
    text = response.headers.get("Retry-After", "")
    return float(text) if text.isascii() and text.isdigit() else 0.0
