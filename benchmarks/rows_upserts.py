"""Upserts by the client without Spark, beside libraries of other table formats with the same rows.

A part of ``make bench-rows``. Each write is a process of its own, whose peak memory is a figure too; systems
take turns. A round changes each tenth record, and adds a hundredth as many. The peers come with the dependency
group ``bench``. A peer that takes longer than ``PEER_SECONDS`` is stopped, and left out of later rounds.
"""

from __future__ import annotations

import importlib
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any, Final, Protocol

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import chronolake
from benchmarks import reporting, running
from benchmarks.reporting import Row
from chronolake_model.tables import BucketIndex
from chronolake_model.vocabulary import IndexType, TableType

PEER_SECONDS_MAX = float(os.environ.get("PEER_SECONDS", "60"))
BUCKETS: Final = 8
_CHANGED_STEP, _NEW_SHARE = 10, 100
_KEY: Final = "id"
_SCHEMA: Final = [
    chronolake.Field("id", "bigint"),
    chronolake.Field("ts", "timestamp"),
    *(chronolake.Field(f"d{number}", "double") for number in range(1, 4)),
    chronolake.Field("s", "string"),
]


class System(Protocol):
    """A library that writes a table in a folder."""

    def load(self, rows: pa.Table) -> None:
        """Make the table with these rows."""

    def upsert(self, rows: pa.Table) -> None:
        """Update the records whose keys exist, and insert the others."""

    def count(self) -> int:
        """The number of records."""


class _Chronolake:
    def __init__(self, name: str, folder: Path, type_: TableType, index: BucketIndex) -> None:
        importlib.import_module("chronolake.writing.local_writes")
        self._client = chronolake.connect(running.URL)
        self._name, self._folder, self._type, self._index = f"bench.{name}", folder, type_, index

    def load(self, rows: pa.Table) -> None:
        self._client.create_namespace("bench", if_not_exists=True)
        self._client.create_table(
            self._name,
            base_path=str(self._folder),
            schema=_SCHEMA,
            record_key_fields=[_KEY],
            type=self._type,
            index=self._index,
        ).overwrite(rows, "all")

    def upsert(self, rows: pa.Table) -> None:
        self._client.table(self._name).upsert(rows)

    def count(self) -> int:
        batches = self._client.table(self._name).to_batches(columns=[_KEY])
        return sum(len(batch) for batch in batches)


class _DeltaRs:
    def __init__(self, folder: Path) -> None:
        self._library: Any = importlib.import_module("deltalake")
        self._folder = str(folder)

    def load(self, rows: pa.Table) -> None:
        self._library.write_deltalake(self._folder, rows)

    def upsert(self, rows: pa.Table) -> None:
        merge = self._library.DeltaTable(self._folder).merge(rows, f"s.{_KEY} = t.{_KEY}", "s", "t")
        merge.when_matched_update_all().when_not_matched_insert_all().execute()

    def count(self) -> int:
        return int(self._library.DeltaTable(self._folder).count())


class _PyIceberg:
    def __init__(self, folder: Path) -> None:
        catalogs: Any = importlib.import_module("pyiceberg.catalog.sql")
        folder.mkdir(exist_ok=True)
        self._catalog = catalogs.SqlCatalog(
            "bench", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}"
        )

    def load(self, rows: pa.Table) -> None:
        self._catalog.create_namespace("bench")
        self._catalog.create_table("bench.rows", rows.schema).append(rows)

    def upsert(self, rows: pa.Table) -> None:
        self._catalog.load_table("bench.rows").upsert(rows, [_KEY])

    def count(self) -> int:
        return int(self._catalog.load_table("bench.rows").scan().count())


class _DuckLake:
    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self._connection = duckdb.connect(config={"extension_directory": str(folder / "extensions")})
        [wheel] = resources.files("duckdb_extension_ducklake").joinpath("extensions").iterdir()
        self._connection.execute(f"INSTALL '{wheel / 'ducklake.duckdb_extension'}'")
        self._connection.execute("LOAD ducklake")
        self._connection.execute(
            f"ATTACH 'ducklake:{folder}/catalog.ducklake' AS lake (DATA_PATH '{folder}/data')"
        )

    def load(self, rows: pa.Table) -> None:
        self._connection.register("given", rows)
        self._connection.execute("CREATE TABLE lake.bench AS SELECT * FROM given")

    def upsert(self, rows: pa.Table) -> None:
        self._connection.register("given", rows)
        self._connection.execute(
            f"MERGE INTO lake.bench t USING given s ON s.{_KEY} = t.{_KEY} "
            "WHEN MATCHED THEN UPDATE WHEN NOT MATCHED THEN INSERT"
        )

    def count(self) -> int:
        [(count,)] = self._connection.execute("SELECT count(*) FROM lake.bench").fetchall()
        return int(count)


