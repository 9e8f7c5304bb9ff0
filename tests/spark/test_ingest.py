"""``chronolake ingest`` through its command line, over files of each kind."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import chronolake
from chronolake.cli import main as command_line
from chronolake_spark import SparkTable, table as spark_table

pytestmark = pytest.mark.spark

Ingest = Callable[..., dict[str, Any]]


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A table of the test's own, in a namespace that ingest makes."""
    return f"ingest.{re.sub(r'[^a-z_]', '_', request.node.name)}"


@pytest.fixture
def run(shared_server_url: str, tmp_path: Path, name: str, spark: SparkSession) -> Callable[..., int]:
    """Runs ``chronolake ingest`` on the test's folder ``in``; returns the exit code."""

    def run(*options: str) -> int:
        source = [] if "--source" in options else ["--source", str(tmp_path / "in")]
        common = ["--url", shared_server_url, "--json", "--base-path", str(tmp_path / "table")]
        return command_line.run(["ingest", "--table", name, *source, *common, *options])

    (tmp_path / "in").mkdir()
    return run


@pytest.fixture
def ingest(run: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> Ingest:
    """Runs ``chronolake ingest``, which must succeed; returns its result."""

    def ingest(*options: str) -> dict[str, Any]:
        code = run(*options)
        shown = capsys.readouterr()
        assert code == 0, shown.err
        result: dict[str, Any] = json.loads(shown.out)
        return result

    return ingest


@pytest.fixture
def table(spark: SparkSession, client: chronolake.Client, name: str) -> Callable[[], SparkTable]:
    """The table, once there is one."""
    return lambda: spark_table(spark, name, client=client)


def rows_of(table: SparkTable) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in table.snapshot().collect())


CSV = 'id,name,price\n1,"a, ""quoted""\nline",1.5\n2,b,\n'


JSON = '{"id": 1, "name": "a, \\"quoted\\"\\nline", "price": 1.5}\n{"id": 2, "name": "b"}\n'


@pytest.mark.parametrize(("file", "text"), [("a.csv", CSV), ("a.jsonl", JSON)], ids=["csv", "json"])
def test_text_with_quotes_and_line_breaks_is_read_whole(
    ingest: Ingest, table: Callable[[], SparkTable], tmp_path: Path, file: str, text: str
):
    (tmp_path / "in" / file).write_text(text)
    result = ingest("--key", "id")

    assert rows_of(table()) == [(1, 'a, "quoted"\nline', 1.5), (2, "b", None)]
    assert (result["created"], result["commits"][0]["inserts"]) == (True, 2)


def test_later_files_correct_earlier_ones(ingest: Ingest, table: Callable[[], SparkTable], tmp_path: Path):
    (tmp_path / "in" / "2.csv").write_text("id,n,op\n1,12,u\n2,0,D\n3,30,\n")
    (tmp_path / "in" / "1.csv").write_text("id,n,op\n1,10,u\n2,20,u\n")
    result = ingest("--key", "id", "--op-column", "op", "--one-commit-per-file")

    assert rows_of(table()) == [(1, 12), (3, 30)]
    assert [commit["source"] for commit in result["commits"]] == ["1.csv", "2.csv"]
    assert result["commits"][1]["deletes"] == 1


def test_a_second_run_ingests_only_what_is_new(ingest: Ingest, table: Callable[[], SparkTable], tmp_path: Path):
    (tmp_path / "in" / "1.csv").write_text("id,n\n1,10\n")
    ingest("--key", "id", "--one-commit-per-file")
    (tmp_path / "in" / "2.csv").write_text("id,n\n1,11\n")
    (tmp_path / "in" / "3.csv").write_text("id,n\n1,10\n")  # What 1.csv says, once more.
    result = ingest("--one-commit-per-file")

    assert [commit["source"] for commit in result["commits"]] == ["2.csv"]
    assert (result["created"], result["skipped"]) == (False, ["1.csv", "3.csv"])
    assert rows_of(table()) == [(1, 11)]


