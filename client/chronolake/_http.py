"""Turns calls into HTTP requests, and responses into answers or errors; computes pauses of retries. No I/O."""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import logging
import os
import random
import socket
import ssl
import time
import urllib.parse
import uuid
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeVar

import httpx
import msgspec

from chronolake import _credentials, _sources, errors
from chronolake._access import ClientCredentials, ServerAccess
from chronolake.calls.base import Call
from chronolake_model import decoding, machine
from chronolake_model.backoff import Backoff
from chronolake_model.files import ARROW
from chronolake_model.problems import Problem, ProblemCode

RENAMES_MAX: Final = 3
"""The most renames of tables that one call follows."""

RETRY_SECONDS: Final = 60.0
"""How long a request is retried, unless the caller says it."""
FIRST_ANSWER_SECONDS: Final = 5.0
"""The same while the server has never answered this process: its URL may be wrong."""

RETRY_LOGGER: Final = "chronolake.retries"
_LOG: Final = logging.getLogger(RETRY_LOGGER)
_LOGGED_TRY: Final = 3
"""A request that fails so often, within half a second if nothing answers, is worth a line of the log."""

_ANSWERED_URLS: Final[set[str]] = set()
"""The URLs of the servers that have answered this process."""
_WHERE_IS_IT: Final = (
    "Start a server with `chronolake-metastore serve`, or give the URL of one (url in Python and "
    "in Spark, --url, or CHRONOLAKE_URL)"
)
_SPEAKS_NO_HTTP: Final = "What answers there speaks no HTTP: if that server has TLS, give its URL as https://…"
_SPEAKS_HTTP: Final = "The server there has no TLS: give its URL as http://…"
_NOT_TRUSTED: Final = (
    "Give the certificates that this client is to trust: ca_file (--ca-file), or the variable "
    "CHRONOLAKE_CA_FILE"
)

_BACKOFF: Final = Backoff(first_seconds=0.1, max_seconds=5.0)
_STREAM_SILENT_SECONDS = 60.0
"""The longest silence on a stream. The server sends a comment every 15 seconds to keep it alive."""
_UNAVAILABLE_STATUS = frozenset({502, 503, 504})
_BODY_SHOWN_CHARS = 200
_KEY_HEADER = "Idempotency-Key"
_ARROW_OR_PROBLEM = f"{ARROW}, application/problem+json;q=0.5"

_Answer = TypeVar("_Answer")


class Endpoint(msgspec.Struct, frozen=True):
    """The server's URL, and the time limits for one answer and for all retries."""

    url: str
    timeout_seconds: float
    retry_seconds: float | None
    """None: ``RETRY_SECONDS``, but ``FIRST_ANSWER_SECONDS`` before the server's first answer."""
    token: httpx.Auth | None = None
    trusted: ssl.SSLContext | bool = True
    """The certificates that are trusted; True: those that httpx brings, False: there is no TLS."""
    access: ServerAccess = ServerAccess()
    """How other processes of the same job reach the server."""

    @property
    def is_plain_loopback(self) -> bool:
        """Whether requests are not encrypted because they do not leave this machine: no proxy may get them."""
        return _credentials.is_plain_loopback(self.url)

    @property
    def has_answered(self) -> bool:
        """Whether the server has answered this process: then its URL is right."""
        return self.url in _ANSWERED_URLS

    @property
    def patience_seconds(self) -> float:
        """How long a request is retried now."""
        if self.retry_seconds is not None:
            return self.retry_seconds
        return RETRY_SECONDS if self.has_answered else FIRST_ANSWER_SECONDS

    def answered(self) -> None:
        """Take note of an answer, whatever it is."""
        _ANSWERED_URLS.add(self.url)


class LineSplitter:
    """Splits text that arrives in pieces into the lines of server-sent events.

    Only a line feed ends a line: JSON may contain other characters at which Python splits (U+2028, U+0085).
    """

    def __init__(self) -> None:
        self._incomplete_line = ""

    def lines_in(self, text: str) -> list[str]:
        """The lines that ``text`` completes; an incomplete last line is kept for the next piece."""
        *lines, self._incomplete_line = (self._incomplete_line + text).split("\n")
        return [line.removesuffix("\r") for line in lines]


