"""Bad rows of files: many are named at once, and with --bad-rows they are set aside and the others loaded."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import chronolake
from chronolake.ingest import bad_rows, csv_files, json_files, parquet_files, row_scans
from chronolake.ingest.bad_rows import BadRows
from chronolake.ingest.csv_files import ReadOptions, TargetColumn
from chronolake.ingest.formats import Format
from chronolake.ingest.set_aside import SetAside
from chronolake_spark import errors
from tests.client.test_utf8 import TEXT
from tests.spark.prices import Ingest, rows_of

READING = ReadOptions(known={"n": TargetColumn("int")}, key=("id",), op_column="op")
CSV = 'id,n,op\n1,10,\n2,x,u\n\n,30,d\n"4\n4",40,gone\n5,50,d\n6,y,u\n'


def found(format_: Format, file: Path, reading: ReadOptions) -> list[str]:
    """The places of the bad rows that a scan finds, and their errors."""
    bad = BadRows()
    row_scans.find(format_, [file], reading, bad)
    return [
        f"{type(error).__name__} {str(error).removeprefix(str(file))[2:]}".partition(";")[0]
        for error in bad.errors
    ]


def test_all_bad_rows_of_csv_files_are_named_at_once(tmp_path: Path):
    first, second = tmp_path / "a.csv", tmp_path / "b.csv"
    first.write_text(CSV)
    second.write_text("id,n,op\n1,z,u\n")

    with pytest.raises(errors.SchemaMismatch) as refused:
        csv_files.inspect([first, second], READING)
    lines = str(refused.value).splitlines()
    assert [line.partition(",")[0] for line in lines[:-1]] == [str(first)] * 4 + [str(second)]
    assert [line.split(", ")[1].partition(":")[0] for line in lines[:-1]] == [
        *("line 3", "line 5", "line 6", "line 9"),
        "line 2",
    ]
    assert lines[-1].startswith("5 bad rows; with --bad-rows FILE")
    assert refused.value.problem is not None
    assert [row["line"] for row in refused.value.problem.context["bad_rows"]] == [3, 5, 6, 9, 2]


def test_rows_of_other_lengths_are_all_named(tmp_path: Path):
    file = tmp_path / "a.csv"
    file.write_text("id,n\n1,2,3\n1,2\n3\n")

    with pytest.raises(
        errors.SourceUnreadable, match=r"line 2: the row has 3 values(.*\n)+.*line 4: the row has 1"
    ):
        csv_files.inspect([file], ReadOptions())


def test_a_row_of_another_length_hides_no_other_bad_row(tmp_path: Path):
    file = tmp_path / "a.csv"
    file.write_text('id,n\n1,2,3\n1,2\n2,x\n\n"3\n3",y\n4\n,5\n6,6\n')
    bad = BadRows()

    inspection = csv_files.inspect([file], READING, bad=bad)
    found = [(type(error), error.problem and error.problem.context["line"]) for error in bad.errors]
    assert found == [
        (errors.SourceUnreadable, 2),
        (errors.SchemaMismatch, 4),
        (errors.SchemaMismatch, 6),
        (errors.SourceUnreadable, 8),
        (errors.InvalidRecordKey, 9),
    ]
    assert inspection.rows == 2


def test_one_bad_row_is_named_with_what_sets_it_aside(tmp_path: Path):
    file = tmp_path / "a.csv"
    file.write_text("id,n\n1\n2,2\n")

    with pytest.raises(errors.SourceUnreadable, match=r"line 2: .*\n1 bad row; with --bad-rows FILE"):
        csv_files.inspect([file], READING)


@pytest.mark.parametrize(("count", "named"), [(99, "99 bad rows; "), (250, "100 bad rows or more; ")])
def test_a_hundred_bad_rows_are_named_at_most(tmp_path: Path, count: int, named: str):
    file = tmp_path / "a.csv"
    file.write_text("id,n\n" + "1,x\n" * count)

    with pytest.raises(errors.SchemaMismatch) as refused:
        csv_files.inspect([file], READING)
    lines = str(refused.value).splitlines()
    assert len(lines) == min(count, bad_rows.REPORTED_MAX) + 1
    assert lines[-1].startswith(named)


@pytest.mark.parametrize(
    ("text", "places"),
    [
        (
            '{"id": 1}\n\n{"id": ""}\n{"n": "1"}\n{"id": 5, "n": "x"}\n{"id": 6, "n": "6"}\n',
            [
                "InvalidRecordKey line 3: the record key (id): there are rows where its value is null or empty",
                "InvalidRecordKey line 4: the record key (id): there are rows where its value is null or empty",
                "SchemaMismatch line 5, column n: the string 'x' does not fit int",
            ],
        ),
        ('{"ID": 1}\n', []),
        (
            '\ufeff[{"id": 1},\n {"id": null}]',
            ["InvalidRecordKey record 2: the record key (id): there are rows where its value is null or empty"],
        ),
    ],
    ids=["lines", "another case", "array"],
)
def test_bad_records_of_json_are_found(tmp_path: Path, text: str, places: list[str]):
    file = tmp_path / "a.json"
    file.write_text(text)

    assert found(Format.JSON, file, READING) == places


def test_lines_of_json_that_are_no_records_are_all_named(tmp_path: Path):
    file = tmp_path / "a.json"
    file.write_text('{"id": 1}\n{"id": 2\nx\n{"id": 4, "op": "gone"}\n')

    with pytest.raises(errors.SourceUnreadable, match=r"line 2: (.*\n)+.*line 3: (.*\n)+.*line 4, column op"):
        json_files.shape_of([file], op_column="op")


def test_a_line_that_is_no_record_hides_no_bad_record(tmp_path: Path):
    file = tmp_path / "a.json"
    file.write_text('{"id": 1}\nx\n{"id": ""}\n')

    assert [error.split(":")[0] for error in found(Format.JSON, file, READING)] == ["InvalidRecordKey line 3"]


def test_bad_rows_of_parquet_are_found(tmp_path: Path):
    file = tmp_path / "a.parquet"
    rows = {"a": ["x", "", "", None], "b": [1, 2, None, None], "n": ["1", "x", "y", "z"]}
    pq.write_table(pa.table(rows), file, row_group_size=2)
    key = "the record key (A, b): there are rows where its values are all null or empty"

    assert found(Format.PARQUET, file, ReadOptions(key=("A", "b"))) == [
        f"InvalidRecordKey row 3: {key}",
        f"InvalidRecordKey row 4: {key}",
    ]
    assert found(Format.PARQUET, file, ReadOptions(key=("a", "derived"))) == []
    assert found(Format.PARQUET, file, ReadOptions(known={"n": TargetColumn("int")})) == [
        f"SchemaMismatch row {row}, column n: the string {text!r} does not fit int"
        for row, text in ((2, "x"), (3, "y"), (4, "z"))
    ]
    times = pa.table({"t": pa.array([1_000, 1, None, 2], pa.timestamp("ns")), "op": ["d", None, "x", "u"]})
    pq.write_table(times, file)
    bad = BadRows()
    parquet_files.check([file], "op", bad=bad.add)
    assert [error.problem.context["row"] for error in bad.errors if error.problem] == [2, 4, 3]


@pytest.mark.parametrize(
    ("name", "encoding"), [("a.csv", "utf-8"), ("a.csv", "utf-16"), ("A.CSV.GZ", "latin-1")]
)
def test_a_copy_without_bad_rows_keeps_the_others_and_their_lines(tmp_path: Path, name: str, encoding: str):
    file = tmp_path / name
    text = CSV.replace("\n", "\r\n").replace("x", "é")
    file.write_bytes(gzip.compress(text.encode(encoding)) if name.endswith(".GZ") else text.encode(encoding))
    reading = ReadOptions(encoding, READING.known, key=("id",), op_column="op")
    bad = BadRows(10)
    csv_files.inspect([file], reading, bad=bad)
    set_aside = SetAside()

    set_aside.add(bad.errors, [file], encoding)

    assert [(row.line, row.content) for row in set_aside.rows] == [
        (3, "2,é,u"),
        (5, ",30,d"),
        (6, '"4\r\n4",40,gone'),
        (9, "6,y,u"),
    ]
    assert all(row.problem.startswith(f"{file}, line {row.line}") for row in set_aside.rows)
    copied = set_aside.file(file).read_bytes().decode(encoding)
    assert copied == "id,n,op\r\n1,10,\r\n\r\n\r\n\r\n\r\n\r\n5,50,d\r\n\r\n"
    assert csv_files.inspect([set_aside.file(file)], reading).rows == 2


def test_a_row_of_parquet_that_is_set_aside_keeps_its_values(tmp_path: Path):
    file, aside = tmp_path / "a.parquet", tmp_path / "bad.jsonl"
    columns = {
        "id": pa.array([None], pa.string()),
        "n": pa.array([1]),
        "price": pa.array([Decimal("12345678901234567890.10")], pa.decimal128(22, 2)),
        "nan": pa.array([float("nan")]),
        "text": pa.array(["None"]).dictionary_encode(),
        "raw": pa.array([b"\xff"]),
        "flag": pa.array([True]),
        "day": pa.array([0], pa.date32()),
        "nanos": pa.array([1], pa.timestamp("ns", "Europe/Berlin")),
        "late": pa.array([253402300800], pa.timestamp("s")),
        "list": pa.array([[1, None]]),
        "struct": pa.array([{"a": None, "b": [{"c": 2.5}]}]),
        "map": pa.array([[(1, None), (2, "x")]], pa.map_(pa.int32(), pa.string())),
        "invalid": TEXT.slice(1, 1),
    }
    pq.write_table(pa.table(columns), file)
    set_aside = SetAside()

    set_aside.add([errors.InvalidRecordKey("no key", {"file": str(file), "row": 1})], [file], "utf-8")
    set_aside.write(aside)

    content = json.loads(aside.read_text(), parse_float=Decimal)["content"]
    assert {name: content[name] for name in columns} == {
        "id": None,
        "n": 1,
        "price": Decimal("12345678901234567890.10"),
        "nan": "nan",
        "text": "None",
        "raw": "/w==",
        "flag": True,
        "day": "1970-01-01",
        "nanos": "1970-01-01 00:00:00.000000001Z",
        "late": "10000-01-01 00:00:00.000",
        "list": [1, None],
        "struct": {"a": None, "b": [{"c": Decimal("2.5")}]},
        "map": {"1": None, "2": "x"},
        "invalid": "TREL\\xc3",
    }


def test_a_record_within_an_array_of_json_is_not_set_aside(tmp_path: Path):
    file = tmp_path / "a.json"
    file.write_text('[{"id": 1}, {"id": null}]')
    bad = BadRows()
    row_scans.find(Format.JSON, [file], READING, bad)

    with pytest.raises(errors.InvalidRecordKey, match="record 2"):
        SetAside().add(bad.errors, [file], "utf-8")


def _write_csv(folder: Path) -> None:
    (folder / "a.csv").write_text('id,n\n1,10\n2,x\n,3\n"4\n",5,6\n5,50\n')
    (folder / "b.csv").write_text("id,n\n6,60\n")


def _write_json(folder: Path) -> None:
    records = [
        '{"id": "1", "n": 10}',
        '{"id": "2", "n": "x"',
        '{"id": "", "n": 3}',
        "4",
        '{"id": "5", "n": 50}',
    ]
    (folder / "a.jsonl").write_text("\n".join(records))
    (folder / "b.jsonl").write_text('{"id": "6", "n": 60}\n')


def _write_parquet(folder: Path) -> None:
    texts = pa.array(["1", "2", None, "4", "5"])
    times = pa.array([0, 1, 0, 0, 0], pa.timestamp("ns"))
    bad = pa.concat_arrays([TEXT.slice(0, 1), TEXT.slice(0, 2), TEXT.slice(1, 1), TEXT.slice(2)])
    numbers = pa.array([10, 2, 3, 5, 50])
    pq.write_table(
        pa.table({"id": texts, "n": numbers, "t": times, "s": bad}), folder / "a.parquet", row_group_size=2
    )
    one = {"id": ["6"], "n": [60], "t": pa.array([0], pa.timestamp("ns")), "s": ["z"]}
    pq.write_table(pa.table(one), folder / "b.parquet")


@pytest.mark.parametrize("write", [_write_csv, _write_json, _write_parquet])
def test_bad_rows_are_set_aside_and_all_others_are_loaded(
    run: Callable[..., int],
    ingest: Ingest,
    table: Callable[[], chronolake.Table],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    write: Callable[[Path], None],
):
    write(tmp_path / "in")
    aside = tmp_path / "bad.jsonl"
    reading = ["--key", "id", *(["--schema", "id STRING, n BIGINT"] if write is _write_csv else [])]
    options = [*reading, "--bad-rows", str(aside)]
    assert run(*reading) == 1
    assert len(json.loads(capsys.readouterr().err)["context"]["bad_rows"]) == 3

    assert ingest(*options, "--dry-run")["bad_rows"] == 3
    assert not aside.exists()
    result = ingest(*options)

    assert (result["bad_rows"], result["commits"][0]["bad_rows"], result["commits"][0]["rows"]["read"]) == (
        3,
        3,
        3,
    )
    assert [row[:2] for row in rows_of(table())] == [("1", 10), ("5", 50), ("6", 60)]
    rows: list[dict[str, Any]] = [json.loads(line) for line in aside.read_text().splitlines()]
    assert len(rows) == 3
    assert all(row["file"].startswith(str(tmp_path / "in" / "a.")) and row["problem"] for row in rows)
    [instant] = table().timeline.completed()
    assert instant.extra_metadata["ingest.set_aside"] == "3"
    assert len(ingest(*options)["skipped"]) == 2


def test_bad_records_of_an_array_of_json_are_reported_with_what_sets_them_aside(tmp_path: Path):
    file = tmp_path / "a.json"
    file.write_text('[{"id": null}, {"id": 1}, {"id": null}]')
    with pytest.raises(errors.InvalidRecordKey) as refused, bad_rows.refused() as bad:
        row_scans.find(Format.JSON, [file], READING, bad)
    assert "record 1" in str(refused.value)
    assert str(refused.value).splitlines()[-1].startswith("2 bad rows; write each record on a line of its own")


@pytest.mark.parametrize("begin", [b"[", b"\xef\xbb\xbf\n ["])
def test_an_array_of_json_is_refused_at_the_beginning_with_bad_rows(
    run: Callable[..., int], capsys: pytest.CaptureFixture[str], tmp_path: Path, begin: bytes
):
    (tmp_path / "in" / "a.jsonl").write_text('{"id": 1}\n')
    (tmp_path / "in" / "b.json").write_bytes(begin + b'{"id": 2}]')

    assert run("--key", "id", "--bad-rows", str(tmp_path / "bad.jsonl")) == 1
    shown = capsys.readouterr().err
    assert "b.json is one array" in shown
    assert "write each record on a line of its own, as jq -c '.[]' does" in shown
    assert "Starting Spark" not in shown


def test_a_file_for_bad_rows_that_the_next_ingest_would_load_is_refused(
    run: Callable[..., int], tmp_path: Path
):
    (tmp_path / "in" / "a.jsonl").write_text('{"id": 1}\n')

    assert run("--key", "id", "--bad-rows", str(tmp_path / "in" / "bad.jsonl")) == 2
