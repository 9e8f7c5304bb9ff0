"""Publication for Hudi's readers: its rate, its lag, its cost, and what readers and adoption take.

``make bench-publishing`` runs all cases; ``CASES=ab`` runs these alone; ``COMMITS=2000`` is for (a) and before
(c), ``LONG_COMMITS=10000`` for (d), ``ADOPTED_COMMITS=1000`` for (e), ``SECONDS=10`` for (b) and for each table
and round of (c), of which there are ``ROUNDS=12``; ``CHECK=1`` exits 1 when a target is missed.
"""

from __future__ import annotations

import os
import queue
import shutil
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import hudi
import psycopg
import pyarrow.parquet as pq

import chronolake
from benchmarks import hudi_table, lakes, reporting, running
from benchmarks.lakes import Lake
from benchmarks.reporting import Row
from chronolake.hudi import adopting
from chronolake.hudi.definitions import Options
from chronolake_hudi import timeline_files
from chronolake_model.file_names import base_file_name, bucket_file_id
from chronolake_model.publication import PUBLISH_PROPERTY, PUBLISHER_PROPERTY
from chronolake_model.vocabulary import Action
from chronolake_storage.files import Files
from chronolake_storage.publishing import TIMELINE_FOLDER

CASES = os.environ.get("CASES", "abcde")
COMMITS = int(os.environ.get("COMMITS", "2000"))
LONG_COMMITS = int(os.environ.get("LONG_COMMITS", "10000"))
ADOPTED_COMMITS = int(os.environ.get("ADOPTED_COMMITS", "1000"))
SECONDS = float(os.environ.get("SECONDS", "10"))
ROUNDS = int(os.environ.get("ROUNDS", "12"))
WRITERS = 16
PACE = 10
"""Commits a second in (b)."""
READS = 5
POLL_SECONDS = {"local disk": 0.002}
POLL_SECONDS_OF_STORE = 0.02
"""How often (b) looks for a file: an S3 API on the same machine is not to be kept busy by that."""
PUBLISHED_SECONDS_MAX = 600.0
FILE_BYTES = 2_000
"""About what a commit of three files has."""
WRITE_SECONDS = float(os.environ.get("WRITE_SECONDS", "1"))
"""How long writers run before the number of commits is looked at."""
RATE_MIN = 100
OPENING_SECONDS_MAX = 5
OPENING_RATIO_MAX = 10
ADOPTION_SECONDS_MAX = 30


def main() -> None:
    """Measure, print the report, and fail when CHECK is set and a target is missed."""
    load = f"load {os.getloadavg()[0]:.1f} at the start"
    reporting.finish(_measure(running.postgres()), f"{SECONDS} s a round, {load}")


def _measure(dsn: str) -> Iterator[Row]:
    places = (lakes.local(), lakes.s3())
    with running.server(dsn) as client:
        client.post("/v1/namespaces", json={"name": "bench"}).raise_for_status()
        yield from cases(dsn, client, places, CASES)


def cases(dsn: str, client: httpx.Client, places: tuple[Lake, ...], chosen: str) -> Iterator[Row]:
    """The rows of the cases; (c) to (e) are measured at the first place, which must be local."""
    local = places[0]
    measured: dict[str, Callable[[], Iterator[Row]]] = {
        "a": lambda: _rate(client, places),
        "b": lambda: _lag(client, places),
        "c": lambda: _cost(dsn, client, local),
        "d": lambda: _opening(dsn, client, local),
        "e": lambda: _adoption(local),
    }
    for case in chosen:
        yield from measured[case]()


def _rate(client: httpx.Client, places: tuple[Lake, ...]) -> Iterator[Row]:
    """(a): catching up with commits that no publisher has published."""
    for number, lake in enumerate(places):
        yield from _plain_files(lake, f"files{number}")
        hidden = _make(client, lake, f"hidden{number}0", {PUBLISHER_PROPERTY: "client"})
        yield _catch_up(lake, hidden, "a table that was never published")
        seen = _make(client, lake, f"seen{number}0", {PUBLISHER_PROPERTY: "client"})
        with _connected(lake) as metastore:
            metastore.table(seen).publish()
        yield _catch_up(lake, seen, "a published table")


