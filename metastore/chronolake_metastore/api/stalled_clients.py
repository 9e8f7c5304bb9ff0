"""Closes connections of clients that do not read their answer, and sets the options of followers' sockets.

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

CHECK_SECONDS: Final = 1.0
PAUSE_SECONDS: Final = 0.1
"""The pause between two checks, so that one check serves followers that arrive in quick succession."""
UNSENT_BYTES: Final = 64 * 1024
"""Bytes of an answer that the operating system takes before its client has room for them."""
SILENT_SECONDS: Final = 60
"""The time after which a client is disconnected whose machine answers nothing."""
_SOCKETS: Final = "/dev/fd"

_log = telemetry.logger(__name__)


async def run(followers: Followers) -> None:
    """Set the socket options of new followers, and close those that do not read, until cancelled."""
    while True:
        await followers.wait_for_new_follower(CHECK_SECONDS)
        new = followers.without_socket_options()
        try:
            await asyncio.to_thread(_apply, [follower.client for follower in new], followers.stalled_clients())
        except Exception:
            # The edge of a worker: a failure must not end the server, and the next check may succeed.
            _log.exception("the check for slow followers failed")
        for follower in new:
            follower.has_socket_options.set()
        await asyncio.sleep(PAUSE_SECONDS)


def close_connection(client: Client) -> None:
    """End the connection of ``client``; this blocks."""
    _apply([], [client])


def _apply(new: Collection[Client], stalled_clients: Collection[Client]) -> None:
    todo: dict[tuple[str, int], Callable[[socket.socket], None]] = {
        _end_of(client.address, client.port): _set_socket_options for client in new
    }
    todo.update({_end_of(client.address, client.port): _shut_down for client in stalled_clients})
    if todo:
        for end, connection in _connections():
            if end in todo:
                with contextlib.suppress(OSError):
                    todo[end](connection)


def _set_socket_options(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        ("TCP_NOTSENT_LOWAT", UNSENT_BYTES),
        ("TCP_KEEPIDLE", SILENT_SECONDS // 2),
        ("TCP_USER_TIMEOUT", SILENT_SECONDS * 1_000),
    ):
        if (number := getattr(socket, option, None)) is not None:
            connection.setsockopt(socket.IPPROTO_TCP, number, value)


def _shut_down(connection: socket.socket) -> None:
    connection.shutdown(socket.SHUT_RDWR)


def _connections() -> Iterator[tuple[tuple[str, int], socket.socket]]:
    """The TCP connections of this process, each with its other end, open until the next one is asked for."""
    for name in os.listdir(_SOCKETS):
        # A copy of its own: the number itself could be another file's by the time that it is used.
        try:
            copy = os.dup(int(name))
        except OSError:
            continue
        try:
            connection = socket.socket(fileno=copy)
        except OSError:
            # No socket.
            os.close(copy)
            continue
        with connection:
            if connection.family in (socket.AF_INET, socket.AF_INET6):
                with contextlib.suppress(OSError):
                    host, port = connection.getpeername()[:2]
                    yield _end_of(host, port), connection


def _end_of(host: str, port: int) -> tuple[str, int]:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host, port
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address), port
