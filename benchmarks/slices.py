"""The files of a table of a million slices: read whole, by partition, in the past; and 100,000 written at once.

``make bench-slices`` builds its tables once and keeps them in ``.bench``, 5 GB, until the seed changes.
``CASES=ab`` runs these alone; ``FILES=10000`` completes fewer at once; ``PARTITIONS=100`` has a tenth of the
slices; ``CHECK=1`` exits 1 when a target is missed.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta
from typing import Any, cast

import httpx
import msgspec
import psycopg
from psycopg import sql

from benchmarks import reporting, running
from benchmarks.reporting import Row
from benchmarks.rest_load import Figures
from chronolake._progress import STAGED_AT_ONCE
from chronolake_metastore import embedded
from chronolake_metastore.store.postgres import migrations
from chronolake_model import filter_text
from chronolake_model.file_names import base_file_name
from chronolake_model.files import ARROW
from chronolake_model.scans import Scan

PARTITIONS = int(os.environ.get("PARTITIONS", "1000"))
SEED = (running.HERE / "seed_slices.sql").read_text("utf-8")
KEPT = running.HERE.parent / ".bench" / ("slices" if PARTITIONS == 1_000 else f"slices-{PARTITIONS}")
SHORT, LONG = HISTORIES = (10, 100)
"""Earlier versions of each twentieth file group, of two tables that are alike otherwise."""
MIDDLE = "20260103020000020"
"""When version 50 completed."""
DAY = (date(2024, 1, 1) + timedelta(PARTITIONS * 2 // 5)).isoformat()
PARTITION = f"day={DAY}"
NARROW = filter_text.parse(f"day = '{DAY}' and id >= 500000 and id < 510000")
"""A filter that 10 of the 1,000 slices of a partition could match."""
CASES = os.environ.get("CASES", "abcde")
FILES = int(os.environ.get("FILES", "100000"))
ROUNDS = 5
WRITERS = 8
LOAD_SECONDS = 10.0
_COPY = """
    COPY (
        SELECT
            partition_path, file_id, requested_time AS base_instant_time, kind,
            partition_path || '/' || file_name AS path, size_bytes, records, requested_time, completion_time,
            schema_version
        FROM chronolake.file
        WHERE table_id = {} AND superseded_at IS NULL
    ) TO STDOUT (FORMAT binary)
