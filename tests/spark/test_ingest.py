"""``chronolake ingest`` through its command line, over files of each kind."""

from __future__ import annotations

import datetime
import gzip
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import chronolake
from chronolake.cli import main as command_line
from chronolake.errors import NamespaceNotFound, TableNotFound
from chronolake_spark import SparkTable, errors, table as spark_table
from chronolake_spark.ingest_job import IngestJob
from chronolake_spark.ingest_request import Request

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

    assert rows_of(table()) == [(1, 'a, "quoted"\nline', Decimal("1.5")), (2, "b", None)]
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


def test_parquet_columns_keep_the_types_of_their_files(ingest: Ingest, tmp_path: Path):
    price = pa.array([Decimal("1.25")], pa.decimal128(10, 2))
    pq.write_table(pa.table({"id": pa.array([1], pa.int32()), "price": price}), tmp_path / "in" / "a.parquet")

    assert ingest("--key", "id", "--dry-run")["columns"] == {"id": "int", "price": "decimal(10,2)"}


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
    assert "--key n is not its record key, id; leave the option out" in capsys.readouterr().err
    assert run("--buckets", "3") != 0
    assert "--buckets 3 is not its number of buckets, " in capsys.readouterr().err


def test_a_damaged_file_is_named(run: Callable[..., int], capsys: pytest.CaptureFixture[str], tmp_path: Path):
    (tmp_path / "in" / "a.parquet").write_bytes(b"PAR1 is how it begins, and no more")

    assert run("--key", "id") != 0
    assert "a.parquet" in capsys.readouterr().err


