"""A real S3 API, and STS, on loopback: moto, with a gateway in front that injects S3's own errors.

moto ignores the policies of sessions, so the gateway enforces them.
"""

from __future__ import annotations

import contextlib
import io
import logging
import re
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
import pyarrow.fs as pafs
import pytest
from moto.server import DomainDispatcherApplication, create_backend_app
from moto.sts.models import sts_backends
from werkzeug.serving import make_server

from tests import fix_secrets, iam
from tests.fix_secrets import STORAGE_SECRET

KEYS = {"access_key": "key", "secret_key": STORAGE_SECRET, "region": "us-east-1"}


class Fault(msgspec.Struct):
    """Requests of a method whose paths end so are refused, the next ``times`` of them.

    If they are ``executed``, only their answers are lost.
    A request that deletes many objects counts as a DELETE of each of them, and is refused as a whole.
    """

    method: str
    path_end: str
    status: int
    code: str
    times: int = 1_000_000
    executed: bool = False


class S3:
    """The API, with a bucket of the test's own."""

    def __init__(self, url: str, gateway: Gateway) -> None:
        self.options = {**KEYS, "endpoint_override": url}
        self.faults = gateway.faults
        self._gateway = gateway
        self.bucket = f"lake-{uuid.uuid4().hex[:12]}"

    @property
    def base_path(self) -> str:
        return f"s3://{self.bucket}/tables/orders"

    @contextlib.contextmanager
    def only_sessions(self) -> Iterator[list[str]]:
        """Let only sessions use the bucket; gives a list of the requests that are refused to them."""
        refused = self._gateway.guarded[self.bucket] = []
        yield refused
        del self._gateway.guarded[self.bucket]

    @contextlib.contextmanager
    def without_guard(self) -> Iterator[None]:
        """Let other keys than those of sessions use the bucket, too, within ``only_sessions``."""
        refused = self._gateway.guarded.pop(self.bucket)
        try:
            yield
        finally:
            self._gateway.guarded[self.bucket] = refused


_BULK = {"POST": "DELETE"}
_KEY = re.compile(rb"<Key>(.*?)</Key>")
_SECRETS = re.compile(rb"<(?:SecretAccessKey|SessionToken)>(.*?)</")


def _method_and_paths(request: dict[str, Any]) -> tuple[str, list[str]]:
    """The method of a request, and the paths that it names."""
    method, path = request["REQUEST_METHOD"], request["PATH_INFO"]
    return method, [path, *(f"{path}/{key.decode()}" for key in _KEY.findall(_bulk(request)))]


def _bulk(request: dict[str, Any]) -> bytes:
    """The body of a request that deletes many objects; empty for others."""
    if request["REQUEST_METHOD"] != "POST" or not request.get("QUERY_STRING", "").startswith("delete"):
        return b""
    body: bytes = request["wsgi.input"].read(int(request["CONTENT_LENGTH"]))
    request["wsgi.input"] = io.BytesIO(body)
    return body


class Gateway:
    def __init__(self) -> None:
        self.faults: list[Fault] = []
        self.guarded: dict[str, list[str]] = {}
        self._lock = threading.Lock()
        self._one_by_one = threading.Lock()
        self._forward = DomainDispatcherApplication(create_backend_app)

    def __call__(self, request: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        fault = self._fault(*_method_and_paths(request))
        if fault is not None and fault.executed:
            with self._one_by_one:
                b"".join(self._forward(request, lambda *_: None))
        if fault is None and self._allows(request):
            # moto closes an object that another request replaces while it still answers with it.
            with self._one_by_one:
                return self._forwarded(request, start)
        fault = fault or Fault("", "", 403, "AccessDenied")
        body = f"<Error><Code>{fault.code}</Code><Message>as told</Message></Error>".encode()
        headers = [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))]
        start(f"{fault.status} {fault.code}", headers)
        return [body]

    def _forwarded(self, request: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if request["PATH_INFO"] == "/" and request["REQUEST_METHOD"] == "POST":
            body = b"".join(self._forward(request, start))
            fix_secrets.add(*(key.decode() for key in _SECRETS.findall(body)))
            return [body]
        policy = _policy_of(request)
        answers: list[tuple[Any, ...]] = []
        answer: Iterable[bytes] = self._forward(
            request, start if policy is None else lambda *a: answers.append(a)
        )
        if policy is None:
            return answer
        [(status, *headers)] = answers
        bucket = request["PATH_INFO"].split("/")[1]
        if status.startswith("404") and not iam.allowed_by_iam(policy, iam.Request("s3:ListBucket", bucket)):
            # To those who may not list the bucket S3 does not tell which objects are missing.
            status = "403 AccessDenied"
        start(status, *headers)
        return answer

    def _allows(self, request: dict[str, Any]) -> bool:
        refused = self.guarded.get(request["PATH_INFO"].split("/")[1])
        policy = _policy_of(request)
        if policy is None:
            return refused is None
        asked = list(iam.requests_of(request, _bulk(request)))
        allowed = [iam.allowed_by_grammar(policy, one) for one in asked]
        assert allowed == [iam.allowed_by_iam(policy, one) for one in asked]
        if refused is not None:
            refused += [f"{one.action} {one.key}" for one, may in zip(asked, allowed, strict=True) if not may]
        return all(allowed)

    def _fault(self, method: str, paths: list[str]) -> Fault | None:
        with self._lock:
            for fault in self.faults:
                ends = any(path.endswith(fault.path_end) for path in paths)
                if fault.times and ends and fault.method in (method, _BULK.get(method, method)):
                    fault.times -= 1
                    return fault
        return None


def _policy_of(request: dict[str, Any]) -> str | None:
    """The policy of the session that sends a request; None for other keys."""
    token = request.get("HTTP_X_AMZ_SECURITY_TOKEN")
    if token is None:
        return None
    roles = [role for account in sts_backends.values() for role in account["aws"].assumed_roles]
    [policy] = [role.policy for role in roles if role.session_token == token]
    assert isinstance(policy, str)
    return policy


@pytest.fixture(scope="session")
def s3_gateway() -> Iterator[tuple[str, Gateway]]:
    """Where the API is, and its gateway; servers may send their credentials to it."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    gateway = Gateway()
    server = make_server("127.0.0.1", 0, gateway, threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}"
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("CHRONOLAKE_STORAGE_ENDPOINTS", url)
        yield url, gateway
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def s3(s3_gateway: tuple[str, Gateway]) -> Iterator[S3]:
    """An S3 API with a bucket of this test's own."""
    s3 = new_bucket(*s3_gateway)
    yield s3
    s3.faults.clear()


def new_bucket(url: str, gateway: Gateway) -> S3:
    """The API with a new bucket."""
    s3 = S3(url, gateway)
    host = url.removeprefix("http://")
    filesystem = pafs.S3FileSystem(**KEYS, endpoint_override=host, scheme="http", allow_bucket_creation=True)
    filesystem.create_dir(s3.bucket)
    return s3
