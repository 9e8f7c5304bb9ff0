"""The server's memory is bounded for clients that read and clients that do not; it answers meanwhile."""

from __future__ import annotations

import asyncio
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from benchmarks.follower_load import allow_files, large_metadata
from tests.fix_server import ServerProcess
from tests.server import rest

MEMORY_MAX_BYTES = 512 * 2**20
WRITERS = 64
READERS = 4
TIMEOUT_SECONDS = 60.0
"""The only bound on time here: no request takes as long."""


@contextmanager
def followed(server: ServerProcess, followers: int, reading: int) -> Iterator[None]:
    """A number of open streams, of which ``reading`` are read."""
    allow_files(2 * followers)
    command = [sys.executable, "-m", "benchmarks.follower_load", *map(str, (server.port, followers, reading))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield


class Crowd:
    """Writers and readers of one table, and a client that polls the server's health."""

    def __init__(self, server: ServerProcess, client: httpx.AsyncClient, table: str) -> None:
        self.statm = Path(f"/proc/{server.pid}/statm")
        self.client = client
        self.path = f"/v1/tables/{table}/instants"
        self.health_answers = 0
        self.memory_max = 0

    async def run(self, cycles: int, large_bytes: int) -> None:
        """Write, large events first, until all is written; the others go on until then."""
        async with asyncio.TaskGroup() as others:
            going_on = [others.create_task(self._poll_health())]
            going_on += [others.create_task(self._read()) for _ in range(READERS)]
            for metadata in large_metadata(large_bytes):
                await self._write(1, metadata)
            async with asyncio.TaskGroup() as writers:
                for _ in range(WRITERS):
                    writers.create_task(self._write(cycles, {}))
            for task in going_on:
                task.cancel()

    async def _write(self, cycles: int, metadata: dict[str, str]) -> None:
        for _ in range(cycles):
            begun = await self.client.post(self.path, json={"writer": "w"})
            complete = f"{self.path}/{begun.raise_for_status().json()['requested_time']}/complete"
            (await self.client.post(complete, json={"extra_metadata": metadata})).raise_for_status()

    async def _read(self) -> None:
        while True:
            (await self.client.get("/v1/events", params={"limit": 1_000})).raise_for_status()

    async def _poll_health(self) -> None:
        while True:
            (await self.client.get("/health")).raise_for_status()
            self.health_answers += 1
            resident_pages = int(self.statm.read_text().split()[1])
            self.memory_max = max(self.memory_max, resident_pages * resource.getpagesize())
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("followers", "large_bytes", "cycles"),
    [
        pytest.param(200, 5_000_000, 2, id="200"),
        pytest.param(1_000, 1_000_000, 20, id="1000", marks=pytest.mark.slow),
    ],
)
def test_followers_that_do_not_read_cost_neither_memory_nor_answers(
    server: ServerProcess, http: httpx.Client, followers: int, large_bytes: int, cycles: int
) -> None:
    table = rest.make_table(http)

    async def run() -> Crowd:
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(base_url=server.url, timeout=TIMEOUT_SECONDS, limits=limits) as client:
            crowd = Crowd(server, client, table.name)
            await crowd.run(cycles, large_bytes)
        return crowd

    with followed(server, followers, followers // 10):
        crowd = asyncio.run(run())

    assert crowd.memory_max < MEMORY_MAX_BYTES
    assert crowd.health_answers > cycles
