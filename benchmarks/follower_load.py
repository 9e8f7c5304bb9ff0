"""Followers of a server's event stream, in a process of their own: most of them do not read.

``python -m benchmarks.follower_load PORT FOLLOWERS READING [AFTER]`` opens the streams, prints ``ready``, and
keeps them open until its standard input ends. A hundred share an address of loopback, so that the bound on
streams per client does not stop them.
"""

from __future__ import annotations

import contextlib
import resource
import selectors
import socket
import sys
import threading

FOLLOWERS_OF_ADDRESS = 100
CONNECT_SECONDS = 60.0
PROPERTY_CHARS = 16_000
METADATA_BYTES = 250_000
RECEIVE_BUFFER_BYTES = 8 * 1024


def main() -> None:
    """Open the streams and keep them open."""
    port, followers, reading = (int(argument) for argument in sys.argv[1:4])
    after = sys.argv[4] if len(sys.argv) > 4 else None
    allow_files(2 * followers)
    lines = [open_stream(port, number, after) for number in range(followers)]
    for line in lines:
        # The headers of the answer: from then on the server counts the stream.
        line.recv(16)
    threading.Thread(target=_read, args=(lines[:reading],), daemon=True).start()
    print("ready", flush=True)
    sys.stdin.read()


def allow_files(number: int) -> None:
    """Allow this process, and its children, to open this many files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < number + 256:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(number + 256, hard), hard))


def large_metadata(size: int) -> list[dict[str, str]]:
    """Metadata of commits of about ``size`` bytes together, which their events hold, each as much as it may."""
    notes = [f"note-{number}" for number in range(size // PROPERTY_CHARS)]
    at_once = METADATA_BYTES // PROPERTY_CHARS
    return [
        dict.fromkeys(notes[first : first + at_once], "x" * PROPERTY_CHARS)
        for first in range(0, len(notes), at_once)
    ]


def open_stream(port: int, number: int, after: str | None = None) -> socket.socket:
    """A connection on which a stream of events was requested."""
    line = socket.socket()
    # A client with a small receive buffer: the server must bound the bytes that it keeps.
    line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
    line.settimeout(CONNECT_SECONDS)
    line.bind((f"127.0.0.{2 + number // FOLLOWERS_OF_ADDRESS}", 0))
    line.connect(("127.0.0.1", port))
    query = "" if after is None else f"?after={after}"
    line.sendall(f"GET /v1/events/stream{query} HTTP/1.1\r\nHost: lake\r\n\r\n".encode())
    return line


def _read(lines: list[socket.socket]) -> None:
    with selectors.DefaultSelector() as selector:
        for line in lines:
            selector.register(line, selectors.EVENT_READ)
        while selector.get_map():
            for key, _ in selector.select():
                chunk = b""
                with contextlib.suppress(OSError):
                    chunk = key.fileobj.recv(65_536)  # type: ignore[union-attr]  # registered as a socket
                if not chunk:
                    selector.unregister(key.fileobj)


if __name__ == "__main__":
    main()
