"""Sixty real revisions of a real table, one commit each: every state, and every change, checked to the row.

Each state is also published when its commit has completed, and read by hudi-rs; later it is read by others.
The data's own README describes the files and their expected results.
`make test` plays the first fifteen revisions in one layout, `make test-long` all of them in all layouts.
"""

from __future__ import annotations

import csv
import itertools
import os
import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import Table
from pyspark.sql import SparkSession
from typing_extensions import override

import chronolake
import chronolake_spark
from chronolake import Field
from chronolake.cli import main as command_line
from chronolake.ingest import job
from chronolake.slices import columns
from chronolake_model.merge_modes import MERGE_MODE_PROPERTY, MergeMode
from chronolake_model.tables import BucketIndex
from chronolake_model.vocabulary import IndexType, State, TableType, TimeOrder
from chronolake_spark import SparkTable
from tests.client.gateway import Gateway
from tests.examples import ALL
from tests.spark import hudi_reader, iceberg_readers
from tests.spark.iceberg_readers import DuckDB

COUNTS = ["confirmed", "recovered", "deaths"]
KEY = ["date", "country"]
OWN = [*KEY, *COUNTS, "revision", "revised_at"]
REVISIONS = 60 if ALL else 15
_NUMBERS = itertools.count(1)


@dataclass(frozen=True)
class Layout:
    """How a table keeps the rows."""

    type: TableType = TableType.COPY_ON_WRITE
    index: IndexType = IndexType.BUCKET
    by_month: bool = False
    merge_mode: MergeMode | None = None

    @override
    def __str__(self) -> str:
        parts = [self.type.replace("_", "-"), self.index, "by-month" if self.by_month else "", self.merge_mode]
        return "-".join(filter(None, parts))

    def options(self) -> list[str]:
        """The options of ``ingest`` that describe it."""
        return [f"--index={self.index}", *(["--partition", "month=substr(date,1,7)"] if self.by_month else [])]

    def create(self, client: chronolake.Client, name: str, base_path: str) -> None:
        """Create the table, unless ``ingest`` does.

        The ordering field of a merge-on-read table is never null, so that Hudi's readers can merge log files.
        """
        if self.type is TableType.COPY_ON_WRITE and self.merge_mode is None:
            return
        client.create_namespace("covid", if_not_exists=True)
        client.create_table(
            name,
            base_path=base_path,
            schema=[
                Field("date", "string"),
                Field("country", "string"),
                *(Field(count, "bigint") for count in COUNTS),
                Field("revision", "int", nullable=False),
                Field("revised_at", "timestamp"),
                *([Field("month", "string")] if self.by_month else []),
            ],
            record_key_fields=KEY,
            type=self.type,
            partition_fields=["month"] if self.by_month else [],
            ordering_field="revision",
            index=BucketIndex(self.index),
            properties={MERGE_MODE_PROPERTY: self.merge_mode} if self.merge_mode else {},
        )


@dataclass(frozen=True)
class LoadedTable:
    """The table in a layout, the completion times of its commits, and what hudi-rs read after each."""

    table: SparkTable
    times: list[str]
    read_by_hudi: list[list[int]]


