"""``chronolake ingest`` without a JVM: its help, and its messages before Spark runs."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import gzip
import signal
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException
from rich.console import Console

import chronolake
from chronolake.cli import main as command_line, output
from chronolake.ingest import arrow_engine, request as ingest_request, source_files
from chronolake.ingest.arrow_engine import ArrowEngine
from chronolake.ingest.job import Load, Prepared
from chronolake.ingest.request import Batch, IngestRequest
from chronolake_model.instants import Instant
from chronolake_model.tables import BucketIndex, Field, SchemaField, Table
from chronolake_model.times import Tick
from chronolake_model.vocabulary import IndexType, TableType
from chronolake_spark.driver import spark_failures
from chronolake_spark.errors import SchemaMismatch, TableMismatch
from chronolake_spark.ingest import command, engines
from chronolake_spark.ingest.engines import EngineName

ID_ONLY = [Field("id", "bigint")]
ID_DAY_OP = [*ID_ONLY, Field("day", "date"), Field("op", "string")]


@pytest.fixture
def run(shared_server_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Runs ``chronolake ingest`` on the test's folder up to the moment at which Spark has started."""

    def interrupted(while_starting: Callable[[], contextlib.AbstractContextManager[object]]) -> None:
        with while_starting():
            raise KeyboardInterrupt

    def run(*options: str, key: str = "id") -> int:
        where = ["--key", key, "--url", shared_server_url, "--table", "ingest.t", "--source", str(tmp_path)]
        return command_line.run(["ingest", "--engine", "spark", *where, *options])

    monkeypatch.setattr("chronolake_spark.driver.sessions.borrowed", interrupted)
    return run


def test_no_text_of_the_help_is_cut_off_on_a_screen_of_80_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    assert command_line.run(["ingest", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "--partition" in shown
    assert "\N{HORIZONTAL ELLIPSIS}" not in shown


@pytest.mark.parametrize(("options", "step"), [((), "load"), (("--dry-run",), "look at")])
def test_the_started_step_and_its_interruption_are_reported_on_stderr(
    run: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    options: tuple[str, ...],
    step: str,
) -> None:
    (tmp_path / "a.csv").write_text("id\n")
    (tmp_path / "b.csv").write_text("id\n")

    assert run(*options) == 130
    shown = capsys.readouterr()
    assert shown.err.startswith(f"Starting Spark to {step} 2 CSV files (--engine spark) ...\n")
    assert shown.err.endswith("Interrupted while Spark started or stopped.\n")
    assert shown.out == ""


@pytest.mark.parametrize("option", [("--interval", "1"), ("--max-files", "5"), ("--checkpoint", "state")])
def test_an_option_of_follow_is_refused_without_it(
    run: Callable[..., int], capsys: pytest.CaptureFixture[str], option: tuple[str, str]
) -> None:
    assert run(*option) == 2
    assert f"Invalid value for {option[0]}: it is for --follow: add that" in capsys.readouterr().err


def test_with_json_stderr_is_for_failures(
    run: Callable[..., int], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text("id\n")

    assert run("--json") == 130
    assert "Starting Spark" not in capsys.readouterr().err


def test_a_source_that_is_not_there_is_refused_before_spark_starts(
    run: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run() == 1
    shown = capsys.readouterr().err
    assert "holds no Parquet, CSV or JSON lines files" in shown
    assert "Starting Spark" not in shown


def test_a_new_table_without_a_key_is_refused_before_spark_starts(
    run: Callable[..., int], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text("id\n")

    assert run(key="") == 1
    shown = capsys.readouterr().err
    assert "name the columns of its record key: --key id" in shown
    assert "Starting Spark" not in shown


@pytest.mark.parametrize("format_", ["csv", "parquet"])
@pytest.mark.parametrize("options", [(), ("--ordering", "n"), ("--partition", "n"), ("--op-column", "n")])
def test_a_column_that_the_files_do_not_have_is_refused_before_spark_starts(
    run: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    format_: str,
    options: tuple[str, ...],
) -> None:
    if format_ == "csv":
        (tmp_path / "a.csv").write_text("id\n1\n")
    else:
        pq.write_table(pa.table({"id": [1]}), tmp_path / "a.parquet")

    assert run(*options, key="id" if options else "n") == 1
    shown = capsys.readouterr().err
    assert "have no column called n; they have id" in shown
    assert "Starting Spark" not in shown
    assert run("--partition", "n=id % 2", key="id,n") == 130


@pytest.mark.parametrize(("file", "problem"), [("no/bad.jsonl", "there is no folder"), (".", "is a folder")])
def test_a_file_for_bad_rows_that_cannot_be_written_is_refused_before_spark_starts(
    run: Callable[..., int], capsys: pytest.CaptureFixture[str], tmp_path: Path, file: str, problem: str
) -> None:
    (tmp_path / "a.csv").write_text("id\n1\n")

    assert run("--bad-rows", str(tmp_path / file)) == 2
    shown = capsys.readouterr().err
    assert problem in " ".join(shown.replace("│", " ").split())
    assert "Starting Spark" not in shown


@pytest.mark.parametrize("option", [(), ("--dry-run",)])
def test_a_base_path_that_is_taken_or_invalid_is_refused_before_spark_starts(
    run: Callable[..., int],
    client: chronolake.Client,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    option: tuple[str, ...],
) -> None:
    (tmp_path / "a.csv").write_text("id\n")
    name, folder = f"spark.t_{uuid.uuid4().hex}", tmp_path / "lake"
    client.create_table(name, base_path=str(folder), schema=[Field("n", "int")], record_key_fields=["n"])

    assert run("--base-path", str(folder / "below"), *option) == output.CONFLICT
    taken = capsys.readouterr().err
    assert run("--base-path", "ftp://lake", *option) == 1
    invalid = capsys.readouterr().err

    assert f"overlaps with '{folder}' of the table '{name}'" in taken
    assert "ftp" in invalid
    assert "Starting Spark" not in taken + invalid
    client.drop_table(name)
    assert run("--base-path", str(folder), *option) == 130


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"buckets": 3}, "--buckets 3 is not its number of buckets, 1"),
        ({"index": IndexType.BLOOM}, "--index bloom is not its index, bucket"),
        ({"base_path": "/lake/u"}, "--base-path file:///lake/u/ is not its base path, file:///lake/t/"),
        ({"ordering": "n"}, "--ordering n is not its ordering field, none"),
        ({"partition": ("day",)}, "--partition day is not its partition fields, none"),
    ],
)
def test_options_that_do_not_fit_an_existing_table_are_refused(options: dict[str, Any], message: str) -> None:
    table = table_at("/lake/t")

    with pytest.raises(TableMismatch, match=f"shop.other exists, and {message}; leave the option out"):
        ingest_request.check_same(table, IngestRequest("shop.other", "", ("id",), **options), {})
    ingest_request.check_same(table, IngestRequest("shop.other", "", (), "/lake/t/"), {})


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (ID_ONLY, "have no column called day, which shop.other has; .* --partition 'day=EXPRESSION'"),
        (ID_DAY_OP, "op; add them .*--merge-schema.* shop.other --add 'op:string'`.* --op-column"),
    ],
)
def test_files_that_do_not_fit_an_existing_table_are_refused(columns: list[Field], message: str) -> None:
    fields = [SchemaField("ID", "bigint", field_id=1), SchemaField("day", "date", field_id=2)]
    table = msgspec.structs.replace(table_at("/lake/t"), schema=fields, partition_fields=["day"])

    with pytest.raises(SchemaMismatch, match=message):
        ingest_request.check_fits(table, columns, IngestRequest("shop.other", "a.csv", ()))
    request = IngestRequest("shop.other", "a.csv", (), op_column="op", merge_schema=True)
    ingest_request.check_fits(table, ID_DAY_OP, request)
    with pytest.raises(SchemaMismatch, match="no column called opp, which --op-column names"):
        ingest_request.check_fits(table, ID_DAY_OP, dataclasses.replace(request, op_column="opp"))