"""


def main() -> None:
    """Measure, print the report, and fail when CHECK is set and a target is missed."""
    reporting.finish(_measure(), f"{ROUNDS} rounds, median")


def _measure() -> Iterator[Row]:
    dsn = _kept_postgres()
    with running.server(dsn) as client:
        yield from _build(dsn, client)
        bench = Bench(dsn, client)
        cases: dict[str, Callable[[], Iterator[Row]]] = {
            "a": bench.whole,
            "b": bench.partition,
            "c": bench.past,
            "d": bench.large_complete,
            "e": bench.filtered,
        }
        for case in CASES:
            yield from cases[case]()


def _kept_postgres() -> str:
    key = KEPT / "seed.sha256"
    digest = hashlib.sha256(SEED.encode()).hexdigest()
    if not key.exists() or key.read_text("ascii") != digest:
        shutil.rmtree(KEPT, ignore_errors=True)
        KEPT.mkdir(parents=True)
        key.write_text(digest, "ascii")
    dsn = embedded.start(KEPT / "database").dsn
    migrations.upgrade(dsn)
    return dsn


def _build(dsn: str, client: httpx.Client) -> Iterator[Row]:
    """The tables that are not there yet."""
    client.post("/v1/namespaces", json={"name": "bench"})
    began = time.monotonic()
    missing = [n for n in HISTORIES if client.get(f"/v1/tables/bench.v{n}").status_code == 404]
    for versions in missing:
        print(f"building a table of {PARTITIONS * 1_000:,} slices with {versions} versions behind 5 % of them")
        schema = [{"name": "id", "type": "bigint"}, {"name": "day", "type": "date"}]
        buckets = {"buckets": 1_000}
        running.make_table(client, f"bench.v{versions}", schema=schema, partition_fields=["day"], index=buckets)
        _seed(dsn, versions)
    if missing:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("VACUUM (ANALYZE)")
            connection.execute("CHECKPOINT")
        yield Row("building what was not kept", f"{time.monotonic() - began:,.0f} s")


def _seed(dsn: str, versions: int) -> None:
    with psycopg.connect(dsn) as connection:
        parameters = {"name": f"v{versions}", "versions": versions, "partitions": PARTITIONS}
        for statement in SEED.split(";\n"):
            if statement.strip():
                connection.execute(sql.SQL(statement), parameters)


class Bench:
    """The cases, on the tables that are there."""

    def __init__(self, dsn: str, client: httpx.Client) -> None:
        self._dsn = dsn
        self._client = client
        self._connection = psycopg.connect(dsn, autocommit=True)

    def whole(self) -> Iterator[Row]:
        """(a): the latest snapshot against COPY of the same rows."""
        copied, streamed = _in_turn(lambda: self._copy(LONG), lambda: self._stream(LONG))
        yield Row("(a) COPY of a million rows, binary", f"{copied:.2f} s")
        yield reporting.at_most(
            f"(a) the snapshot as Arrow over REST ({streamed:.2f} s)", streamed / copied, 2.0, "x"
        )
        yield Row("(a) memory of the server behind it", f"{self._memory() / 1e6:,.0f} MB")

    def partition(self) -> Iterator[Row]:
        """(b): one partition, by the length of the history."""
        short, long = _in_turn(
            lambda: self._stream(SHORT, partition_path=PARTITION),
            lambda: self._stream(LONG, partition_path=PARTITION),
        )
        name = f"(b) one partition, 100 versions ({long * 1e3:.0f} ms) against 10 ({short * 1e3:.0f} ms)"
        yield reporting.at_most(name, long / short, 1.2, "x")

    def filtered(self) -> Iterator[Row]:
        """(e): one partition with a filter that keeps one slice in a hundred, by the length of the history."""
        short, long, pages, unfiltered = _in_turn(
            lambda: self._scan(SHORT, ARROW),
            lambda: self._scan(LONG, ARROW),
            lambda: self._scan(LONG, "application/json"),
            lambda: self._stream(LONG, partition_path=PARTITION),
        )
        name = f"(e) 1 % of a partition, 100 versions ({long * 1e3:.0f} ms) against 10 ({short * 1e3:.0f} ms)"
        yield reporting.at_most(name, long / short, 1.2, "x")
        other_times = f"as Arrow, {pages * 1e3:.0f} ms as JSON, {unfiltered * 1e3:.0f} ms the whole partition"
        yield Row("(e) the filtered partition", f"{long * 1e3:.0f} ms {other_times}")

    def past(self) -> Iterator[Row]:
        """(c): the middle of the history against the latest."""
        middle = f"202601{1 + HISTORIES[-1] // 48:02}{HISTORIES[-1] // 2 % 24:02}0000020"
        latest, then = _in_turn(
            lambda: self._stream(HISTORIES[-1]), lambda: self._stream(HISTORIES[-1], as_of=middle)
        )
        name = f"(c) as of the middle of the history ({then:.2f} s) against the latest ({latest:.2f} s)"
        yield reporting.at_most(name, then / latest, 3.0, "x")

    def large_complete(self) -> Iterator[Row]:
        """(d): the latency of other writers of a table while very many files are completed at once."""
        name = f"bench.large{time.time_ns()}_"
        running.make_table(self._client, f"{name}0", tick="1us", index={"type": "simple"})
        large = _LargeInstant(self._client, f"{name}0")
        rows = [("before", running.load(name, 1, WRITERS, LOAD_SECONDS))]
        for phase, step in (("staging", large.stage), ("completing", large.complete)):
            seconds, figures = _beside(step, lambda: running.load(name, 1, WRITERS, LOAD_SECONDS))
            rows.append((f"while it is {phase}", figures))
            yield Row(f"(d) {phase} {FILES:,} files, as the writer sees it", f"{seconds:.2f} s")
        for when, figures in rows:
            waits = f"p99 {figures.latency_ms_p99:,.0f} ms, longest {figures.latency_ms_max:,.0f} ms"
            yield Row(f"(d) cycles of {WRITERS} other writers of the table, {when}", waits)

    def _copy(self, versions: int) -> None:
        [table_id] = self._connection.execute(
            "SELECT table_id FROM chronolake.lake_table WHERE name = %s", [f"v{versions}"]
        ).fetchone() or [None]
        with self._connection.cursor().copy(sql.SQL(_COPY).format(table_id)) as copy:
            for _ in copy:
                pass

    def _stream(self, versions: int, **parameters: str) -> None:
        path, headers = f"/v1/tables/bench.v{versions}/snapshot", {"Accept": ARROW}
        with self._client.stream("GET", path, params=parameters, headers=headers) as answer:
            answer.raise_for_status()
            for _ in answer.iter_raw():
                pass

    def _scan(self, versions: int, accepted: str) -> None:
        body = msgspec.json.encode(Scan(filter=NARROW))
        headers = {"Accept": accepted, "Content-Type": "application/json"}
        self._client.post(
            f"/v1/tables/bench.v{versions}/scan", content=body, headers=headers
        ).raise_for_status()

    def _memory(self) -> float:
        match = re.search(
            r"^process_resident_memory_bytes (.*)$", self._client.get("/metrics").text, re.MULTILINE
        )
        assert match is not None
        return float(match[1])


class _LargeInstant:
    """An instant of very many files."""

    def __init__(self, client: httpx.Client, table: str) -> None:
        path = f"/v1/tables/{table}/instants"
        begun = client.post(path, json={"writer": "many", "lease_seconds": 3_600}).raise_for_status().json()
        self._requested_time = begun["requested_time"]
        self._path = f"{path}/{self._requested_time}"
        self._client = client
        self._staged: list[int] = []

    def stage(self) -> None:
        """Report the files, as many at a time as the client does."""
        for first in range(0, FILES, STAGED_AT_ONCE):
            stats = [self._stat(number) for number in range(first, min(first + STAGED_AT_ONCE, FILES))]
            self._staged.append(self._post("write-stats", {"write_stats": stats})["version"])

    def complete(self) -> None:
        """Publish them."""
        self._post("complete", {"staged": self._staged})

    def _stat(self, number: int) -> dict[str, object]:
        file_id = f"many-{number}"
        name = base_file_name(file_id, "0-0-0", self._requested_time)
        return {
            "partition_path": "",
            "file_id": file_id,
            "file_name": name,
            "size_bytes": 1_000,
            "records": 10,
        }

    def _post(self, step: str, body: dict[str, object]) -> dict[str, Any]:
        answer = self._client.post(f"{self._path}/{step}", json=body, timeout=600).raise_for_status()
        return cast(dict[str, Any], answer.json())


def _beside(step: Callable[[], None], load: Callable[[], Figures]) -> tuple[float, Figures]:
    """How long a step takes in the middle of a load, and the figures of the load."""
    with ThreadPoolExecutor(1) as beside:
        loading = beside.submit(load)
        time.sleep(LOAD_SECONDS / 4)
        began = time.perf_counter()
        step()
        return time.perf_counter() - began, loading.result()


def _in_turn(*measured: Callable[[], None]) -> list[float]:
    """The median seconds of each, run in turn: other load of the machine affects all of them."""
    taken: list[list[float]] = [[] for _ in measured]
    for _ in range(ROUNDS):
        for number, measure in enumerate(measured):
            began = time.perf_counter()
            measure()
            taken[number].append(time.perf_counter() - began)
    return [statistics.median(each) for each in taken]


if __name__ == "__main__":
    main()
