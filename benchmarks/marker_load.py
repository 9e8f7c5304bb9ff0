"""The load of markers: requests of equal size, over kept-alive connections, as fast as they are answered.

A process of its own, as ``rest_load``.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
import time
from collections.abc import Callable

import msgspec
import uvloop

MARKERS_OF_PARTITION = 1_000


class Figures(msgspec.Struct):
    """The result of one run; the latency is of one request, in milliseconds."""

    requests: int
    markers: int
    seconds: float
    failures: int
    latency_ms_median: float
    latency_ms_p99: float

    @property
    def requests_per_second(self) -> float:
        """Requests in a second."""
        return self.requests / self.seconds

    @property
    def markers_per_second(self) -> float:
        """Markers in a second."""
        return self.markers / self.seconds


class _Load:
    """Send requests of ``size`` markers until ``markers`` were requested, or ``seconds`` are over."""

    def __init__(self, path: str, requested_time: str, size: int, markers: int, seconds: float) -> None:
        self._path, self._time, self._size, self._seconds = path, requested_time, size, seconds
        self._left = iter(range(0, markers, size)) if markers else itertools.count(0, size)
        self.latencies: list[float] = []
        self.failures = 0

    def _marker(self, number: int) -> str:
        return (
            f'{{"partition_path":"day={number // MARKERS_OF_PARTITION:04}","kind":"CREATE","file_name":'
            f'"{number:08x}-7c1e-4b0f-9a55-0123456789ab-0_{number}-12-0_{self._time}.parquet"}}'
        )

    def _request(self, first: int) -> bytes:
        body = f'{{"markers":[{",".join(map(self._marker, range(first, first + self._size)))}]}}'.encode()
        return (
            b"POST %b HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
            % (self._path.encode(), len(body), body)
        )

    async def run(self, host: str, port: int, deadline: Callable[[], bool]) -> None:
        """One connection's part."""
        reader, writer = await asyncio.open_connection(host, port, limit=2**20)
        for first in self._left:
            request = self._request(first)
            started = time.perf_counter()
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            _, _, length = head.lower().partition(b"content-length:")
            await reader.readexactly(int(length.split(b"\r\n")[0] or 0))
            self.latencies.append(time.perf_counter() - started)
            self.failures += head[9:12] != b"200"
            if deadline():
                break
        writer.close()


async def load(path: str, requested_time: str, port: int, connections: int, size: int, total: str) -> Figures:
    """``total`` is a number of markers, or seconds with an ``s`` at the end."""
    seconds, markers = (float(total[:-1]), 0) if total.endswith("s") else (3600.0, int(total))
    load = _Load(path, requested_time, size, markers, seconds)
    started = time.perf_counter()
    await asyncio.gather(
        *(
            load.run("127.0.0.1", port, lambda: time.perf_counter() > started + seconds)
            for _ in range(connections)
        )
    )
    elapsed = time.perf_counter() - started
    latencies = sorted(1_000 * latency for latency in load.latencies)
    return Figures(
        requests=len(latencies),
        markers=size * len(latencies),
        seconds=elapsed,
        failures=load.failures,
        latency_ms_median=latencies[len(latencies) // 2],
        latency_ms_p99=latencies[int(len(latencies) * 0.99)],
    )


def main() -> None:
    """``marker_load.py PATH REQUESTED_TIME PORT CONNECTIONS SIZE TOTAL`` prints the figures as JSON."""
    path, requested_time, port, connections, size, total = sys.argv[1:]
    figures = uvloop.run(load(path, requested_time, int(port), int(connections), int(size), total))
    print(msgspec.json.encode(figures).decode())


if __name__ == "__main__":
    main()