@pytest.mark.parametrize(
    ("given", "wanted", "advice"),
    [
        ("timestamp_ntz", "timestamp", "give it a time zone"),
        ("timestamp", "date", "give it a time zone"),
        ("double", "string", "convert it to strings yourself"),
        ("boolean", "int", "cast it yourself"),
    ],
)
def test_a_column_of_another_kind_is_refused_before_an_engine_converts_it(
    given: str, wanted: str, advice: str
) -> None:
    fields = [SchemaField("V", wanted, field_id=1)]
    table = msgspec.structs.replace(table_at("/lake/t"), schema=fields)

    with pytest.raises(
        SchemaMismatch, match=f"column V of the files of a.csv is {given}, .*{wanted}.*{advice}"
    ):
        ingest_request.check_fits(table, [Field("v", given)], IngestRequest("shop.other", "a.csv", ()))


def test_the_plan_of_an_expression_is_left_out_of_its_refusal() -> None:
    failure = AnalysisException(
        "[UNRESOLVED_COLUMN] A column with name `nme` cannot be resolved. Did you mean [`name`]? "
        "SQLSTATE: 42703; line 1 pos 0;\n'Project [('nme = 2)]\n+- Relation [name#1] parquet"
    )

    assert (
        spark_failures.first_line(failure)
        == "A column with name `nme` cannot be resolved. Did you mean [`name`]?"
    )


def test_each_file_that_the_table_has_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    files = [Path("a.csv"), Path("b.csv"), Path("c.csv")]
    digests = {file: file.name for file in files}
    known = Prepared(None, (Batch(tuple(files), loaded=True),), digests, (), None, 0, {})
    partly = Prepared(None, (Batch((files[2],)),), digests, (), None, 0, {})
    result = command.IngestResult("shop.t", "/lake", False, [], partly.skipped)

    command._print_summary(Console(width=200), result)

    assert known.skipped == ["a.csv", "b.csv", "c.csv"]
    assert partly.skipped == ["a.csv", "b.csv"]
    assert "nothing new to load; the table had 2 files already" in capsys.readouterr().out
    assert command.line(known.batches[0], None) == "  3 files: the table has them already"