def test_a_file_that_the_table_has_is_passed_over_in_a_larger_batch_too(
    ingest: Ingest, table: Callable[[], SparkTable], tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    (folder / "a.csv").write_text("id,v\n1,old\n2,old\n")
    ingest("--source", str(folder), "--key", "id")
    correction = tmp_path / "correction.csv"
    correction.write_text("id,v\n1,new\n")
    ingest("--source", str(correction))
    (folder / "b.csv").write_text("id,v\n3,more\n")
    [commit] = ingest("--source", str(folder))["commits"]
    assert commit["source"] == "b.csv"
    assert rows_of(table()) == [(1, "new"), (2, "old"), (3, "more")]


def test_partitions_may_be_derived(ingest: Ingest, table: Callable[[], SparkTable], tmp_path: Path):
    (tmp_path / "in" / "a.csv").write_text("id,day\n1,2026-10-31\n2,2026-11-01\n")
    ingest("--key", "id", "--partition", "month=date_format(day, 'yyyy-MM')")

    slices = table().metastore.snapshot().slices
    assert {slice_.partition_path for slice_ in slices} == {"month=2026-10", "month=2026-11"}
    assert table().snapshot().columns == ["id", "day", "month"]


def test_nanoseconds_of_pandas_are_read(ingest: Ingest, table: Callable[[], SparkTable], tmp_path: Path):
    moment = datetime.datetime(2026, 11, 21, 12, 0, 0, 123456, tzinfo=datetime.UTC)
    columns = {
        "id": pa.array([1]),
        "naive": pa.array([moment.replace(tzinfo=None)], pa.timestamp("ns")),
        "aware": pa.array([moment], pa.timestamp("ns", tz="UTC")),
    }
    pq.write_table(pa.table(columns), tmp_path / "in" / "a.parquet")
    ingest("--key", "id")

    found = table().snapshot().toArrow().to_pylist()
    assert found == [{"id": 1, "naive": moment.replace(tzinfo=None), "aware": moment}]


def test_a_folder_gives_the_format_that_most_files_have(
    ingest: Ingest, table: Callable[[], SparkTable], tmp_path: Path
):
    for number in range(2):
        pq.write_table(pa.table({"id": [number]}), tmp_path / "in" / f"{number}.parquet")
    (tmp_path / "in" / "totals.csv").write_text("something,else\n1,2\n")
    (tmp_path / "in" / "README.md").write_text("# Files\n")
    ingest("--key", "id")

    assert rows_of(table()) == [(0,), (1,)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--key", "nothing"], "no column called nothing; they have id, n"),
        ([], "say which columns are its record key"),
        (["--key", "id", "--source", "/nowhere/*.csv"], "nothing that matches"),
        (["--key", "id", "--partition", "p=no_such_function(n)"], "no_such_function"),
        (["--key", "id", "--op-column", "op"], "no column called op"),
    ],
    ids=["unknown key", "no key", "no files", "bad expression", "no op column"],
)
def test_what_is_wrong_is_said(
    run: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    options: list[str],
    message: str,
):
    (tmp_path / "in" / "a.csv").write_text("id,n\n1,10\n")

    assert run("--table", "ingest.never_made", *options) != 0
    assert message in capsys.readouterr().err


def test_a_table_with_another_key_is_not_written(
    ingest: Ingest, run: Callable[..., int], capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    (tmp_path / "in" / "a.csv").write_text("id,n\n1,10\n")
    ingest("--key", "id")

    assert run("--key", "n") != 0
    assert "the record key is ['id'], not ['n']" in capsys.readouterr().err


def test_a_damaged_file_is_named(run: Callable[..., int], capsys: pytest.CaptureFixture[str], tmp_path: Path):
    (tmp_path / "in" / "a.parquet").write_bytes(b"PAR1 is how it begins, and no more")

    assert run("--key", "id") != 0
    assert "a.parquet" in capsys.readouterr().err
