"""PySpark's daemon, without the trace of a worker whose socket Spark has closed. Spark starts it.

With sockets of the Unix domain, a worker that Spark does not need any more gets a broken pipe when it ends, and
PySpark prints its trace. With TCP it gets none.
"""

from __future__ import annotations

import socket

from pyspark import daemon

_worker = daemon.worker


def worker(sock: socket.socket, authenticated: bool) -> int:
    """As PySpark's: the exit code of a worker."""
    try:
        code: int = _worker(sock, authenticated)
    except BrokenPipeError:
        return 1
    return code


if __name__ == "__main__":
    daemon.worker = worker
    daemon.manager()
