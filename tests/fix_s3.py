"""A real S3 API on loopback: moto, with a gateway in front that injects S3's own errors."""

from __future__ import annotations

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
from werkzeug.serving import make_server

KEYS = {"access_key": "key", "secret_key": "secret", "region": "us-east-1"}


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

    def __init__(self, url: str, faults: list[Fault]) -> None:
        self.options = {**KEYS, "endpoint_override": url}
        self.faults = faults
        self.bucket = f"lake-{uuid.uuid4().hex[:12]}"

    @property
    def base_path(self) -> str:
        return f"s3://{self.bucket}/tables/orders"


_BULK = {"POST": "DELETE"}
_KEY = re.compile(rb"<Key>(.*?)</Key>")


def _method_and_paths(request: dict[str, Any]) -> tuple[str, list[str]]:
    """The method of a request, and the paths that it names."""
    method, path = request["REQUEST_METHOD"], request["PATH_INFO"]
    if method != "POST" or not request.get("QUERY_STRING", "").startswith("delete"):
        return method, [path]
    body = request["wsgi.input"].read(int(request["CONTENT_LENGTH"]))
    request["wsgi.input"] = io.BytesIO(body)
    return method, [path, *(f"{path}/{key.decode()}" for key in _KEY.findall(body))]


class Gateway:
    def __init__(self) -> None:
        self.faults: list[Fault] = []
        self._lock = threading.Lock()
        self._one_by_one = threading.Lock()
        self._forward = DomainDispatcherApplication(create_backend_app)

    def __call__(self, request: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        fault = self._fault(*_method_and_paths(request))
        if fault is not None and fault.executed:
            with self._one_by_one:
                b"".join(self._forward(request, lambda *_: None))
        if fault is None:
            # moto closes an object that another request replaces while it still answers with it.
            with self._one_by_one:
                answer: Iterable[bytes] = self._forward(request, start)
                return answer
        body = f"<Error><Code>{fault.code}</Code><Message>as told</Message></Error>".encode()
        headers = [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))]
        start(f"{fault.status} {fault.code}", headers)
        return [body]

    def _fault(self, method: str, paths: list[str]) -> Fault | None:
        with self._lock:
            for fault in self.faults:
                ends = any(path.endswith(fault.path_end) for path in paths)
                if fault.times and ends and fault.method in (method, _BULK.get(method, method)):
                    fault.times -= 1
                    return fault
        return None


@pytest.fixture(scope="session")
def s3_gateway() -> Iterator[tuple[str, list[Fault]]]:
    """Where the API is, and the faults that it has; servers may send their credentials to it."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    gateway = Gateway()
    server = make_server("127.0.0.1", 0, gateway, threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}"
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("CHRONOLAKE_STORAGE_ENDPOINTS", url)
        yield url, gateway.faults
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def s3(s3_gateway: tuple[str, list[Fault]]) -> Iterator[S3]:
    """An S3 API with a bucket of this test's own."""
    url, faults = s3_gateway
    s3 = S3(url, faults)
    host = url.removeprefix("http://")
    filesystem = pafs.S3FileSystem(**KEYS, endpoint_override=host, scheme="http", allow_bucket_creation=True)
    filesystem.create_dir(s3.bucket)
    yield s3
    faults.clear()