_COPY_ON_WRITE: Final = "copy-on-write, bucket index"
_MERGE_ON_READ: Final = "merge-on-read, bucket index"
OWN: Final = {
    _COPY_ON_WRITE: (TableType.COPY_ON_WRITE, BucketIndex(buckets=BUCKETS)),
    _MERGE_ON_READ: (TableType.MERGE_ON_READ, BucketIndex(buckets=BUCKETS)),
    "copy-on-write, simple index": (TableType.COPY_ON_WRITE, BucketIndex(IndexType.SIMPLE)),
    "copy-on-write, record index": (TableType.COPY_ON_WRITE, BucketIndex(IndexType.RECORD)),
}
PEERS: Final[dict[str, Any]] = {
    "delta-rs merge": _DeltaRs,
    "DuckLake MERGE": _DuckLake,
    "pyiceberg upsert": _PyIceberg,
}
TARGETS: Final = [
    *((_COPY_ON_WRITE, peer) for peer in ("delta-rs merge", "pyiceberg upsert")),
    *((_MERGE_ON_READ, peer) for peer in PEERS),
]
"""A table of Chronolake, and the peers that it is to be ahead of: DuckLake's merge rewrites no data file."""


def figures(folder: Path, rows: int, rounds: int) -> Iterator[Row]:
    """The figures, at the server that runs."""
    _write(folder / "0.parquet", records(np.arange(rows), 0))
    for name in [*OWN, *PEERS]:
        _measured(name, "load", folder, 0)
    seconds: dict[str, list[float]] = {name: [] for name in [*OWN, *PEERS]}
    memory = dict.fromkeys(seconds, 0.0)
    stopped: set[str] = set()
    for number in range(1, rounds + 1):
        _write(folder / f"{number}.parquet", _updates(rows, number))
        for name, taken in seconds.items():
            if name not in stopped:
                try:
                    of_round, peak = _measured(name, "upsert", folder, number)
                except subprocess.TimeoutExpired:
                    stopped.add(name)
                else:
                    taken.append(of_round)
                    memory[name] = max(memory[name], peak)
    yield from _report(seconds, memory, stopped)


def _report(seconds: dict[str, list[float]], memory: dict[str, float], stopped: set[str]) -> Iterator[Row]:
    medians = {name: statistics.median(each) for name, each in seconds.items() if each and name not in stopped}
    for name in PEERS:
        seconds_and_memory = f"over {PEER_SECONDS_MAX:.0f} s, when it was stopped"
        if name not in stopped:
            seconds_and_memory = f"{medians[name]:.2f} s, peak memory {memory[name]:,.0f} MB"
        yield Row(name, seconds_and_memory)
    for name in OWN:
        yield Row(f"upsert, {name}", f"{medians[name]:.2f} s, peak memory {memory[name]:,.0f} MB")
        for peer in PEERS:
            times = medians[name] / medians.get(peer, PEER_SECONDS_MAX)
            if (name, peer) in TARGETS:
                yield reporting.at_most(f"{name}, against {peer}", times, 1.0, "x")
            else:
                yield Row(f"{name}, against {peer}", f"{times:.2f} x")


def records(ids: np.typing.NDArray[np.int64], version: int) -> pa.Table:
    """Records with these keys; other values for each version."""
    random = np.random.default_rng(version)
    count = len(ids)
    numbers = pa.array(random.integers(0, 1_000_000, count))
    return pa.table(
        {
            "id": ids,
            "ts": pa.array(random.integers(0, 10**14, count)).cast(pa.timestamp("us", "UTC")),
            **{f"d{number}": random.integers(-(2**31), 2**31, count) / 1_000_003 for number in range(1, 4)},
            "s": pc.binary_join_element_wise("text-", numbers.cast(pa.string()), ""),
        }
    )


def _updates(rows: int, number: int) -> pa.Table:
    new = rows // _NEW_SHARE
    changed = np.arange(number % _CHANGED_STEP, rows, _CHANGED_STEP)
    return records(np.append(changed, np.arange(rows + new * (number - 1), rows + new * number)), number)


def _write(path: Path, rows: pa.Table) -> None:
    pq.write_table(rows, path)


def _measured(name: str, step: str, folder: Path, number: int) -> tuple[float, float]:
    """The seconds of a step in a process of its own, without its imports, and its peak memory in megabytes."""
    command = [sys.executable, "-m", "benchmarks.rows_upserts", name, step, str(folder), str(number)]
    seconds_max = PEER_SECONDS_MAX if name in PEERS and step == "upsert" else None
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=seconds_max)
    seconds, kilobytes = done.stdout.split()[-2:]
    return float(seconds), float(kilobytes) / 1_000


def _system(name: str, folder: Path) -> System:
    place = folder / re.sub("[^a-z]+", "_", name.lower())
    if name in OWN:
        return _Chronolake(place.name, place, *OWN[name])
    peer: System = PEERS[name](place)
    return peer


def _run(name: str, step: str, folder: Path, number: int) -> None:
    """A step, in the process that is measured."""
    # PyArrow imports it at its first conversion of Python's values, which no figure is to have.
    importlib.import_module("pandas")
    rows = pq.read_table(folder / f"{number}.parquet")
    system = _system(name, folder)
    started = time.perf_counter()
    (system.load if step == "load" else system.upsert)(rows)
    seconds = time.perf_counter() - started
    [peak] = re.findall(r"^VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text("ascii"), re.MULTILINE)
    loaded = pq.read_metadata(folder / "0.parquet").num_rows
    expected = loaded + number * (loaded // _NEW_SHARE)
    assert system.count() == expected, f"{name}: {system.count()} records, and not {expected}"
    print(seconds, peak)


if __name__ == "__main__":
    _run(sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