GZIPPED = gzip.compress("".join(f"{number},{number * 7919 % 1000}\n" for number in range(20_000)).encode())
UNREADABLE = {
    "a.csv": b"id,n\n1,2\n3,4,5\n",
    "b.csv.gz": GZIPPED[: len(GZIPPED) // 2],
    "c.csv.gz": b"this is not compressed",
    "d.jsonl": b'{"id": 1}\n{"id": \n',
    "e.jsonl.gz": gzip.compress(b'{"id": 1, "n": 2}\n' * 5_000)[:50],
    "f.parquet": b"PAR1 and nothing more",
}


@pytest.mark.parametrize("file", UNREADABLE)
@pytest.mark.parametrize("options", [(), ("--one-commit-per-file",)], ids=["together", "each"])
def test_a_file_that_cannot_be_read_is_named_without_a_trace_and_no_table_is_made(
    run: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
    client: chronolake.Client,
    tmp_path: Path,
    name: str,
    file: str,
    options: tuple[str, ...],
) -> None:
    (tmp_path / "in" / file).write_bytes(UNREADABLE[file])

    code = run("--key", "id", *options)

    said = capsys.readouterr().err
    assert (code, file in said) == (1, True), said
    assert "\tat " not in said
    assert "Py4J" not in said
    with pytest.raises(TableNotFound):
        client.table(name)


def test_of_many_files_the_one_that_cannot_be_read_is_named(
    run: Callable[..., int], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "in" / "a.jsonl").write_text('{"id": 1}\n')
    (tmp_path / "in" / "b.jsonl").write_text('{"id": \n')

    assert run("--key", "id") == 1
    assert "b.jsonl, line 1: Expecting value" in json.loads(capsys.readouterr().err)["detail"]


@pytest.mark.parametrize(
    ("header", "message"),
    [("id,,n", "no name for its column 2"), ("id,N,n", "several columns called N, n"), ("", "is empty")],
)
def test_a_header_that_does_not_name_each_column_is_refused(
    run: Callable[..., int], capsys: pytest.CaptureFixture[str], tmp_path: Path, header: str, message: str
) -> None:
    (tmp_path / "in" / "a.csv").write_text(f"{header}\n1,2,3\n" if header else "")

    assert run("--key", "id") == 1
    assert message in json.loads(capsys.readouterr().err)["detail"]


def test_columns_go_by_their_names_whatever_their_order(
    ingest: Ingest, table: Callable[[], SparkTable], tmp_path: Path
) -> None:
    (tmp_path / "in" / "1.csv").write_text("id,name,price\n1,a,10.0\n")
    (tmp_path / "in" / "2.csv").write_text("\ufeffprice,id,name\n1.5,2,b\n")
    ingest("--key", "id")

    assert rows_of(table()) == [(1, "a", 10.0), (2, "b", 1.5)]
    (tmp_path / "in" / "3.csv").write_text("name,id,price\nc,3,20.0\n")
    ingest("--one-commit-per-file")
    assert rows_of(table())[2] == (3, "c", 20.0)


def test_files_of_other_columns_are_refused_by_name(
    run: Callable[..., int], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "in" / "1.csv").write_text("id,name\n1,a\n")
    (tmp_path / "in" / "2.csv").write_text("id,title\n2,b\n")

    assert run("--key", "id") == 1
    detail = json.loads(capsys.readouterr().err)["detail"]
    assert "2.csv has other columns than the files before it: it lacks name and has title" in detail


ODD_NAMES = ("a [1]", "b {x,y}", "c * ?", "d %20 #é")


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_names_of_files_are_no_patterns(
    ingest: Ingest, table: Callable[[], SparkTable], tmp_path: Path, suffix: str
) -> None:
    content = {"csv": "id\n{}\n", "jsonl": '{{"id": {}}}\n'}
    for number, name in enumerate(ODD_NAMES):
        file = tmp_path / "in" / f"{name}.{suffix}"
        if suffix == "parquet":
            pq.write_table(pa.table({"id": [number]}), file)
        else:
            file.write_text(content[suffix].format(number))
    ingest("--key", "id")

    assert rows_of(table()) == [(number,) for number in range(len(ODD_NAMES))]


def test_of_two_ingests_that_would_make_a_table_both_succeed(
    spark: SparkSession, client: chronolake.Client, table: Callable[[], SparkTable], tmp_path: Path, name: str
) -> None:
    requests = []
    for number in range(2):
        file = tmp_path / f"{number}.csv"
        file.write_text(f"id,n\n{number},1\n")
        requests.append(Request(name, str(file), ("id",), str(tmp_path / "table")))
    jobs = [IngestJob(client, spark, request) for request in requests]
    # Both find no table, and mean to make one.
    both = [(job, job.prepare()) for job in jobs]
    for job, prepared in both:
        list(job.run(prepared))

    assert rows_of(table()) == [(0, 1), (1, 1)]


def test_a_failed_ingest_leaves_neither_a_table_nor_a_namespace_and_the_next_try_works(
    run: Callable[..., int],
    ingest: Ingest,
    client: chronolake.Client,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    file = tmp_path / "in" / "a.jsonl"
    file.write_text('{"id": 1}\n{"n": 2}\n')
    name = ("--table", "unborn.t", "--key", "id")

    assert run(*name) == 1
    assert f"{file}, line 2: the record key (id)" in capsys.readouterr().err
    assert run(*name, "--dry-run") == 1
    assert f"{file}, line 2: the record key (id)" in capsys.readouterr().err
    assert run(*name, "--table-type", "merge_on_read") == 1
    assert "only copy_on_write tables" in json.loads(capsys.readouterr().err)["detail"]
    with pytest.raises(NamespaceNotFound):
        client.namespace("unborn")
    assert not list((tmp_path / "table").rglob("*.parquet"))

    file.write_text('{"id": 1}\n{"id": 2}\n')
    assert ingest(*name)["commits"][0]["rows"]["inserted"] == 2


def test_an_empty_table_that_a_killed_ingest_left_is_taken_over(
    spark: SparkSession, client: chronolake.Client, ingest: Ingest, tmp_path: Path, name: str
) -> None:
    file = tmp_path / "in" / "a.csv"
    file.write_text("id,n\n1,10\n")
    client.create_namespace("ingest", if_not_exists=True)
    schema = [chronolake.Field("id", "bigint"), chronolake.Field("n", "bigint")]
    client.create_table(name, base_path=str(tmp_path / "table"), schema=schema, record_key_fields=["id"])

    assert [commit["inserts"] for commit in ingest("--key", "id")["commits"]] == [1]


def test_a_file_that_changed_after_it_was_loaded_takes_nothing_back_unless_told(
    run: Callable[..., int],
    ingest: Ingest,
    table: Callable[[], SparkTable],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    file, later = tmp_path / "in" / "a.csv", tmp_path / "in" / "b.csv"
    file.write_text("id,n\n1,10\n2,20\n")
    ingest("--key", "id")
    later.write_text("id,n\n1,11\n")
    ingest()
    file.write_text("id,n\n1,10\n2,22\n")

    assert run() == 1
    refused = json.loads(capsys.readouterr().err)
    assert (refused["code"], refused["context"]["files"]) == ("source-changed", [str(file)])
    assert rows_of(table()) == [(1, 11), (2, 20)]
    assert run("--load-changed-files") == 0
    shown = capsys.readouterr()
    assert f"Warning: {file} changed after it was loaded" in shown.err
    assert json.loads(shown.out)["changed"] == [str(file)]
    assert rows_of(table()) == [(1, 10), (2, 22)]


def test_a_file_that_changes_while_it_is_loaded_is_rolled_back(
    spark: SparkSession, client: chronolake.Client, ingest: Ingest, tmp_path: Path, name: str
) -> None:
    file = tmp_path / "in" / "a.csv"
    file.write_text("id,n\n1,10\n")
    job = IngestJob(client, spark, Request(name, str(file), ("id",), str(tmp_path / "table")))
    prepared = job.prepare()
    file.write_text("id,n\n1,11\n")

    with pytest.raises(errors.SourceChanged, match=r"changed while they were loaded: .*a\.csv; .* again"):
        list(job.run(prepared))
    with pytest.raises(TableNotFound):
        client.table(name)
    assert ingest("--key", "id")["commits"][0]["inserts"] == 1


def test_an_ordering_field_keeps_newer_values_from_a_file_that_changed(
    run: Callable[..., int],
    ingest: Ingest,
    table: Callable[[], SparkTable],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    (tmp_path / "in" / "a.csv").write_text("id,at\n1,2\n")
    ingest("--key", "id", "--ordering", "at")
    (tmp_path / "in" / "a.csv").write_text("id,at\n1,1\n")

    assert run() == 0
    shown = capsys.readouterr()
    assert "a.csv changed after it was loaded" in shown.err
    assert json.loads(shown.out)["commits"][0]["rows"]["unchanged"] == 1
    assert rows_of(table()) == [(1, 2)]


def test_files_without_a_row_make_no_table_of_unknown_types(
    run: Callable[..., int], ingest: Ingest, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "in" / "a.csv").write_text("id,n\n")

    assert run("--key", "id") == 1
    assert "hold no row, so the types of id, n cannot be inferred" in capsys.readouterr().err
    assert ingest("--key", "id", "--schema", "id INT, n INT")["columns"] == {"id": "int", "n": "int"}


def test_keys_that_are_written_differently_stay_different_rows(
    ingest: Ingest, table: Callable[[], SparkTable], tmp_path: Path
) -> None:
    (tmp_path / "in" / "a.csv").write_text("id,n\n1.1,1\n1.10,2\n1.9,3\n")
    ingest("--key", "id")

    assert rows_of(table()) == [("1.1", 1), ("1.10", 2), ("1.9", 3)]


def test_numbers_written_in_several_ways_are_noted_and_order_no_rows(
    run: Callable[..., int],
    ingest: Ingest,
    table: Callable[[], SparkTable],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    (tmp_path / "in" / "a.csv").write_text("id,price\n1,10\n1,9.5\n")

    assert run("--key", "id", "--ordering", "price") == 1
    assert json.loads(capsys.readouterr().err)["code"] == "schema-mismatch"
    assert run("--key", "id", "--dry-run") == 0
    note = "price: string  (numbers that no type keeps as written: --schema 'price DECIMAL(18,1)')"
    assert note in capsys.readouterr().err
    ingest("--key", "id", "--ordering", "price", "--schema", "price DECIMAL(18,1)")
    assert rows_of(table()) == [(1, Decimal("10.0"))]


def test_a_dry_run_reads_everything_and_makes_nothing(
    run: Callable[..., int],
    ingest: Ingest,
    client: chronolake.Client,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    file = tmp_path / "in" / "a.csv"
    file.write_text("id,code,price\n1,007,12345678901234567890.12\n,8,1.00\n")
    options = ("--table", "dry.t", "--key", "id", "--dry-run")

    assert run(*options) == 1
    detail = json.loads(capsys.readouterr().err)["detail"]
    assert f"{file}, line 3: the record key (id)" in detail
    file.write_text("id,code,price\n1,007,12345678901234567890.12\n2,8,1.00\n")
    found = ingest(*options)
    assert (found["rows"], found["commits"], found["created"]) == (2, [], True)
    assert found["columns"] == {"id": "bigint", "code": "string", "price": "decimal(38,2)"}
    with pytest.raises(NamespaceNotFound):
        client.namespace("dry")
    assert not (tmp_path / "table").exists()


def test_the_types_of_a_table_are_stated_and_shown_and_no_later_value_is_bent_to_them(
    run: Callable[..., int],
    ingest: Ingest,
    table: Callable[[], SparkTable],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    (tmp_path / "in" / "1.csv").write_bytes("id,code,name\n1,007,\n2,8,é\n".encode("cp1252"))
    options = ("--encoding", "cp1252", "--all-strings", "--schema", "id INT")
    assert run("--key", "id", *options, "--encoding", "utf-8") == 1
    assert "1.csv, line 3: byte 24 (0xe9)" in json.loads(capsys.readouterr().err)["detail"]
    assert run("--key", "id", *options) == 0
    assert "  id: int\n  code: string\n  name: string\n" in capsys.readouterr().err
    later = tmp_path / "later.csv"
    later.write_text('name,code,id\n"",1,03\n')

    assert run("--source", str(later)) == 1
    assert "later.csv, line 2, column id: '03' does not fit int" in capsys.readouterr().err
    ingest("--source", str(later), "--schema", "id INT")
    assert rows_of(table()) == [(1, "007", None), (2, "8", "é"), (3, "1", "")]


def write_rows(file: Path, rows: list[dict[str, Any]]) -> None:
    if file.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), file)
    else:
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_strings_become_the_types_of_the_table_as_in_csv(
    run: Callable[..., int],
    ingest: Ingest,
    table: Callable[[], SparkTable],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    suffix: str,
) -> None:
    moment = datetime.datetime(2026, 1, 31, 8, tzinfo=datetime.UTC)
    rows = [{"id": "1", "at": "2026-01-31T10:00:00+02:00", "text": "1.10"}, {"id": "2", "text": ""}]
    write_rows(tmp_path / "in" / f"1.{suffix}", rows)
    ingest("--key", "id", "--schema", "id BIGINT, at TIMESTAMP")
    assert table().snapshot().sort("id").toArrow().to_pylist() == [
        {"id": 1, "at": moment, "text": "1.10"},
        {"id": 2, "at": None, "text": ""},
    ]

    write_rows(tmp_path / "in" / f"2.{suffix}", [{"id": "01", "at": None, "text": "x"}])
    assert run() == 1
    assert f"2.{suffix}, column id: the string '01' does not fit bigint; correct" in capsys.readouterr().err
    assert table().snapshot().count() == 2


def test_numbers_of_json_are_stored_in_strings_as_they_are_written(
    ingest: Ingest, table: Callable[[], SparkTable], tmp_path: Path
) -> None:
    lines = [
        '{"id": 1.1, "_corrupt_record": 1, "a": ["1.5"]}',
        '{"id": 1.10, "_corrupt_record": 2, "a": ["2"]}',
    ]
    (tmp_path / "in" / "1.jsonl").write_text("\n".join(lines))
    ingest("--key", "id", "--schema", "id STRING")

    assert rows_of(table()) == [(1, ["1.5"], "1.1"), (2, ["2"], "1.10")]


def test_files_of_other_types_and_unknown_operations_are_refused_without_a_trace(
    run: Callable[..., int], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for number, type_ in enumerate([pa.int32(), pa.int64()]):
        pq.write_table(pa.table({"id": pa.array([1], type_)}), tmp_path / "in" / f"{number}.parquet")
    assert run("--key", "id") == 1
    detail = json.loads(capsys.readouterr().err)["detail"]
    assert re.search(r"the column id is int32 in .*0\.parquet, and int64 in .*1\.parquet", detail)

    file = tmp_path / "a.jsonl"
    file.write_text('{"id": 1, "op": "d"}\n{"id": 1, "op": "DEL"}\n')
    assert run("--source", str(file), "--key", "id", "--op-column", "op") == 1
    assert "a.jsonl, line 2, column op: 'DEL' is no operation" in json.loads(capsys.readouterr().err)["detail"]


def test_an_array_of_json_is_read_in_its_order_and_whole_or_not_at_all(
    run: Callable[..., int],
    ingest: Ingest,
    table: Callable[[], SparkTable],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    (tmp_path / "in" / "1.json").write_text('\n[\n  {"id": 1, "n": 1.5},\n  {"id": 1, "n": 22.25}\n]\n')
    (tmp_path / "in" / "2.json").write_text('{"id": 2, "n": 3.125}\n')
    result = ingest("--key", "id")

    assert rows_of(table()) == [(1, Decimal("22.250")), (2, Decimal("3.125"))]
    assert result["columns"] == {"id": "bigint", "n": "decimal(18,3)"}
    (tmp_path / "in" / "3.json").write_text('[{"id": 3, "n": 1}]\n[{"id": 4, "n": 1}]\n')
    assert run() == 1
    assert "3.json, line 2: Extra data" in capsys.readouterr().err
    (tmp_path / "in" / "3.json").write_bytes(b'{"id": 3, "n": 1}\n{"id": 4, "n": "\xe9"}\n')
    assert run() == 1
    assert "3.json, line 2: byte 34 (0xe9) is not utf-8; JSON files are UTF-8" in capsys.readouterr().err


@pytest.mark.slow
def test_a_dry_run_that_finds_a_row_without_a_key_prints_no_log_lines(
    shared_server_url: str, tmp_path: Path
) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text('{"id": 1}\n{"n": 2}\n')
    command = [sys.executable, "-c", "from chronolake.cli.main import main; main()"]
    where = ["--url", shared_server_url, "--table", "ingest.dry", "--base-path", str(tmp_path / "t")]
    dry_run = subprocess.run(
        [*command, "ingest", *where, "--source", str(file), "--key", "id", "--dry-run"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (dry_run.returncode, dry_run.stdout) == (1, "")
    lines = [line for line in dry_run.stderr.splitlines() if not line.startswith("WARNING: Using incubator")]
    assert lines[:-1] == [
        "Starting Spark to look at 1 JSON lines file ...",
        "Looking at 1 JSON lines file ...",
        f"To create: the table ingest.dry at {tmp_path / 't'}: 1 JSON lines file",
        "  id: bigint",
        "  n: bigint",
        "Error: Invalid record key (invalid-record-key)",
    ]
    assert lines[-1].startswith(f"{file}, line 2: the record key (id)")


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), pytest.param(signal.SIGINT, 130, marks=pytest.mark.slow)]
)
def test_an_ingest_that_is_stopped_while_it_writes_rolls_back(
    shared_server_url: str, client: chronolake.Client, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    name = f"ingest.stopped_{number.name}"
    lines = "".join(f"{number},{number * 7919 % 300_007}\n" for number in range(300_000))
    (tmp_path / "large.csv").write_text(f"id,n\n{lines}")
    command = [sys.executable, "-c", "from chronolake.cli.main import main; main()"]
    where = ["--url", shared_server_url, "--table", name, "--base-path", str(tmp_path / "t")]
    with subprocess.Popen(
        [*command, "ingest", *where, "--source", str(tmp_path / "large.csv"), "--key", "id"],
        stderr=subprocess.PIPE,
        text=True,
    ) as ingesting:
        while not list((tmp_path / "t").rglob("*.parquet")):
            assert ingesting.poll() is None
            time.sleep(0.01)  # Files announce themselves by no event.
        ingesting.send_signal(number)
        _, said = ingesting.communicate(timeout=60)

    assert (ingesting.returncode, "Traceback" in said) == (code, False), said
    assert f"Interrupted. {name} was not made, and nothing was loaded." in said
    with pytest.raises(TableNotFound):
        client.table(name)
    assert not list((tmp_path / "t").rglob("*.parquet"))
