"""The cost of followers of the event stream: the time of a read beside 1,000 of them, and the server's memory.

``make bench-followers``; ``FOLLOWERS=200`` makes it smaller; ``CHECK=1`` exits 1 when a target is missed.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from benchmarks import reporting, running
from benchmarks.follower_load import allow_files, large_metadata
from benchmarks.reporting import Row

FOLLOWERS = int(os.environ.get("FOLLOWERS", "1000"))
READS = int(os.environ.get("READS", "300"))
LARGE_BYTES = 1_000_000
MEMORY_MAX_MIB = 512
TABLE = "bench.followed"


def main() -> None:
    """Measure, print the report, and fail when CHECK is set and a target is missed."""
    allow_files(2 * FOLLOWERS)
    reporting.finish(_measure(running.postgres()), f"{FOLLOWERS:,} followers, {READS} reads")


def _measure(dsn: str) -> Iterator[Row]:
    with running.server(dsn) as client:
        client.post("/v1/namespaces", json={"name": "bench"}).raise_for_status()
        running.make_table(client, TABLE)
        alone = _read_ms(client)
        yield Row("a read, without followers", f"{alone:.1f} ms")
        yield Row("memory, without followers", f"{_memory_mib(client):,.0f} MiB")
        with _followed(FOLLOWERS):
            yield reporting.at_most("a read beside them, against one alone", _read_ms(client) / alone, 3, "x")
        with _followed(0), running.LongestRequest(_get_health, 0.01) as longest:
            _append_large(client)
            beside = _read_ms(client)
            peak = max(_memory_mib(client) for _ in range(50))
        yield Row("a read after 1 MB for those who do not read", f"{beside:.1f} ms")
        yield Row("the longest /health meanwhile", f"{longest.seconds * 1_000:,.0f} ms")
        yield reporting.at_most("memory then", peak, MEMORY_MAX_MIB, "MiB")


@contextmanager
def _followed(reading: int) -> Iterator[None]:
    command = [
        sys.executable,
        "-m",
        "benchmarks.follower_load",
        str(running.PORT),
        str(FOLLOWERS),
        str(reading),
    ]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield


def _read_ms(client: httpx.Client) -> float:
    """The median of reading a table's instants."""
    seconds = []
    for _ in range(READS):
        started = time.perf_counter()
        client.get(f"/v1/tables/{TABLE}/instants").raise_for_status()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds) * 1_000


def _append_large(client: httpx.Client) -> None:
    for metadata in large_metadata(LARGE_BYTES):
        begun = client.post(f"/v1/tables/{TABLE}/instants", json={"writer": "w"}).raise_for_status().json()
        path = f"/v1/tables/{TABLE}/instants/{begun['requested_time']}/complete"
        client.post(path, json={"extra_metadata": metadata}).raise_for_status()


def _memory_mib(client: httpx.Client) -> float:
    lines = client.get("/metrics").raise_for_status().text.splitlines()
    [resident_line] = [line for line in lines if line.startswith("process_resident_memory_bytes ")]
    return float(resident_line.split()[1]) / 2**20


def _get_health(client: httpx.Client) -> None:
    client.get("/health").raise_for_status()


if __name__ == "__main__":
    main()
