"""Sixty real revisions of a real table, one commit each: every state, and every change, checked to the row.

Each state is also published when its commit has completed, and read by hudi-rs.
The data's own README describes the files and their expected results.
Each layout of the table has a module of its own, so that two workers share the tests.
"""

from __future__ import annotations

import csv
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import httpx
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from typing_extensions import override

import chronolake
import chronolake_spark
from chronolake.cli import main as command_line
from chronolake_model.vocabulary import State, TimeOrder
from chronolake_spark import SparkTable, columns, ingest_job
from tests.client.gateway import Gateway
from tests.spark import hudi_reader

COUNTS = ["confirmed", "recovered", "deaths"]
KEY = ["date", "country"]
OWN = [*KEY, *COUNTS, "revision", "revised_at"]
REVISIONS = pytest.mark.parametrize("revision", range(60))


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


class EachRevision:
    """The tests of a layout."""

    layout: ClassVar[tuple[str, ...]] = ()
    """The options of ``ingest`` that describe it."""

    @classmethod
    def create_table(cls, client: chronolake.Client, name: str, base_path: str) -> None:
        """Create the table, unless ``ingest`` does."""

    @pytest.fixture(scope="class")
    @classmethod
    def folder(cls, repository: Path) -> Path:
        """Where the data lies: beside the checkout by default. The test fails if required data is missing."""
        beside = repository.parent / "shared" / "data" / "covid-revisions"
        path = Path(os.environ.get("CHRONOLAKE_COVID_REVISIONS", beside))
        if not path.is_dir():
            missing = f"the real table is not at {path}; CHRONOLAKE_COVID_REVISIONS says where it is"
            if os.environ.get("CI"):
                pytest.fail(missing)
            pytest.skip(missing)
        return path

    @pytest.fixture(scope="class")
    @classmethod
    def totals(cls, folder: Path) -> list[dict[str, str]]:
        """The expected contents of the whole table after each revision."""
        with (folder / "totals.csv").open() as file:
            return list(csv.DictReader(file))

    @pytest.fixture(scope="class")
    @classmethod
    def loaded(
        cls,
        spark: SparkSession,
        shared_server_url: str,
        folder: Path,
        tmp_path_factory: pytest.TempPathFactory,
    ) -> Iterator[LoadedTable]:
        """The table, loaded by the main job."""
        name, base_path = "covid.revisions", str(tmp_path_factory.mktemp("covid"))
        files = ["--table", name, "--source", str(folder), "--one-commit-per-file"]
        meaning = ["--key", ",".join(KEY), "--ordering", "revision", "--op-column", "op", *cls.layout]
        with chronolake.connect(shared_server_url) as client:
            cls.create_table(client, name, base_path)
        with Publishing(shared_server_url, name) as gateway:
            exit_code = command_line.run(
                ["ingest", "--url", gateway.url, *files, *meaning, "--base-path", base_path]
            )
        assert exit_code == 0
        with chronolake.connect(shared_server_url) as client:
            table = chronolake_spark.table(spark, name, client=client)
            commits = list(table.metastore.instants(state=State.COMPLETED, order_by=TimeOrder.COMPLETION_TIME))
            assert [commit.extra_metadata[ingest_job.SOURCE] for commit in commits] == [
                f"{revision:03d}.parquet" for revision in range(60)
            ]
            yield LoadedTable(table, [str(commit.completion_time) for commit in commits], gateway.totals)

    @REVISIONS
    def test_the_table_as_of_each_revision_is_that_revision_and_hudi_read_it(
        self, loaded: LoadedTable, totals: list[dict[str, str]], revision: int
    ):
        snapshot = loaded.table.read(as_of=loaded.times[revision])
        rows = snapshot.select(*KEY, *COUNTS).toArrow()

        assert totals_of(rows) == expected_totals(totals, revision)
        assert loaded.read_by_hudi[revision] == expected_totals(totals, revision)

    @REVISIONS
    def test_the_changes_between_neighbours_are_the_change_file(
        self, loaded: LoadedTable, folder: Path, revision: int
    ):
        before = loaded.times[revision - 1] if revision else None
        changes = loaded.table.changes(before, loaded.times[revision]).toArrow()
        file = pq.read_table(folder / f"{revision:03d}.parquet")

        assert difference(changes, columns.CHANGE_TYPE, file, "upsert", OWN) == {}
        assert difference(changes, columns.CHANGE_TYPE, file, "delete", [*KEY, *COUNTS]) == {}
        assert len(changes) == len(file)

    def test_the_changes_over_the_whole_range_are_the_last_state(self, loaded: LoadedTable):
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