@pytest.mark.parametrize(
    ("wanted", "options", "bytes_max", "taken"),
    [
        ("auto", {}, 2**30, "arrow: 2 files of 0.0 MB, up to 1 GB need no Spark"),
        ("auto", {}, 11, "spark: 2 files of 0.0 MB, more than"),
        ("auto", {"partition": ("day",)}, 2**30, "arrow: "),
        (
            "auto",
            {"partition": ("m=month(day)",)},
            2**30,
            "spark: --partition m=…, an SQL expression",
        ),
        ("spark", {}, 2**30, "spark: --engine spark"),
        ("arrow", {}, 11, "arrow: --engine arrow"),
    ],
)
def test_the_engine_follows_from_the_files_and_the_options(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    wanted: str,
    options: dict[str, Any],
    bytes_max: int,
    taken: str,
) -> None:
    monkeypatch.setattr(engines, "BYTES_MAX", bytes_max)
    for number in range(2):
        (tmp_path / f"{number}.csv").write_text("id,day\n")  # 7 bytes
    request = IngestRequest("shop.t", str(tmp_path), ("id",), **options)

    chosen = engines.choose(EngineName(wanted), request, source_files.find(str(tmp_path)))
    assert f"{chosen.name}: {chosen.reason}".startswith(taken)


def test_a_compressed_file_counts_with_the_size_of_its_text(tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"id\n" + b"1\n" * 100_000))
    request = IngestRequest("shop.t", str(tmp_path), ("id",))

    chosen = engines.choose(EngineName.AUTO, request, source_files.find(str(tmp_path)))

    assert "1 file of 0.2 MB" in chosen.reason


def test_a_commit_without_spark_has_a_bound(
    client: chronolake.Client,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(arrow_engine, "LOAD_BYTES_MAX", 1 << 20)
    (tmp_path / "a.csv").write_text("id\n" + "12345678\n" * 150_000)
    files = ["--table", "large.t", "--key", "id", "--source", str(tmp_path), "--base-path", str(tmp_path / "t")]

    assert command_line.run(["ingest", "--engine", "arrow", "--url", client.url, *files]) == 1
    assert "more than 1 MiB of memory" in " ".join(capsys.readouterr().err.split())
    assert "large.t" not in [table.name for table in client.tables()]


@pytest.mark.parametrize("option", [("--partition", "m=month(id)"), ("--follow",)])
def test_what_needs_spark_is_refused_without_it(
    run: Callable[..., int], capsys: pytest.CaptureFixture[str], tmp_path: Path, option: tuple[str, ...]
) -> None:
    (tmp_path / "a.csv").write_text("id\n")

    assert run("--engine", "arrow", *option) == 2
    assert "needs Spark: leave --engine out" in " ".join(capsys.readouterr().err.replace("│", " ").split())


@pytest.mark.parametrize("is_reachable", [True, False])
def test_ctrl_c_right_after_the_completion_of_a_commit_says_that_it_completed(
    shared_server_url: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_reachable: bool,
) -> None:
    (tmp_path / "a.csv").write_text("id\n1\n")
    upsert = ArrowEngine.upsert

    def interrupted(engine: ArrowEngine, table: chronolake.Table, load: Load) -> Instant:
        upsert(engine, table, load)
        if not is_reachable:
            monkeypatch.setattr(chronolake.Client, "table", unreachable)
        signal.raise_signal(signal.SIGINT)
        raise AssertionError("the signal ends the command")

    def unreachable(*_: object) -> None:
        raise chronolake.errors.ConnectionFailed("no route")

    monkeypatch.setattr(ArrowEngine, "upsert", interrupted)
    name = f"spark.t_{uuid.uuid4().hex}"
    where = ["--url", shared_server_url, "--table", name, "--base-path", str(tmp_path / "lake")]

    assert command_line.run(["ingest", "--source", str(tmp_path), "--key", "id", *where]) == 130
    shown = capsys.readouterr().err
    completed = f"Interrupted. 1 commit of {name} completed before, and nothing else was loaded."
    assert (completed if is_reachable else "The server does not say which files were loaded into") in shown


def table_at(base_path: str) -> Table:
    return Table(
        name="shop.other",
        table_id="",
        metastore_id="",
        base_path=base_path,
        type=TableType.COPY_ON_WRITE,
        schema=[],
        record_key_fields=["id"],
        partition_fields=[],
        ordering_field=None,
        index=BucketIndex(buckets=1),
        tick=Tick.MILLISECOND,
        properties={},
        created_at=datetime.datetime.now(datetime.UTC),
        schema_version=1,
    )
