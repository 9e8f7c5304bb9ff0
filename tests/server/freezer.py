"""A way to PostgreSQL that freezes: connections stay open, TCP answers, and nothing comes through any more."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from collections.abc import Iterator
from types import TracebackType
from typing import Self

from psycopg.conninfo import conninfo_to_dict, make_conninfo

_LOOK_SECONDS = 0.1
_SEND_SECONDS = 60.0
"""A machine under load may take long to read what it was sent."""


class Freezer:
    """Forwards between clients and the PostgreSQL at ``dsn``, until it is frozen.

    A frozen connection stays so for good, as after a failover; those made after a thaw are forwarded.
    """

    def __init__(self, dsn: str) -> None:
        self._target = _address_of(dsn)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._frozen = threading.Event()
        self._stopped = threading.Event()
        self._threads = [threading.Thread(target=self._accept)]
        port = self._listening.getsockname()[1]
        self.dsn = make_conninfo(dsn, host="127.0.0.1", port=port, hostaddr="", sslmode="disable")
        self._hold_requests = True

    def freeze(self, *, requests: bool = True) -> None:
        """Let nothing through any more: no answers, and no ``requests`` either unless they are to arrive."""
        self._hold_requests = requests
        self._frozen.set()

    def thaw(self) -> None:
        """Forward those connections again that are made from now on."""
        self._frozen = threading.Event()

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _exc: BaseException | None, _tb: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._listening.close()
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        self._listening.settimeout(_LOOK_SECONDS)
        while not self._stopped.is_set():
            with contextlib.suppress(OSError):
                client, _ = self._listening.accept()
                self._forward(client, self._frozen)

    def _forward(self, client: socket.socket, frozen: threading.Event) -> None:
        server = socket.socket(self._target[0])
        server.connect(self._target[1])
        for pair in ((client, server), (server, client)):
            thread = threading.Thread(target=self._pump, args=(*pair, frozen, pair[0] is client))
            self._threads.append(thread)
            thread.start()

    def _pump(
        self, source: socket.socket, to: socket.socket, frozen: threading.Event, are_requests: bool
    ) -> None:
        # The thread of the other direction closes both sockets when its side ends.
        with source, to, contextlib.suppress(OSError, ValueError):
            source.settimeout(_SEND_SECONDS)
            for received in self._received(source):
                while frozen.is_set() and (self._hold_requests or not are_requests):
                    if self._stopped.wait(_LOOK_SECONDS):
                        return
                to.sendall(received)

    def _received(self, source: socket.socket) -> Iterator[bytes]:
        while not self._stopped.is_set():
            if select.select([source], [], [], _LOOK_SECONDS)[0]:
                received = source.recv(65_536)
                if not received:
                    return
                yield received


def _address_of(dsn: str) -> tuple[socket.AddressFamily, str | tuple[str, int]]:
    given = conninfo_to_dict(dsn)
    host, port = str(given.get("host") or "127.0.0.1"), int(given.get("port") or 5432)
    if host.startswith("/"):
        return socket.AF_UNIX, f"{host}/.s.PGSQL.{port}"
    return socket.AF_INET, (host, port)