def _plain_files(lake: Lake, name: str) -> Iterator[Row]:
    """The baseline: as many files, created one after the other as publication creates them."""
    files = lake.files(name)
    number = max(1, COMMITS // 10)
    began = time.perf_counter()
    for file in range(number):
        files.create(f"{TIMELINE_FOLDER}/{file}", b"x" * FILE_BYTES)
    yield Row(f"(a) {lake.name}: files, one by one", f"{number / (time.perf_counter() - began):,.0f} files/s")


def _catch_up(lake: Lake, table: str, what: str) -> Row:
    """From the moment at which a server may publish a table until it has published all."""
    commits = _write(table, COMMITS)
    with _connected(lake) as metastore:
        opened = metastore.table(table)
        began = time.perf_counter()
        opened.alter(set={PUBLISHER_PROPERTY: "server"})
        _wait_until_published(opened)
    rate = commits / (time.perf_counter() - began)
    name = f"(a) {lake.name}: catching up with {commits:,} commits, {what}"
    return reporting.at_least(name, rate, RATE_MIN, "commits/s")


def _lag(client: httpx.Client, places: tuple[Lake, ...]) -> Iterator[Row]:
    """(b): from the answer to a complete until its file is in the timeline."""
    for number, lake in enumerate(places):
        table = _make(client, lake, f"paced{number}")
        # The first commit opens the storage, and claims it.
        _Paced(client, table, lake.files(f"paced{number}"), lake.name).run(1)
        paced = _Paced(client, table, lake.files(f"paced{number}"), lake.name)
        paced.run(max(1, round(PACE * SECONDS)))
        median, p99 = _quantiles(paced.lags)
        name = f"(b) {lake.name}: lag at {PACE} commits/s"
        yield Row(f"{name}, median", f"{median * 1_000:,.0f} ms")
        yield reporting.at_most(f"{name}, p99 of {len(paced.lags)}", p99, 1, "s")
        yield Row(f"(b) {lake.name}: begin and complete", f"{_quantiles(paced.cycles)[0] * 1_000:,.1f} ms")


class _Paced:
    """Commits at a steady pace, and how long each of them takes to be readable."""

    def __init__(self, client: httpx.Client, table: str, files: Files, place: str) -> None:
        self.lags: list[float] = []
        self.cycles: list[float] = []
        self._client, self._path, self._files = client, f"/v1/tables/{table}/instants", files
        self._poll_seconds = POLL_SECONDS.get(place, POLL_SECONDS_OF_STORE)
        self._completed: queue.SimpleQueue[tuple[float, str] | None] = queue.SimpleQueue()

    def run(self, commits: int) -> None:
        """Write this number of commits, and wait until the last is readable."""
        with ThreadPoolExecutor(1) as pool:
            watching = pool.submit(self._watch)
            began = time.perf_counter()
            try:
                for number in range(commits):
                    time.sleep(max(0.0, began + number / PACE - time.perf_counter()))
                    self._commit()
            finally:
                self._completed.put(None)
            watching.result()

    def _commit(self) -> None:
        began = time.perf_counter()
        begun = _post(self._client, self._path, {"writer": "w", "operation": "upsert"})["requested_time"]
        name = base_file_name(bucket_file_id(0), "0-0-0", begun)
        stat = {
            "partition_path": "",
            "file_id": bucket_file_id(0),
            "file_name": name,
            "size_bytes": 1,
            "records": 1,
        }
        done = _post(self._client, f"{self._path}/{begun}/complete", {"write_stats": [stat]})
        ended = time.perf_counter()
        self.cycles.append(ended - began)
        file = timeline_files.completed_name(begun, done["completion_time"], Action.COMMIT)
        self._completed.put((ended, f"{TIMELINE_FOLDER}/{file}"))

    def _watch(self) -> None:
        """Files appear in the order of the log, so only the first of them is looked for."""
        while (completed := self._completed.get()) is not None:
            ended, path = completed
            while next(iter(self._files.sizes([path]))) is None:
                assert time.perf_counter() < ended + PUBLISHED_SECONDS_MAX, f"{path} is not published"
                time.sleep(self._poll_seconds)
            self.lags.append(time.perf_counter() - ended)


def _cost(dsn: str, client: httpx.Client, lake: Lake) -> Iterator[Row]:
    """(c): begin and complete on a published table and on two others, whose difference is the noise.

    All three have the same history, and each is the first in a third of the rounds. A cost is measurable if the
    95 % interval of its mean over the rounds lies above 0.
    """
    off = {PUBLISH_PROPERTY: "false"}
    published = _make(client, lake, "published0")
    plain = [_make(client, lake, name, off) for name in ("plain0", "other0")]
    names = [published, *plain]
    for name in names:
        _write(name, COMMITS)
    with psycopg.connect(dsn, autocommit=True) as connection:
        # As if long done: that it is done in the middle of a measurement would be luck.
        connection.execute("VACUUM (ANALYZE)")
    costs, noise, rates = [], [], []
    with _connected(lake) as metastore:
        opened = metastore.table(published)
        for _ in range(ROUNDS):
            measured = {}
            for name in names:
                _wait_until_published(opened)
                measured[name] = running.load(name[:-1], 1, WRITERS, SECONDS).cycles_per_second
            names = [*names[1:], names[0]]
            without = statistics.mean(measured[name] for name in plain)
            rates.append(without)
            costs.append(1 - measured[published] / without)
            noise.append((measured[plain[0]] - measured[plain[1]]) / without)
    yield Row(f"(c) {WRITERS} writers, without publication", f"{statistics.median(rates):,.0f} cycles/s")
    yield Row("(c) two tables without publication differ by", _interval(noise)[0])
    cost, lowest = _interval(costs)
    name = f"(c) what publication costs, {len(costs)} rounds"
    yield Row(name, cost, "an interval that includes 0 %", lowest <= 0)


def _opening(dsn: str, client: httpx.Client, lake: Lake) -> Iterator[Row]:
    """(d): a long timeline, opened and read by hudi-rs and by Chronolake."""
    name = _make(client, lake, "long0")
    commits = _write(name, LONG_COMMITS)
    folder = Path(lake.base_path("long0"))
    _write_files(dsn, folder, "long0")
    with _connected(lake) as metastore:
        table = metastore.table(name)
        _wait_until_published(table)

        def read() -> int:
            files = [slice_.base_file for slice_ in table.snapshot().slices]
            return sum(pq.ParquetFile(folder / file.path).read().num_rows for file in files if file is not None)

        ours, rows = _seconds(read)
    opened, _ = _seconds(lambda: len(hudi.HudiTable(str(folder)).get_file_slices()))
    theirs, rows_of_hudi = _seconds(lambda: sum(batch.num_rows for batch in hudi.HudiTable(str(folder)).read()))
    assert rows == rows_of_hudi > 0, f"hudi-rs reads {rows_of_hudi} rows, Chronolake {rows}"
    what = f"(d) {commits:,} commits"
    yield Row(f"{what}: Chronolake's snapshot, and reading its {rows:,} files", f"{ours:.2f} s")
    yield reporting.at_most(f"{what}: hudi-rs finds the file slices", opened, OPENING_SECONDS_MAX, "s")
    yield reporting.at_most(
        f"{what}: hudi-rs finds and reads them, against Chronolake", theirs / ours, OPENING_RATIO_MAX, "x"
    )


def _write_files(dsn: str, folder: Path, table: str) -> None:
    """Write the files that the load has named: all of them the same file with a row."""
    hudi_table.write_file(folder / "first.parquet")
    with psycopg.connect(dsn) as connection:
        query = (
            "SELECT file_name FROM chronolake.file JOIN chronolake.lake_table USING (table_id) WHERE name = %s"
        )
        for (file_name,) in connection.execute(query, [table]):
            # A file system limits the links of a file.
            shutil.copyfile(folder / "first.parquet", folder / file_name)
    (folder / "first.parquet").unlink()


def _adoption(lake: Lake) -> Iterator[Row]:
    """(e): a table of Hudi comes in where it is."""
    folder = Path(lake.base_path("adopted"))
    folder.mkdir()
    hudi_table.make(folder, ADOPTED_COMMITS)
    with _connected(lake) as metastore:
        began = time.perf_counter()
        adopted = adopting.adopt(metastore, Options(name="bench.adopted", base_path=str(folder)))
        seconds = time.perf_counter() - began
    assert adopted.instants == ADOPTED_COMMITS, adopted
    name = f"(e) adopting a table of Hudi with {adopted.instants:,} commits"
    yield reporting.at_most(name, seconds, ADOPTION_SECONDS_MAX, "s")


def _make(client: httpx.Client, lake: Lake, name: str, properties: dict[str, str] | None = None) -> str:
    """A table at a place: its full name."""
    lake.files(name)
    own = lake.properties | (properties or {})
    running.make_table(client, f"bench.{name}", base_path=lake.base_path(name), properties=own)
    return f"bench.{name}"


def _write(table: str, commits: int) -> int:
    """Complete at least this number of commits; ``table`` ends with 0, as ``running.load`` has it."""
    completed = 0
    while completed < commits:
        completed += running.load(table[:-1], 1, WRITERS, WRITE_SECONDS).cycles
    return completed


def _connected(lake: Lake) -> chronolake.Client:
    return chronolake.connect(running.URL, storage_options=lake.options)


def _wait_until_published(table: chronolake.Table) -> None:
    deadline = time.monotonic() + PUBLISHED_SECONDS_MAX
    while (publication := table.publication()).lag_versions:
        assert publication.reason is None, publication
        if time.monotonic() > deadline:
            raise TimeoutError(f"{table.name} is not published: {publication}")
        time.sleep(0.05)


def _post(client: httpx.Client, path: str, body: dict[str, object]) -> dict[str, Any]:
    answer: dict[str, Any] = client.post(path, json=body).raise_for_status().json()
    return answer


def _seconds(read: Callable[[], int]) -> tuple[float, int]:
    """The median time of a read, and its result."""
    taken, result = [], 0
    for _ in range(READS):
        began = time.perf_counter()
        result = read()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken), result


def _interval(shares: Sequence[float]) -> tuple[str, float]:
    """The mean of shares with the half width of its 95 % interval as text, and the interval's lower end."""
    mean = statistics.mean(shares)
    deviation = statistics.stdev(shares) if len(shares) > 1 else 0.0
    half = statistics.NormalDist().inv_cdf(0.975) * deviation / len(shares) ** 0.5
    return f"{mean:.1%} ± {half:.1%}", mean - half


def _quantiles(seconds: list[float]) -> tuple[float, float]:
    """The median and the 99th percentile."""
    ordered = sorted(seconds)
    return statistics.median(ordered), ordered[int(len(ordered) * 0.99)]


if __name__ == "__main__":
    main()
