"""Streams of events as these tests open them; they are read when a test says so."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

PATIENCE_SECONDS = 60.0
LITTLE_ROOM = [(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 * 1024)]


class OpenStream:
    """A stream that was answered. It reads nothing until a test does."""

    def __init__(self, answer: httpx.Response) -> None:
        self.answer = answer
        self.unfinished = ""
        """The text that arrived after the last whole event or comment."""
        self.events: list[dict[str, Any]] = []
        self._parts = answer.iter_text()

    def read(self) -> bool:
        """Read a little; whether there was anything."""
        part = ""
        with contextlib.suppress(httpx.TransportError):
            part = next(self._parts, "")
        self.unfinished += part
        if "\r\n\r\n" in self.unfinished[-len(part) - 3 :]:
            *blocks, self.unfinished = self.unfinished.split("\r\n\r\n")
            data = [line for block in blocks for line in block.split("\r\n") if line.startswith("data: ")]
            self.events += [json.loads(line.removeprefix("data: ")) for line in data]
        return bool(part)

    def read_events(self, number: int) -> list[dict[str, Any]]:
        """Read until there are this many whole events. Returns them."""
        while len(self.events) < number and self.read():
            pass
        return list(self.events)

    def read_to_end(self) -> list[dict[str, Any]]:
        """Read until the server ends the stream; gives all whole events."""
        while self.read():
            pass
        return list(self.events)


@contextmanager
def opened(
    url: str,
    address: str = "127.0.0.1",
    *,
    little_room: bool = False,
    token: str | None = None,
    **parameters: str,
) -> Iterator[OpenStream]:
    """A stream of the server at ``url``, requested from an address of this machine."""
    options = LITTLE_ROOM if little_room else None
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    transport = httpx.HTTPTransport(local_address=address, socket_options=options, verify=False)
    with (
        httpx.Client(base_url=url, transport=transport, timeout=PATIENCE_SECONDS) as client,
        client.stream("GET", "/v1/events/stream", params=parameters, headers=headers) as answer,
    ):
        yield OpenStream(answer)
