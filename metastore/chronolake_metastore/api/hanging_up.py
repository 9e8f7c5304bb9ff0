"""Hanging up on clients that do not read what they asked for, and the options of the sockets of followers.

The server's HTTP library has no call that ends a connection whose client reads nothing: to end the answer would
leave the connection open, with what is in its buffers. So the socket is shut down from here. The library then
reports the client as gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import os
import socket
from collections.abc import Callable, Collection, Iterator
from typing import Final

from chronolake_metastore import telemetry
from chronolake_metastore.followers import Client, Followers

LOOK_SECONDS: Final = 1.0
REST_SECONDS: Final = 0.1
"""How long it rests between two looks, so that followers that come in quick succession are one look."""
UNSENT_BYTES: Final = 64 * 1024
"""What the operating system takes of an answer before its client has room for it."""
SILENT_SECONDS: Final = 60
"""A client whose machine answers nothing for so long is gone."""
_SOCKETS: Final = "/dev/fd"

_log = telemetry.logger(__name__)


async def run(followers: Followers) -> None:
    """Tune the sockets of new followers, and hang up on those that do not read, until cancelled."""
    while True:
        await followers.look(LOOK_SECONDS)
        new = followers.untuned()
        try:
            await asyncio.to_thread(_look, [follower.client for follower in new], followers.overdue())
        except Exception:
            # The edge of a worker: what goes wrong here must not end the server, and the next look may succeed.
            _log.exception("followers could not be looked after")
        for follower in new:
            follower.tuned.set()
        await asyncio.sleep(REST_SECONDS)


def hang_up(client: Client) -> None:
    """End the connection of ``client``; this blocks."""
    _look([], [client])


def _look(new: Collection[Client], overdue: Collection[Client]) -> None:
    todo: dict[tuple[str, int], Callable[[socket.socket], None]] = {_end_of(client): _tune for client in new}
    todo.update({_end_of(client): _hang_up for client in overdue})
    if todo:
        for end, line in _connections():
            if end in todo:
                with contextlib.suppress(OSError):
                    todo[end](line)


def _tune(line: socket.socket) -> None:
    line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        ("TCP_NOTSENT_LOWAT", UNSENT_BYTES),
        ("TCP_KEEPIDLE", SILENT_SECONDS // 2),
        ("TCP_USER_TIMEOUT", SILENT_SECONDS * 1_000),
    ):
        if (number := getattr(socket, option, None)) is not None:
            line.setsockopt(socket.IPPROTO_TCP, number, value)


def _hang_up(line: socket.socket) -> None:
    line.shutdown(socket.SHUT_RDWR)


def _connections() -> Iterator[tuple[tuple[str, int], socket.socket]]:
    """The TCP connections of this process, each with its other end, open until the next one is asked for."""
    for name in os.listdir(_SOCKETS):
        # A copy of its own: the number itself could be another file's by the time that it is used.
        try:
            copy = os.dup(int(name))
        except OSError:
            continue
        try:
            line = socket.socket(fileno=copy)
        except OSError:
            # No socket.
            os.close(copy)
            continue
        with line:
            if line.family in (socket.AF_INET, socket.AF_INET6):
                with contextlib.suppress(OSError):
                    host, port = line.getpeername()[:2]
                    yield _end_of(Client(host, port)), line


def _end_of(client: Client) -> tuple[str, int]:
    try:
        address = ipaddress.ip_address(client.address)
    except ValueError:
        return client.address, client.port
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address), client.port
