"""The load on the REST API: writers that begin and complete instants as fast as they are answered.

A process of its own, so that the server is measured and not the loader. HTTP is spoken by hand over kept-alive
connections: a client library would take more of a core than the server does.
"""

from __future__ import annotations

import asyncio
import functools
import os
import random
import sys
import time
from collections.abc import Sequence
from typing import cast

import msgspec
import uvloop
from typing_extensions import override

from chronolake_model.file_names import base_file_name, bucket_file_id

FILES_PER_CYCLE = 3
_TOKEN = os.environ.get("BENCH_TOKEN")
_AUTHORIZATION = "" if _TOKEN is None else f"Authorization: Bearer {_TOKEN}\r\n"


class Figures(msgspec.Struct):
    """The result of one run of the load. Latencies are of whole cycles, in milliseconds.

    Where writers only begin, a cycle is one request, however many instants it begins.
    """

    cycles: int
    seconds: float
    failures: int
    conflicts: int
    latency_ms_median: float
    latency_ms_p99: float
    latency_ms_max: float

    @property
    def cycles_per_second(self) -> float:
        """Cycles in a second."""
        return self.cycles / self.seconds


class _Begun(msgspec.Struct):
    requested_time: str


class _Writer(asyncio.Protocol):
    """A writer on a connection of its own: it sends the next request when the last one is answered."""

    def __init__(self, host: str, number: int, tables: Sequence[str], begins: int, deadline: float) -> None:
        self._number, self._begins, self._deadline = number, begins, deadline
        self._paths = [f"/v1/tables/{table}/instants" for table in tables]
        self._random = random.Random(number)
        self._buckets = range(FILES_PER_CYCLE * number, FILES_PER_CYCLE * (number + 1))
        self._head = f"HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n{_AUTHORIZATION}"
        self._received = b""
        self._path = ""
        self._is_completing = False
        self._started = 0.0
        self.latencies: list[float] = []
        self.failures = 0
        self.conflicts = 0
        self.ended = asyncio.get_running_loop().create_future()

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclasses of asyncio's.
        self._transport = cast("asyncio.Transport", transport)
        self._begin()

    @override
    def data_received(self, data: bytes) -> None:
        self._received += data
        head, separator, body = self._received.partition(b"\r\n\r\n")
        if not separator:
            return
        length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        if len(body) == length:
            self._received = b""
            self._answered(int(head[9:12]), body)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_exception(exc or ConnectionResetError("the server has closed a connection"))

    def _begin(self) -> None:
        self._started = time.perf_counter()
        self._path = self._random.choice(self._paths)
        self._is_completing = False
        body: dict[str, object] = {"writer": f"w{self._number}", "operation": "upsert"}
        if self._begins > 1:
            body["count"] = self._begins
        self._post(self._path, body)

    def _answered(self, status: int, body: bytes) -> None:
        if status == 201 and not self._begins and not self._is_completing:
            self._is_completing = True
            requested_time = msgspec.json.decode(body, type=_Begun).requested_time
            self._post(f"{self._path}/{requested_time}/complete", {"write_stats": self._stats(requested_time)})
            return
        self.conflicts += status == 409
        self.failures += status not in ((200, 409) if self._is_completing else (201,))
        self.latencies.append(time.perf_counter() - self._started)
        if time.perf_counter() < self._deadline:
            self._begin()
        else:
            self.ended.set_result(None)
            self._transport.close()

    def _stats(self, requested_time: str) -> list[dict[str, object]]:
        return [
            {
                "partition_path": "",
                "file_id": bucket_file_id(bucket),
                "file_name": base_file_name(bucket_file_id(bucket), "0-0-0", requested_time),
                "size_bytes": 1000,
                "records": 10,
                "inserts": 10,
            }
            for bucket in self._buckets
        ]

    def _post(self, path: str, document: object) -> None:
        body = msgspec.json.encode(document)
        # Not by the seed of the writer: a key that another run has used would get its answer.
        key = f"{random.getrandbits(128):032x}"
        head = f"POST {path} {self._head}Idempotency-Key: {key}\r\nContent-Length: {len(body)}\r\n\r\n"
        self._transport.write(head.encode() + body)


async def load(
    host: str, port: int, tables: str, number: int, writers: int, seconds: float, begins: int
) -> Figures:
    """Let ``writers`` write to the tables ``<tables>0`` to ``<tables><number - 1>`` for ``seconds``.

    They run whole cycles, each on a table at random; or they only begin, ``begins`` instants at a time.
    """
    names = [f"{tables}{table}" for table in range(number)]
    started = time.perf_counter()
    loop = asyncio.get_running_loop()
    crew: list[_Writer] = []
    for number_of_writer in range(writers):
        new = functools.partial(_Writer, host, number_of_writer, names, begins, started + seconds)
        crew.append((await loop.create_connection(new, host, port))[1])
    await asyncio.gather(*(writer.ended for writer in crew))
    elapsed = time.perf_counter() - started
    latencies = sorted(latency * 1_000 for writer in crew for latency in writer.latencies)
    return Figures(
        cycles=len(latencies),
        seconds=elapsed,
        failures=sum(writer.failures for writer in crew),
        conflicts=sum(writer.conflicts for writer in crew),
        latency_ms_median=latencies[len(latencies) // 2],
        latency_ms_p99=latencies[int(len(latencies) * 0.99)],
        latency_ms_max=latencies[-1],
    )


def main() -> None:
    """``rest_load.py HOST PORT TABLES NUMBER WRITERS SECONDS BEGINS`` prints the figures as JSON."""
    host, port, tables, number, writers, seconds, begins = sys.argv[1:]
    figures = uvloop.run(load(host, int(port), tables, int(number), int(writers), float(seconds), int(begins)))
    print(msgspec.json.encode(figures).decode())


if __name__ == "__main__":
    main()
