"""``chronolake ingest`` through its command line: which files become which commits, also after failures."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import chronolake
from chronolake.errors import NamespaceNotFound, TableNotFound
from chronolake.ingest import loaded_files, source_files
from chronolake.ingest.job import IngestJob
from chronolake.ingest.request import IngestRequest
from chronolake_spark import errors
from tests.spark.prices import BOTH_ENGINES, SPARK_ENGINE, Ingest, rows_of

CSV = 'id,name,price\n1,"a, ""quoted""\nline",1.5\n2,b,\n'


JSON = '{"id": 1, "name": "a, \\"quoted\\"\\nline", "price": 1.5}\n{"id": 2, "name": "b"}\n'


@pytest.mark.parametrize(("file", "text"), [("a.csv", CSV), ("a.jsonl", JSON)], ids=["csv", "json"])
def test_text_with_quotes_and_line_breaks_is_read_whole(
    ingest: Ingest, table: Callable[[], chronolake.Table], tmp_path: Path, file: str, text: str
):
    (tmp_path / "in" / file).write_text(text)
    result = ingest("--key", "id")

    assert rows_of(table()) == [(1, 'a, "quoted"\nline', Decimal("1.5")), (2, "b", None)]
    assert (result["created"], result["commits"][0]["inserts"]) == (True, 2)


@BOTH_ENGINES
@pytest.mark.parametrize(("type_", "logs"), [("copy_on_write", 0), ("merge_on_read", 1)])
def test_later_files_correct_earlier_ones(
    ingest: Ingest, table: Callable[[], chronolake.Table], tmp_path: Path, type_: str, logs: int
):
    (tmp_path / "in" / "2.csv").write_text("id,n,op\n1,12,u\n2,0,D\n3,30,\n")
    (tmp_path / "in" / "1.csv").write_text("id,n,op\n1,10,u\n2,20,u\n")
    options = ["--table-type", type_, "--buckets", "1", "--one-commit-per-file"]
    result = ingest("--key", "id", "--op-column", "op", *options)

    assert rows_of(table()) == [(1, 12), (3, 30)]
    [slice_] = table().snapshot().slices
    assert len(slice_.log_files) == logs
    assert [commit["source"] for commit in result["commits"]] == ["1.csv", "2.csv"]
    assert result["commits"][1]["deletes"] == 1


def test_a_second_run_ingests_only_new_files(
    ingest: Ingest, table: Callable[[], chronolake.Table], tmp_path: Path
):
    (tmp_path / "in" / "1.csv").write_text("id,n\n1,10\n")
    ingest("--key", "id", "--one-commit-per-file")
    (tmp_path / "in" / "2.csv").write_text("id,n\n1,11\n")
    (tmp_path / "in" / "3.csv").write_text("id,n\n1,10\n")  # The same contents as 1.csv.
    result = ingest("--one-commit-per-file")

    assert [commit["source"] for commit in result["commits"]] == ["2.csv"]
    assert (result["created"], result["skipped"]) == (False, ["1.csv", "3.csv"])
    assert rows_of(table()) == [(1, 11)]


def test_a_file_that_the_table_has_is_passed_over_in_a_larger_batch_too(
    ingest: Ingest, table: Callable[[], chronolake.Table], tmp_path: Path
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


def test_files_that_the_metadata_of_one_commit_cannot_name_become_several_commits(
    ingest: Ingest, table: Callable[[], chronolake.Table], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loaded_files, "METADATA_BYTES_MAX", 600)
    for number in range(5):
        (tmp_path / "in" / f"{number}.csv").write_text(f"id,n\n1,{number}\n{number},{number}\n")
    commits = ingest("--key", "id")["commits"]

    assert len(commits) > 1
    assert sum(commit["rows"]["read"] for commit in commits) == 10
    assert rows_of(table()) == [(0, 0), (1, 4), (2, 2), (3, 3), (4, 4)]
    assert len(ingest()["skipped"]) == 5


@SPARK_ENGINE
def test_partitions_may_be_derived(ingest: Ingest, table: Callable[[], chronolake.Table], tmp_path: Path):
    (tmp_path / "in" / "a.csv").write_text("id,day\n1,2026-10-31\n2,2026-11-01\n")
    ingest("--key", "id", "--partition", "month=date_format(day, 'yyyy-MM')")

    slices = table().snapshot().slices
    assert {slice_.partition_path for slice_ in slices} == {"month=2026-10", "month=2026-11"}
    assert [field.name for field in table().definition.schema] == ["id", "day", "month"]


def test_a_folder_of_several_formats_is_refused_as_a_pattern_is(
    run: Callable[..., int], ingest: Ingest, table: Callable[[], chronolake.Table], tmp_path: Path
):
    folder = tmp_path / "in"
    for number in range(2):
        pq.write_table(pa.table({"id": [number]}), folder / f"{number}.parquet")
    (folder / "_SUCCESS").write_text("")
    (folder / "README.md").write_text("# Files\n")
    assert source_files.find(str(folder)).summary == "2 Parquet files (left out, of no known format: README.md)"

    (folder / "totals.csv").write_text("id\n2\n")
    for source in (folder, f"{folder}/*.[cp]*"):
        with pytest.raises(errors.SourceUnreadable, match="2 x Parquet, 1 x CSV"):
            source_files.find(str(source))
    assert run("--key", "id") == 1

    ingest("--key", "id", "--source", f"{folder}/*.parquet")
    ingest("--source", f"{folder}/*.csv")
    assert rows_of(table()) == [(0,), (1,), (2,)]


def test_columns_are_matched_by_name_in_any_order(
    ingest: Ingest, table: Callable[[], chronolake.Table], tmp_path: Path
) -> None:
    (tmp_path / "in" / "1.csv").write_text("id,name,price\n1,a,10.0\n")
    (tmp_path / "in" / "2.csv").write_text("\ufeffprice,id,name\n1.5,2,b\n")
    ingest("--key", "id")

    assert rows_of(table()) == [(1, "a", 10.0), (2, "b", 1.5)]
    (tmp_path / "in" / "3.csv").write_text("name,id,price\nc,3,20.0\n")
    ingest("--one-commit-per-file")
    assert rows_of(table())[2] == (3, "c", 20.0)


ODD_NAMES = ("a [1]", "b {x,y}", "c * ?", "d %20 #é")


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_names_of_files_are_no_patterns(
    ingest: Ingest, table: Callable[[], chronolake.Table], tmp_path: Path, suffix: str
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
    job_of: Callable[[IngestRequest], IngestJob],
    table: Callable[[], chronolake.Table],
    tmp_path: Path,
    name: str,
) -> None:
    requests = []
    for number in range(2):
        file = tmp_path / f"{number}.csv"
        file.write_text(f"id,n\n{number},1\n")
        requests.append(IngestRequest(name, str(file), ("id",), str(tmp_path / "table")))
    jobs = list(map(job_of, requests))
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
    with pytest.raises(NamespaceNotFound):
        client.namespace("unborn")
    assert not list((tmp_path / "table").rglob("*.parquet"))

    file.write_text('{"id": 1}\n{"id": 2}\n')
    assert ingest(*name)["commits"][0]["rows"]["inserted"] == 2


def test_an_empty_table_that_a_killed_ingest_left_is_taken_over(
    client: chronolake.Client, ingest: Ingest, tmp_path: Path, name: str
) -> None:
    file = tmp_path / "in" / "a.csv"
    file.write_text("id,n\n1,10\n")
    client.create_namespace("ingest", if_not_exists=True)
    schema = [chronolake.Field("id", "bigint"), chronolake.Field("n", "bigint")]
    client.create_table(name, base_path=str(tmp_path / "table"), schema=schema, record_key_fields=["id"])

    assert [commit["inserts"] for commit in ingest("--key", "id")["commits"]] == [1]


def test_a_changed_file_is_loaded_again_only_on_request(
    run: Callable[..., int],
    ingest: Ingest,
    table: Callable[[], chronolake.Table],
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


@BOTH_ENGINES
def test_a_file_that_changes_while_it_is_loaded_is_rolled_back(
    job_of: Callable[[IngestRequest], IngestJob],
    client: chronolake.Client,
    ingest: Ingest,
    tmp_path: Path,
    name: str,
) -> None:
    file = tmp_path / "in" / "a.csv"
    file.write_text("id,n\n1,10\n")
    job = job_of(IngestRequest(name, str(file), ("id",), str(tmp_path / "table")))
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
    table: Callable[[], chronolake.Table],
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


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), pytest.param(signal.SIGINT, 130, marks=pytest.mark.slow)]
)
def test_an_ingest_that_is_stopped_while_it_writes_rolls_back(
    shared_server_url: str,
    client: chronolake.Client,
    tmp_path: Path,
    number: signal.Signals,
    code: int,
    engine: str,
) -> None:
    name = f"ingest.stopped_{number.name}_{engine}"
    lines = "".join(f"{number},{number * 7919 % 300_007}\n" for number in range(300_000))
    (tmp_path / "large.csv").write_text(f"id,n\n{lines}")
    command = [sys.executable, "-c", "from chronolake.cli.main import main; main()"]
    where = ["--url", shared_server_url, "--table", name, "--base-path", str(tmp_path / "t")]
    with subprocess.Popen(
        [
            *command,
            "ingest",
            *where,
            "--source",
            str(tmp_path / "large.csv"),
            "--key",
            "id",
            "--engine",
            engine,
        ],
        stderr=subprocess.PIPE,
        text=True,
    ) as ingesting:
        while not list((tmp_path / "t").rglob("*.parquet")):
            assert ingesting.poll() is None
            time.sleep(0.01)  # Files announce themselves by no event.
        ingesting.send_signal(number)
        _, stderr = ingesting.communicate(timeout=60)

    assert (ingesting.returncode, "Traceback" in stderr) == (code, False), stderr
    assert f"Interrupted. {name} was not created, and nothing was loaded." in stderr
    with pytest.raises(TableNotFound):
        client.table(name)
    assert not list((tmp_path / "t").rglob("*.parquet"))


@pytest.mark.spark
def test_an_ingest_whose_jvm_is_stopped_with_it_ends_as_one_that_is_interrupted(
    shared_server_url: str, tmp_path: Path
) -> None:
    for number in range(200):
        (tmp_path / f"{number}.csv").write_text("id,n\n" + f"{number},1\n" * 10_000)
    command = [sys.executable, "-c", "from chronolake.cli.main import main; main()", "ingest", "--key", "id"]
    command += ["--engine", "spark"]
    where = ["--url", shared_server_url, "--table", "ingest.group", "--base-path", str(tmp_path / "t")]
    with subprocess.Popen(
        [*command, *where, "--source", str(tmp_path)],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as ingesting:
        assert ingesting.stderr is not None
        assert any("Looking at" in line for line in ingesting.stderr)
        os.killpg(ingesting.pid, signal.SIGTERM)
        _, stderr = ingesting.communicate(timeout=60)

    assert ingesting.returncode == 128 + signal.SIGTERM, stderr
    assert stderr == "Interrupted. ingest.group was not created, and nothing was loaded.\n"
