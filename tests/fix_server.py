"""Real servers: processes of their own on a real port, over a database of the test's own."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import httpx
import pytest

from tests import fix_secrets
from tests.forked_program import ForkedProgram

START_SECONDS_MAX = 30.0


# Tests that move the clock would have their instants reaped; those of the reaper switch it on.
QUIET = ("--reaper-seconds", "0", "--publisher-seconds", "0")
PROGRAM = ("-m", "chronolake_metastore")


class ServerProcess:
    """A ``chronolake-metastore serve`` that can be killed and started again at the same address."""

    def __init__(
        self,
        dsn: str,
        log: Path,
        *flags: str,
        program: Sequence[str] = PROGRAM,
        start_seconds_max: float = START_SECONDS_MAX,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """With ``tls`` it serves https, and is asked under these rules whether it is ready."""
        self.dsn = dsn
        self._start_seconds_max = start_seconds_max
        self._tls = tls
        self.port = free_port()
        self.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{self.port}"
        self._log = log
        self._flags = flags
        self._program = program
        self._process: subprocess.Popen[bytes] | ForkedProgram | None = None

    def start(self, ready_status: int = 200) -> ServerProcess:
        """Start, and wait until it is ready. One that only reads answers with another status."""
        assert self._process is None
        if "--access" in self._flags or "AWS_SECRET_ACCESS_KEY" in os.environ:
            fix_secrets.guard(self.dsn)
        arguments = ("serve", "--dsn", self.dsn, "--port", str(self.port), *QUIET, *self._flags)
        # A library that is to be loaded before all others is too late in a process that is forked.
        if self._program == PROGRAM and "LD_PRELOAD" not in os.environ:
            self._process = ForkedProgram(arguments, self._log, self._log)
        else:
            with self._log.open("ab") as log:
                command = [sys.executable, *self._program, *arguments]
                self._process = subprocess.Popen(command, stderr=log, stdout=log)
        self._wait_until_ready(ready_status)
        return self

    @property
    def pid(self) -> int:
        """The id of its process."""
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """kill -9: no goodbye, no rollback, no flush."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        self._process = None
        self._search_log()

    def wait_killed(self) -> None:
        """Wait until it has killed itself."""
        assert self._process is not None
        assert self._process.wait(timeout=60) == -signal.SIGKILL
        self._process = None
        self._search_log()

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, and do not wait."""
        assert self._process is not None
        self._process.send_signal(number)

    def stop(self) -> None:
        """Ask it to stop, and wait until it has."""
        if self._process is not None:
            self._process.terminate()
            try:
                # Long enough for a machine that has much else to do.
                self._process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                # That is a failure; but it must not go on beside other tests.
                self.kill()
                raise
            self._process = None
            self._search_log()

    def log(self) -> str:
        """The log of the server."""
        return self._log.read_text()

    def _search_log(self) -> None:
        fix_secrets.search(self.log(), "the log of a server")

    def _wait_until_ready(self, ready_status: int) -> None:
        deadline = time.monotonic() + self._start_seconds_max
        # A client that loads certificates costs more than the request.
        with httpx.Client(base_url=self.url, verify=self._tls or False) as client:
            while time.monotonic() < deadline:
                assert self._process is not None
                assert self._process.poll() is None, f"the server ended:\n{self.log()}"
                try:
                    if client.get("/ready").status_code == ready_status:
                        return
                except httpx.TransportError:
                    pass
                time.sleep(0.02)
        raise AssertionError(f"the server was not ready in {self._start_seconds_max} s:\n{self.log()}")


@pytest.fixture
def new_server(tmp_path: Path) -> Iterator[Callable[..., ServerProcess]]:
    """Starts servers over a DSN, with flags of ``serve``; they are stopped at the end of the test."""
    started: list[ServerProcess] = []

    def start(dsn: str, *flags: str) -> ServerProcess:
        server = ServerProcess(dsn, tmp_path / f"server-{len(started)}.log", *flags)
        started.append(server)
        return server.start()

    yield start
    for server in started:
        server.stop()


@pytest.fixture
def server(new_server: Callable[..., ServerProcess], dsn: str) -> ServerProcess:
    """A running server over a database of the test's own."""
    return new_server(dsn)


@pytest.fixture
def server_url(server: ServerProcess) -> str:
    """The address of ``server``."""
    return server.url


@pytest.fixture(scope="module")
def shared_server(shared_dsn: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One server, for the tests of a module that keep to tables of their own."""
    server = ServerProcess(shared_dsn, tmp_path_factory.mktemp("server") / "server.log")
    try:
        yield server.start()
    finally:
        server.stop()


@pytest.fixture(scope="module")
def shared_server_url(shared_server: ServerProcess) -> str:
    """The address of ``shared_server``."""
    return shared_server.url


_PORTS = (20_000, 32_000)


def free_port() -> int:
    """A port that nothing listens at, below those that the system gives to clients."""
    while True:
        with contextlib.suppress(OSError), socket.socket() as probe:
            port = random.SystemRandom().randrange(*_PORTS)
            probe.bind(("127.0.0.1", port))
            return port