class Publishing(Gateway):
    """Publishes the table after each commit, before its writer continues; then hudi-rs reads the same rows."""

    def __init__(self, target: str, table: str) -> None:
        super().__init__(target)
        self.totals: list[list[int]] = []
        self._target = target
        self._table = table

    @override
    def send_on(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> httpx.Response:
        answer = super().send_on(method, path, body, headers)
        if path.endswith("/complete") and answer.is_success:
            with chronolake.connect(self._target) as client:
                table = client.table(self._table)
                table.publish()
                rows = hudi_reader.rows_of_hudi(table)
                hudi_reader.assert_same_rows(rows, hudi_reader.rows_of(table))
                self.totals.append(totals_of(rows))
        return answer


def totals_of(rows: pa.Table) -> list[int]:
    """The number of rows, and of different keys, and the sum of each count."""
    keys = rows.group_by(KEY).aggregate([])
    return [len(rows), len(keys), *(pc.sum(rows[name]).as_py() for name in COUNTS)]


def folder(repository: Path) -> Path:
    """Where the data lies: beside the checkout by default. The test fails if required data is missing."""
    beside = repository.parent / "shared" / "data" / "covid-revisions"
    path = Path(os.environ.get("CHRONOLAKE_COVID_REVISIONS", beside))
    if not path.is_dir():
        missing = f"the real table is not at {path}; CHRONOLAKE_COVID_REVISIONS says where it is"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    return path


def load(
    layout: Layout, spark: SparkSession, client: chronolake.Client, data: Path, temporary: Path
) -> LoadedTable:
    """A table of this layout, loaded by the main job."""
    name, base_path = f"covid.t{next(_NUMBERS)}", str(temporary / "table")
    source = temporary / "revisions"
    source.mkdir()
    names = [f"{revision:03d}.parquet" for revision in range(REVISIONS)]
    for file_name in names:
        shutil.copy(data / file_name, source)
    layout.create(client, name, base_path)
    files = ["--table", name, "--base-path", base_path, "--source", str(source), "--one-commit-per-file"]
    meaning = ["--key", ",".join(KEY), "--ordering", "revision", "--op-column", "op", *layout.options()]
    with Publishing(client.url, name) as gateway:
        assert command_line.run(["ingest", "--engine", "spark", "--url", gateway.url, *files, *meaning]) == 0
    table = chronolake_spark.table(spark, name, client=client)
    commits = list(table.metastore.instants(state=State.COMPLETED, order_by=TimeOrder.COMPLETION_TIME))
    assert [commit.extra_metadata[job.SOURCE] for commit in commits] == names
    return LoadedTable(table, [str(commit.completion_time) for commit in commits], gateway.totals)


def check(loaded: LoadedTable, url: str, data: Path, temporary: Path, step: int = 1) -> None:
    """Each state and each change are those of the data, for every reader.

    Spark, the client's rows, and readers of Iceberg read each ``step``-th; hudi-rs and executors read all.
    """
    iceberg = _IcebergStates(loaded, url, temporary)
    with (data / "totals.csv").open() as file:
        totals = list(csv.DictReader(file))
    for revision, time in enumerate(loaded.times):
        expected = expected_totals(totals, revision)
        assert loaded.read_by_hudi[revision] == expected, revision
        assert totals_of(hudi_reader.rows_of(loaded.table.metastore, time)) == expected, revision
        if revision % step:
            continue
        snapshot = loaded.table.read(as_of=time).select(*KEY, *COUNTS).toArrow()
        assert totals_of(snapshot) == expected, revision
        for name, state in {**_rows_of_client(loaded.table.metastore, time), **iceberg.at(time)}.items():
            assert totals_of(state) == expected, (name, revision)

        before = loaded.times[revision - 1] if revision else None
        own = pq.read_table(data / f"{revision:03d}.parquet")
        for changes in (
            loaded.table.changes(before, time).toArrow(),
            loaded.table.metastore.changes_to_arrow(before, time),
        ):
            assert difference(changes, columns.CHANGE_TYPE, own, "upsert", OWN) == {}, revision
            assert difference(changes, columns.CHANGE_TYPE, own, "delete", [*KEY, *COUNTS]) == {}, revision
            assert len(changes) == len(own), revision
    _check_the_whole_range(loaded)


def _rows_of_client(table: chronolake.Table, time: str) -> dict[str, pa.Table]:
    """The state as of a time, as libraries read it through the client."""
    return {
        "Arrow": table.to_arrow(as_of=time),
        "Polars": table.to_polars(as_of=time).collect().to_arrow(),
        "DuckDB": table.to_duckdb(as_of=time).to_arrow_table(),
    }


class _IcebergStates:
    """The states of a copy-on-write table as Iceberg's readers have them; no state of other tables is one."""

    def __init__(self, loaded: LoadedTable, url: str, temporary: Path) -> None:
        table = loaded.table.metastore
        self._table: Table | None = None
        if table.definition.type is TableType.COPY_ON_WRITE:
            table.claim_storage()
            self._table = iceberg_readers.load(url, table.name, len(loaded.times))
            self._snapshots = dict(zip(loaded.times, self._table.metadata.snapshots, strict=True))
            self._duckdb = DuckDB(url, temporary / "extensions")

    def at(self, time: str) -> dict[str, pa.Table]:
        """The state as of a time, by reader."""
        if self._table is None:
            return {}
        snapshot = self._snapshots[time]
        return {
            "pyiceberg": iceberg_readers.by_pyiceberg(self._table, snapshot),
            "Polars and Iceberg": iceberg_readers.by_polars(self._table, snapshot),
            "DuckDB and Iceberg": self._duckdb(self._table, snapshot),
        }


def _check_the_whole_range(loaded: LoadedTable) -> None:
    """The changes from the beginning are the last state."""
    changes = loaded.table.changes(None, loaded.times[-1])
    assert changes.where(f"{columns.CHANGE_TYPE} = 'delete'").count() == 0
    last = loaded.table.read()
    assert changes.drop(columns.CHANGE_TYPE).exceptAll(last).count() == 0
    assert changes.count() == last.count()


def expected_totals(totals: list[dict[str, str]], revision: int) -> list[int]:
    """The result of ``totals_of`` for a revision."""
    expected = totals[revision]
    assert int(expected["revision"]) == revision
    return [int(expected["rows"])] * 2 + [int(expected[f"sum_{name}"]) for name in COUNTS]


def difference(
    changes: pa.Table, change_column: str, file: pa.Table, change: str, names: list[str]
) -> dict[tuple[Any, ...], int]:
    """How often each row comes more often in ``changes`` than in ``file`` (less often: negative)."""
    counts = rows(changes.filter(pc.equal(changes[change_column], change)), names)
    counts.subtract(rows(file.filter(pc.equal(file["op"], change)), names))
    return {row: count for row, count in counts.items() if count}


def rows(table: pa.Table, names: list[str]) -> Counter[tuple[Any, ...]]:
    return Counter(zip(*(table[name].to_pylist() for name in names), strict=True))