class Retries:
    """The pauses between the tries of one request, until ``retry_seconds`` after the first try.

    Without ``retry_seconds`` the endpoint decides, anew after each try.
    """

    def __init__(self, endpoint: Endpoint, retry_seconds: float | None = None) -> None:
        self._endpoint = endpoint
        self._retry_seconds = retry_seconds
        self._begun = time.monotonic()
        self._tries = 0

    def pause_after(self, failure: errors.ConnectionFailed | errors.ServerUnavailable) -> float | None:
        """Seconds to pause; None when the retries are used up, or cannot help."""
        if isinstance(failure, errors.ConnectionFailed) and failure.is_final:
            return None
        retry_after = failure.retry_after_seconds if isinstance(failure, errors.ServerUnavailable) else 0.0
        pause = retry_after + _BACKOFF.pause_seconds(self._tries, random.uniform(0.5, 1.0))
        self._tries += 1
        seconds = self._endpoint.patience_seconds if self._retry_seconds is None else self._retry_seconds
        if self._tries == _LOGGED_TRY and seconds > FIRST_ANSWER_SECONDS:
            _LOG.warning("%s; the request is sent again for %.0f s", failure, seconds)
        passed = time.monotonic() - self._begun
        if passed + pause < seconds:
            return pause
        if self._tries > 1 and isinstance(failure, errors.ConnectionFailed):
            retried = f"retried for {passed:.0f} s; retry_seconds of the client sets how long"
            failure.args = (f"{failure} ({retried})",)
        return None


@contextlib.contextmanager
def connection_failures(endpoint: Endpoint) -> Iterator[None]:
    """Turns httpx's errors into ``ConnectionFailed``."""
    try:
        yield
    except httpx.TransportError as exc:
        raise _connection_failed(endpoint, exc) from exc


def _connection_failed(endpoint: Endpoint, exc: httpx.TransportError) -> errors.ConnectionFailed:
    """The failure, with advice while the URL may be wrong."""
    is_final, advice = False, None if endpoint.has_answered else _WHERE_IS_IT
    match _first_cause(exc):
        case ssl.SSLCertVerificationError():
            is_final, advice = True, _NOT_TRUSTED
        case ssl.SSLError(reason="WRONG_VERSION_NUMBER"):
            is_final, advice = True, _SPEAKS_HTTP
        case socket.gaierror(errno=socket.EAI_NONAME):
            # The name of a server that restarts may be unknown meanwhile.
            is_final = endpoint.retry_seconds is None and not endpoint.has_answered
        case _ if isinstance(exc, httpx.RemoteProtocolError) and "illegal request line" in f"{exc}":
            # So h11 calls a first line that is binary, such as an alert of TLS.
            is_final, advice = True, _SPEAKS_NO_HTTP
        case _:
            pass
    reason = str(exc) or type(exc).__name__
    message = f"no answer from {endpoint.url}: {reason}"
    failure = errors.ConnectionFailed(message if advice is None else f"{message}. {advice}")
    failure.is_final = is_final
    return failure


def _first_cause(exc: BaseException) -> BaseException:
    while (cause := exc.__cause__ or exc.__context__) is not None:
        exc = cause
    return exc


@contextlib.contextmanager
def failures_with_key(headers: Mapping[str, str]) -> Iterator[None]:
    """Adds the idempotency key of the command to a failure, so that the caller can query the outcome."""
    try:
        yield
    except errors.ChronolakeError as failure:
        failure.idempotency_key = headers.get(_KEY_HEADER)
        raise


def successful(response: httpx.Response) -> httpx.Response:
    """The response if it is a success; else raises its error."""
    if not response.is_success:
        raise error_of(response)
    return response


def answer_of(call: Call[_Answer], response: httpx.Response) -> _Answer:
    """The decoded answer; raises its error if it is none. Unknown fields are ignored."""
    successful(response)
    if call.answer is type(None):
        return None
    try:
        return decoding.decode(response.content, call.answer)
    except msgspec.DecodeError as exc:
        raise _unexpected(
            response, f"{exc}; is it a Chronolake server, and no newer than this client?"
        ) from exc


def endpoint_of(
    url: str | ServerAccess | None,
    timeout_seconds: float,
    retry_seconds: float | None,
    *,
    token: str | None = None,
    token_file: str | os.PathLike[str] | None = None,
    ca_file: str | os.PathLike[str] | None = None,
    oauth: ClientCredentials | None = None,
    profile: str | None = None,
) -> Endpoint:
    """The endpoint of a client, whose settings are those of ``_sources.settings_of``.

    Raises ``ValueError``, also unless its URL is http.
    """
    given = _sources.given_by(url, token_file, ca_file, oauth, token)
    settings = _sources.settings_of(given, profile)
    server_url = settings.url.rstrip("/")
    parts = urllib.parse.urlsplit(server_url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"the server's URL must be http://host:port or https://host:port, not {server_url!r}")
    return Endpoint(
        server_url, timeout_seconds, retry_seconds, settings.token, settings.trusted, settings.passed_on
    )


def client_headers(endpoint: Endpoint) -> dict[str, str]:
    """The headers of every request. With a token the server knows who calls, and the log names that subject."""
    headers = {
        "Accept": "application/json, application/problem+json",
        "User-Agent": f"chronolake-python/{version()}",
    }
    return headers if endpoint.token is not None else headers | {"Chronolake-Actor": _header_text(actor())}


