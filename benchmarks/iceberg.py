"""The Iceberg catalog: loading a table after a commit, beside loading it unchanged, by files and snapshots.

``make bench-iceberg`` runs all; ``FILES=1000,20000`` are the tables' files, ``SNAPSHOTS=1,500`` their commits,
``ROUNDS=9``; ``CHECK=1`` exits 1 when a target is missed. No data file exists: the catalog reads the log alone.
"""

from __future__ import annotations

import functools
import os
import random
import statistics
import time
import uuid
from collections.abc import Callable, Iterator

import httpx
from pyiceberg.catalog.rest import RestCatalog

import chronolake
from benchmarks import lakes, reporting, running
from benchmarks.lakes import Lake
from benchmarks.reporting import Row
from chronolake import Field
from chronolake_model.file_names import base_file_name
from chronolake_model.files import ColumnStats, WriteStat
from chronolake_model.tables import BucketIndex
from chronolake_model.vocabulary import IndexType

FILES = [int(files) for files in os.environ.get("FILES", "1000,20000").split(",")]
SNAPSHOTS = [int(snapshots) for snapshots in os.environ.get("SNAPSHOTS", "1,500").split(",")]
ROUNDS = int(os.environ.get("ROUNDS", "9"))
CHANGED = 5
"""The files that a commit replaces."""
PARTITIONS = 100
COLUMNS = 10
RECORDS = 50_000
LOAD_MS_MAX = 30
PAUSE_SECONDS = 0.5


def main() -> None:
    """Measure, print the report, and fail when CHECK is set and a target is missed."""
    reporting.finish(_measure(running.postgres(), lakes.local()), f"{ROUNDS} rounds, median")


def _measure(dsn: str, lake: Lake) -> Iterator[Row]:
    with running.server(dsn) as rest, chronolake.connect(running.URL) as client:
        client.create_namespace("bench")
        for files in FILES:
            for snapshots in SNAPSHOTS:
                yield from _Case(client, rest, lake, files, snapshots).run()
    yield from _restarted(dsn)


def _restarted(dsn: str) -> Iterator[Row]:
    with running.server(dsn) as rest:
        for files in FILES:
            for snapshots in SNAPSHOTS:
                [took] = _times(functools.partial(_get, rest, _table(files, snapshots)), 1)
                yield Row(f"{_name(files, snapshots)}: first load by a restarted server", _ms(took))


class _Case:
    """A table of a number of files, with a number of snapshots."""

    def __init__(
        self, client: chronolake.Client, rest: httpx.Client, lake: Lake, files: int, snapshots: int
    ) -> None:
        self._rest = rest
        self._random = random.Random(files)
        self._name = _table(files, snapshots)
        self._title = _name(files, snapshots)
        lake.files(self._name)
        self._table = client.create_table(
            f"bench.{self._name}",
            base_path=lake.base_path(self._name),
            schema=[Field("day", "date"), *(Field(f"c{n}", "bigint") for n in range(1, COLUMNS))],
            record_key_fields=["c1"],
            partition_fields=["day"],
            index=BucketIndex(IndexType.SIMPLE),
        )
        self._table.claim_storage()
        self._groups = [
            (self._path(n), f"{uuid.UUID(int=self._random.getrandbits(128))}-0") for n in range(files)
        ]
        self._commit(self._groups)
        for _ in range(snapshots - 1):
            self._commit(self._random.sample(self._groups, CHANGED))

    def run(self) -> Iterator[Row]:
        """The figures of the table."""
        [took] = _times(lambda: _get(self._rest, self._name), 1)
        yield Row(f"{self._title}: first load of all", _ms(took))
        _settle(self._rest, self._name)
        etag = _get(self._rest, self._name).headers["ETag"]
        same = _median(lambda: _get(self._rest, self._name, etag), self._nothing)
        whole = _median(lambda: _get(self._rest, self._name), self._nothing)
        after = _median(lambda: _get(self._rest, self._name, etag), self._change)
        yield Row(f"{self._title}: load unchanged, 304; 200", f"{_ms(same)}; {_ms(whole)}")
        name = f"{self._title}: load after a commit of {CHANGED} files ({after / whole:.1f} x unchanged)"
        yield reporting.at_most(name, after * 1_000, LOAD_MS_MAX, "ms")
        ahead = _median(lambda: _get(self._rest, self._name, etag), self._change_and_wait)
        yield Row(f"{self._title}: the same {PAUSE_SECONDS} s after the commit", _ms(ahead))
        catalog = RestCatalog("lake", uri=f"{running.URL}/iceberg")
        whole = _median(lambda: catalog.load_table(self._table.name), self._nothing)
        after = _median(lambda: catalog.load_table(self._table.name), self._change)
        yield Row(f"{self._title}: the same by pyiceberg; unchanged", f"{_ms(after)}; {_ms(whole)}")

    def _nothing(self) -> None:
        pass

    def _change(self) -> None:
        self._commit(self._random.sample(self._groups, CHANGED))

    def _change_and_wait(self) -> None:
        """Commit, and leave the time in which the server makes the snapshot without a request."""
        self._change()
        time.sleep(PAUSE_SECONDS)

    def _path(self, number: int) -> str:
        return f"day=2026-{1 + number % PARTITIONS // 28:02}-{1 + number % PARTITIONS % 28:02}"

    def _commit(self, groups: list[tuple[str, str]]) -> None:
        with self._table.begin() as write:
            for path, file_id in groups:
                low = self._random.randrange(2**40)
                stats = [ColumnStats(n, low, low + n, 0) for n in range(2, COLUMNS + 1)]
                name = base_file_name(file_id, "0-0-0", write.requested_time)
                write.add(
                    WriteStat(
                        path,
                        file_id,
                        name,
                        2**27,
                        RECORDS,
                        inserts=RECORDS,
                        column_stats=stats,
                        has_field_ids=True,
                    )
                )


def _table(files: int, snapshots: int) -> str:
    return f"t{files}_{snapshots}"


def _name(files: int, snapshots: int) -> str:
    return f"{files:,} files, {snapshots:,} snapshots"


def _get(rest: httpx.Client, table: str, etag: str = "") -> httpx.Response:
    answer = rest.get(f"/iceberg/v1/namespaces/bench/tables/{table}", headers={"If-None-Match": etag})
    assert answer.status_code in (200, 304), answer.text
    return answer


def _settle(rest: httpx.Client, table: str) -> None:
    """Load until nothing changes: older snapshots are made afterwards."""
    etag = ""
    while (answer := _get(rest, table, etag)).status_code == 200:
        etag = answer.headers["ETag"]
        time.sleep(1)


def _median(measured: Callable[[], object], before: Callable[[], None]) -> float:
    return statistics.median(_times(measured, ROUNDS, before))


def _times(
    measured: Callable[[], object], rounds: int, before: Callable[[], None] = lambda: None
) -> list[float]:
    times = []
    for _ in range(rounds):
        before()
        began = time.perf_counter()
        measured()
        times.append(time.perf_counter() - began)
    return times


def _ms(seconds: float) -> str:
    return f"{seconds * 1_000:,.1f} ms"


if __name__ == "__main__":
    main()
