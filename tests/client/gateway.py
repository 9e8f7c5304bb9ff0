"""A gateway between client and server that loses requests, loses answers, and says that it is busy.

It forwards to a real server; it never answers in its stead but with the errors that gateways have.
"""

from __future__ import annotations

import enum
import http.server
import threading
from types import TracebackType
from typing import Self

import httpx
import msgspec

from chronolake_model.problems import ProblemCode, problem


class Fault(enum.Enum):
    """A fault that the gateway injects into one request."""

    LOSE_REQUEST = enum.auto()
    LOSE_ANSWER = enum.auto()
    BAD_GATEWAY = enum.auto()
    BUSY = enum.auto()
    TOO_MANY_STREAMS = enum.auto()
    HOLD_ANSWER = enum.auto()
    """The request is executed; ``held`` is set, and the answer waits for ``go_on``."""


class Gateway:
    """Forwards to ``target``; each request that changes something meets the next of ``faults``, if any."""

    def __init__(self, target: str) -> None:
        self.faults: list[Fault | None] = []
        self.keys: list[str] = []
        self.held = threading.Event()
        self.go_on = threading.Event()
        self._forward = httpx.Client(base_url=target, timeout=30)
        handler = type("Handler", (_Handler,), {"gateway": self})
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _exc: BaseException | None, _tb: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self._forward.close()

    def send_on(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> httpx.Response:
        return self._forward.request(method, path, content=body, headers=headers)


class _Handler(http.server.BaseHTTPRequestHandler):
    gateway: Gateway

    def do_GET(self) -> None:
        self._answer(self._forwarded(b""))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.gateway.keys.append(self.headers["Idempotency-Key"])
        fault = self.gateway.faults.pop(0) if self.gateway.faults else None
        match fault:
            case None:
                self._answer(self._forwarded(body))
            case Fault.LOSE_REQUEST:
                pass
            case Fault.LOSE_ANSWER:
                self._forwarded(body)
            case Fault.HOLD_ANSWER:
                self._forwarded(body)
                self.gateway.held.set()
                self.gateway.go_on.wait(30)
            case Fault.BAD_GATEWAY:
                self._answer(httpx.Response(502, content=b"<html>bad gateway</html>"))
            case Fault.BUSY:
                self._answer(httpx.Response(503, content=b"busy", headers={"Retry-After": "0"}))
            case Fault.TOO_MANY_STREAMS:
                content = msgspec.json.encode(
                    problem(ProblemCode.TOO_MANY_STREAMS, "close some", self.path, {})
                )
                self._answer(httpx.Response(429, content=content, headers={"Retry-After": "0"}))

    do_DELETE = do_POST

    def log_message(self, format: str, *args: object) -> None:  # type: ignore[explicit-override]
        """Say nothing."""

    def _forwarded(self, body: bytes) -> httpx.Response:
        kept = {
            name: value
            for name, value in self.headers.items()
            if name.lower() in ("content-type", "idempotency-key", "chronolake-actor", "accept")
        }
        return self.gateway.send_on(self.command, self.path, body, kept)

    def _answer(self, response: httpx.Response) -> None:
        self.send_response(response.status_code)
        for name in ("content-type", "retry-after"):
            if name in response.headers:
                self.send_header(name, response.headers[name])
        self.send_header("Content-Length", str(len(response.content)))
        self.end_headers()
        self.wfile.write(response.content)


class Holding(Gateway):
    """A gateway that keeps the request of this number to such a path for ever, and sends on all others."""

    def __init__(self, target: str, path_end: str, number: int) -> None:
        super().__init__(target)
        self.holds = threading.Event()
        self._path_end = path_end
        self._left = number
        self._lock = threading.Lock()
        self._ended = threading.Event()

    def send_on(  # type: ignore[explicit-override]  # typing.override is Python 3.12's
        self, method: str, path: str, body: bytes, headers: dict[str, str]
    ) -> httpx.Response:
        if self._is_it(path):
            self.holds.set()
            self._ended.wait()
            return httpx.Response(502)
        return super().send_on(method, path, body, headers)

    def __exit__(self, *exc: object) -> None:  # type: ignore[explicit-override]
        self._ended.set()
        super().__exit__(None, None, None)

    def _is_it(self, path: str) -> bool:
        with self._lock:
            self._left -= path.endswith(self._path_end)
            return self._left == 0 and path.endswith(self._path_end)