def headers_of(call: Call[_Answer], key: str) -> dict[str, str]:
    """The headers of one call, the same on each of its tries."""
    headers = {}
    if call.is_command:
        headers[_KEY_HEADER] = key
    if call.body is not None:
        headers["Content-Type"] = "application/json"
    return headers


def arrow_headers_of(call: Call[Any]) -> dict[str, str]:
    """The headers of a call, which is not a command, for an answer as an Arrow IPC stream."""
    assert not call.is_command
    return {**headers_of(call, key=""), "Accept": _ARROW_OR_PROBLEM}


def table_headers(table_id: str) -> dict[str, str]:
    """The headers of calls to one table: the server refuses them if the name now belongs to another table."""
    return {"Chronolake-Table-Id": table_id}


def followed(call: Call[_Answer], key: str, refused: errors.NotFound) -> tuple[Call[_Answer], str] | None:
    """The call under the present name of its table, and a key for it; None if the table was not renamed.

    The refusal has used up the first key. The new key is derived from it, so a repeated call is still the same
    command.
    """
    new_name = refused.context.get("renamed_to")
    # Without the table id the refusal does not identify the table: several tables may have had the name.
    if not isinstance(new_name, str) or "table_id" not in refused.context:
        return None
    call_again = call.of_table(new_name)
    return call_again, str(uuid.uuid5(uuid.NAMESPACE_URL, f"{key} {new_name}"))


def new_key() -> str:
    """A new idempotency key."""
    return str(uuid.uuid4())


@functools.cache
def version() -> str:
    """The version of this client."""
    return importlib.metadata.version("chronolake")


def actor() -> str:
    """The user of this process: user@host."""
    return f"{machine.user()}@{socket.gethostname()}"


def default_writer() -> str:
    """The default name of the writer: this process, user@host:pid."""
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
    """The timeouts of a streamed answer: the one between two pieces is longer."""
    return httpx.Timeout(endpoint.timeout_seconds, read=_STREAM_SILENT_SECONDS)


def _header_text(text: str) -> str:
    return "".join(char if " " <= char <= "~" else "?" for char in text)[:255]


def error_of(response: httpx.Response) -> errors.ChronolakeError:
    """The typed error of a response, by its problem document."""
    try:
        problem = decoding.decode(response.content, Problem)
    except msgspec.DecodeError:
        error = _unexpected(response, "not a problem document; is it a Chronolake server?")
    else:
        if problem.code == ProblemCode.ROUTE_NOT_FOUND:
            problem = msgspec.structs.replace(problem, detail=problem.detail + _path_advice(response))
        elif problem.code == ProblemCode.UNAUTHENTICATED:
            why = _credentials.advice(response.request.headers)
            problem = msgspec.structs.replace(problem, detail=problem.detail + why)
        error = errors.error_of(problem)
    if isinstance(error, errors.ServerUnavailable):
        error.retry_after_seconds = _retry_after_seconds(response)
    return error


def is_event_stream(response: httpx.Response) -> bool:
    """Whether a response is a stream of server-sent events."""
    return response.is_success and response.headers.get("Content-Type", "").startswith("text/event-stream")


def not_event_stream(response: httpx.Response) -> errors.ChronolakeError:
    """The error for a response that is not a stream of events."""
    if response.is_success:
        return _unexpected(response, "not a stream of events; is it a Chronolake server?")
    return error_of(response)


def _unexpected(response: httpx.Response, why: str) -> errors.ChronolakeError:
    """The error for an answer that is not from this API."""
    excerpt = response.text[:_BODY_SHOWN_CHARS].strip()
    problem = Problem(
        type="about:blank",
        title=f"HTTP {response.status_code} {response.reason_phrase}".strip(),
        status=response.status_code,
        code=errors.UNEXPECTED_ANSWER,
        detail=f"{response.request.url} answered {excerpt!r}: {why}{_path_advice(response)}",
    )
    message = f"{problem.title}: {problem.detail}"
    unavailable = response.status_code in _UNAVAILABLE_STATUS
    return errors.ServerUnavailable(message, problem) if unavailable else errors.ServerError(message, problem)


def _path_advice(response: httpx.Response) -> str:
    """Advice if the URL of the server has a path, which comes before that of the call."""
    of_server = response.request.url.raw_path.decode("ascii").partition("?")[0].rpartition("/v1/")[0]
    return f"; the URL of the server has the path {of_server}: is it right without it?" if of_server else ""


def _retry_after_seconds(response: httpx.Response) -> float:
    # HTTP allows a date too. Chronolake sends seconds; for anything else the backoff alone decides.
    text = response.headers.get("Retry-After", "")
    return float(text) if text.isascii() and text.isdigit() else 0.0
