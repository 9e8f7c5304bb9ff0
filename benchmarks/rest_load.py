"""The load on the REST API: writers that begin and complete instants as fast as they are answered.

A process of its own, so that the server is measured and not the loader. HTTP is spoken by hand over kept-alive
connections: a client library would take more of a core than the server does.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
import uuid
from collections.abc import Sequence

import msgspec
import uvloop

from chronolake_model.file_names import base_file_name, bucket_file_id

FILES_PER_CYCLE = 3


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


class _Writer:
    def __init__(self, host: str, port: int, number: int, tables: Sequence[str], begins: int) -> None:
        self._host, self._port, self._number, self._begins = host, port, number, begins
        self._paths = [f"/v1/tables/{table}/instants" for table in tables]
        self._random = random.Random(number)
        self._buckets = range(FILES_PER_CYCLE * number, FILES_PER_CYCLE * (number + 1))
        self.latencies: list[float] = []
        self.failures = 0
        self.conflicts = 0

    async def run(self, deadline: float) -> None:
        reader, writer = await asyncio.open_connection(self._host, self._port)
        self._reader, self._writer = reader, writer
        while time.perf_counter() < deadline:
            started = time.perf_counter()
            await (self._begin() if self._begins else self._cycle())
            self.latencies.append(time.perf_counter() - started)
        writer.close()

    async def _begin(self) -> None:
        body: dict[str, object] = {"writer": f"w{self._number}", "operation": "upsert"}
        if self._begins > 1:
            body["count"] = self._begins
        status, _ = await self._post(self._random.choice(self._paths), body)
        self.failures += status != 201

    async def _cycle(self) -> None:
        path = self._random.choice(self._paths)
        status, body = await self._post(path, {"writer": f"w{self._number}", "operation": "upsert"})
        if status != 201:
            self.failures += 1
            return
        time_ = msgspec.json.decode(body, type=_Begun).requested_time
        status, _ = await self._post(f"{path}/{time_}/complete", {"write_stats": self._stats(time_)})
        self.conflicts += status == 409
        self.failures += status not in (200, 409)

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

    async def _post(self, path: str, document: object) -> tuple[int, bytes]:
        body = msgspec.json.encode(document)
        self._writer.write(
            b"POST %b HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n"
            b"Idempotency-Key: %b\r\nContent-Length: %d\r\n\r\n%b"
            % (path.encode(), uuid.uuid4().hex.encode(), len(body), body)
        )
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        return int(head[9:12]), await self._reader.readexactly(length)


async def load(
    host: str, port: int, tables: str, number: int, writers: int, seconds: float, begins: int
) -> Figures:
    """Let ``writers`` write to the tables ``<tables>0`` to ``<tables><number - 1>`` for ``seconds``.

    They run whole cycles, each on a table at random; or they only begin, ``begins`` instants at a time.
    """
    names = [f"{tables}{table}" for table in range(number)]
    crew = [_Writer(host, port, writer, names, begins) for writer in range(writers)]
    started = time.perf_counter()
    await asyncio.gather(*(writer.run(started + seconds) for writer in crew))
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
