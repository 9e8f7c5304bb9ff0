"""Files and options that ``chronolake ingest`` refuses, and the findings of its dry run."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import chronolake
from chronolake.cli import output
from chronolake.errors import NamespaceNotFound, TableNotFound
from tests.spark.prices import SPARK_ENGINE, Ingest


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--key", "nothing"], "no column called nothing; they have id, n"),
        ([], "name the columns of its record key"),
        (["--key", "id", "--source", "/nowhere/*.csv"], "no file or folder matches"),
        (["--key", "id", "--op-column", "op"], "no column called op"),
    ],
    ids=["unknown key", "no key", "no files", "no op column"],
)
def test_an_error_is_reported(
    run: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    options: list[str],
    message: str,
):
    (tmp_path / "in" / "a.csv").write_text("id,n\n1,10\n")

    assert run("--table", "ingest.never_made", *options) != 0
    shown = capsys.readouterr().err
    assert message in shown
    assert "Logger" not in shown


def test_a_file_without_records_is_refused_as_such(
    run: Callable[..., int], capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    (tmp_path / "in" / "empty.json").write_text("")

    assert run("--table", "ingest.never_made", "--key", "id") != 0
    assert "have no column called id; they have no records with columns" in capsys.readouterr().err


@SPARK_ENGINE
@pytest.mark.parametrize("partition", ["p=yeer(n)", "p=n +"])
def test_a_partition_that_is_no_expression_is_refused_without_a_trace(
    run: Callable[..., int], capsys: pytest.CaptureFixture[str], tmp_path: Path, partition: str
):
    (tmp_path / "in" / "a.csv").write_text("id,n\n1,10\n")

    assert run("--key", "id", "--partition", partition) == 1
    shown = capsys.readouterr().err
    assert f"--partition '{partition}' is no expression" in shown
    assert "Logger" not in shown


def test_a_table_with_another_key_is_not_written(
    ingest: Ingest, run: Callable[..., int], capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    (tmp_path / "in" / "a.csv").write_text("id,n\n1,10\n")
    ingest("--key", "id")

    assert run("--key", "n") != 0
    assert "--key n is not its record key, id; leave the option out" in capsys.readouterr().err
    assert run("--buckets", "3") != 0
    assert "--buckets 3 is not its number of buckets, " in capsys.readouterr().err


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
def test_a_file_that_cannot_be_read_is_named_without_a_trace_and_no_table_is_made(
    run: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
    client: chronolake.Client,
    tmp_path: Path,
    name: str,
    file: str,
) -> None:
    (tmp_path / "in" / file).write_bytes(UNREADABLE[file])

    code = run("--key", "id")

    stderr = capsys.readouterr().err
    assert (code, file in stderr) == (1, True), stderr
    assert "\tat " not in stderr
    assert "Py4J" not in stderr
    with pytest.raises(TableNotFound):
        client.table(name)


def test_files_of_other_columns_are_refused_by_name(
    run: Callable[..., int], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "in" / "1.csv").write_text("id,name\n1,a\n")
    (tmp_path / "in" / "2.csv").write_text("id,title\n2,b\n")

    assert run("--key", "id") == 1
    detail = json.loads(capsys.readouterr().err)["detail"]
    assert "2.csv has other columns than the files before it: it lacks name and has title" in detail


def test_a_dry_run_reads_everything_and_makes_nothing(
    run: Callable[..., int],
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
    assert run(*options) == 0
    shown = capsys.readouterr()
    assert (
        f"To create: the namespace dry, and in it the table dry.t at {tmp_path / 'table'}: 1 CSV" in shown.err
    )
    result = json.loads(shown.out)
    assert (result["rows"], result["commits"], result["created"]) == (2, [], True)
    assert result["columns"] == {"id": "bigint", "code": "string", "price": "decimal(38,2)"}
    with pytest.raises(NamespaceNotFound):
        client.namespace("dry")
    assert not (tmp_path / "table").exists()


def test_a_dry_run_refuses_the_base_path_of_a_dropped_table_unless_reused(
    run: Callable[..., int],
    ingest: Ingest,
    client: chronolake.Client,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    name: str,
) -> None:
    (tmp_path / "in" / "a.csv").write_text("id\n1\n")
    ingest("--key", "id")
    client.drop_table(name)

    assert run("--table", "dry.t", "--key", "id", "--dry-run") == output.CONFLICT
    assert f"of the dropped table '{name}', whose files may still be there" in capsys.readouterr().err
    assert ingest("--table", "dry.t", "--key", "id", "--dry-run", "--reuse-base-path")["rows"] == 1


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
    assert (
        "a.jsonl, line 2, column op: 'DEL' is not an operation" in json.loads(capsys.readouterr().err)["detail"]
    )


@pytest.mark.spark
@pytest.mark.slow
def test_a_dry_run_that_finds_a_row_without_a_key_prints_no_log_lines(
    shared_server_url: str, tmp_path: Path
) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text('{"id": 1}\n{"n": 2}\n')
    command = [sys.executable, "-c", "from chronolake.cli.main import main; main()"]
    where = ["--url", shared_server_url, "--table", "new.dry", "--base-path", str(tmp_path / "t")]
    dry_run = subprocess.run(
        [*command, "ingest", *where, "--source", str(file), "--key", "id", "--dry-run", "--engine", "spark"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (dry_run.returncode, dry_run.stdout) == (1, "")
    lines = [line for line in dry_run.stderr.splitlines() if not line.startswith("WARNING: Using incubator")]
    assert lines[:-2] == [
        "Starting Spark to look at 1 JSON lines file (--engine spark) ...",
        "Looking at 1 JSON lines file ...",
        f"To create: the namespace new, and in it the table new.dry at {tmp_path / 't'}: 1 JSON lines file",
        "  id: bigint",
        "  n: bigint",
        "Error: Invalid record key (invalid-record-key)",
    ]
    assert lines[-2].startswith(f"{file}, line 2: the record key (id)")
    assert lines[-1].startswith("1 bad row; with --bad-rows FILE")
