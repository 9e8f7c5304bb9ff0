"""The types that ``chronolake ingest`` gives to columns, and the values it stores."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import chronolake
from chronolake_model.schemas import RenameColumn
from tests.spark import hudi_reader
from tests.spark.prices import BOTH_ENGINES, Ingest, rows_of


@BOTH_ENGINES
def test_values_of_unusual_types_of_files_keep_their_meaning(
    ingest: Ingest, run: Callable[..., int], table: Callable[[], chronolake.Table], tmp_path: Path
):
    columns = {
        "id": pa.array([1]),
        "u": pa.array([2**64 - 1], pa.uint64()),
        "u8": pa.array([255], pa.uint8()),
        "kind": pa.array(["a"]).dictionary_encode(),
        "n": pa.nulls(1),
        "large": pa.array(["b"], pa.large_string()),
        "list": pa.array([[1, 2]], pa.list_(pa.int32(), 2)),
        "d": pa.array([Decimal("1.5")], pa.decimal256(38, 1)),
    }
    pq.write_table(pa.table(columns), tmp_path / "in" / "a.parquet")

    assert run("--key", "id") == 1  # A column of nulls has no type.
    ingest("--key", "id", "--schema", "n STRING")
    types = [field.type for field in table().definition.schema]
    assert types == [
        "bigint",
        "decimal(20,0)",
        "smallint",
        "string",
        "string",
        "string",
        "array<int>",
        "decimal(38,1)",
    ]
    assert rows_of(table()) == [(1, Decimal(2**64 - 1), 255, "a", None, "b", [1, 2], Decimal("1.5"))]


def test_new_columns_of_the_files_are_added_to_the_table_on_request(
    run: Callable[..., int],
    ingest: Ingest,
    table: Callable[[], chronolake.Table],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    (tmp_path / "in" / "a.csv").write_text("id,n\n1,10\n2,20\n")
    ingest("--key", "id")
    (tmp_path / "in" / "b.csv").write_text("id,n,my note,op\n1,11,x,\n2,20,y,d\n")

    assert run("--op-column", "op") == 1
    refused = json.loads(capsys.readouterr().err)
    assert (refused["code"], refused["context"]) == ("schema-mismatch", {"unknown": ["my note"]})
    assert "--merge-schema" in refused["detail"]
    assert "--add '`my note`:string'" in refused["detail"]
    assert ingest("--op-column", "op", "--merge-schema", "--dry-run")["rows"] == 2
    assert table().definition.schema_version == 1

    ingest("--op-column", "op", "--merge-schema")
    assert rows_of(table()) == [(1, 11, "x")]

    price = pa.array([Decimal("1.25")], pa.decimal128(10, 2))
    wide = {"id": pa.array([3]), "n": pa.array([30]), "my note": pa.array(["z"]), "price": price}
    pq.write_table(pa.table(wide), tmp_path / "wide.parquet")
    source = ("--source", str(tmp_path / "wide.parquet"), "--merge-schema", "--schema", "price DECIMAL(12,2)")
    assert ingest(*source, "--dry-run")["rows"] == 1
    ingest(*source)
    assert rows_of(table()) == [(1, 11, "x", None), (3, 30, "z", Decimal("1.25"))]
    assert [field.type for field in table().definition.schema][2:] == ["string", "decimal(12,2)"]


def test_a_file_that_does_not_fit_changes_no_columns(
    run: Callable[..., int], ingest: Ingest, table: Callable[[], chronolake.Table], tmp_path: Path
) -> None:
    (tmp_path / "in" / "a.csv").write_text("id,d\n1,2026-01-31\n")
    ingest("--key", "id")
    pq.write_table(pa.table({"id": [2], "d": [1.5], "x": [1]}), tmp_path / "other.parquet")

    assert run("--source", str(tmp_path / "other.parquet"), "--merge-schema") == 1
    assert table().definition.schema_version == 1


def test_numbers_written_in_several_ways_are_noted_and_order_no_rows(
    run: Callable[..., int],
    ingest: Ingest,
    table: Callable[[], chronolake.Table],
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


def test_the_types_of_a_table_are_stated_and_shown_and_no_later_value_is_bent_to_them(
    run: Callable[..., int],
    ingest: Ingest,
    table: Callable[[], chronolake.Table],
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


@pytest.mark.parametrize(
    ("suffix", "row"), [("parquet", "row 1"), pytest.param("jsonl", "line 1", marks=pytest.mark.slow)]
)
def test_strings_become_the_types_of_the_table_as_in_csv(
    run: Callable[..., int],
    ingest: Ingest,
    table: Callable[[], chronolake.Table],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    suffix: str,
    row: str,
) -> None:
    moment = datetime.datetime(2026, 1, 31, 8, tzinfo=datetime.UTC)
    rows = [{"id": "1", "at": "2026-01-31T10:00:00+02:00", "text": "1.10"}, {"id": "2", "text": ""}]
    write_rows(tmp_path / "in" / f"1.{suffix}", rows)
    ingest("--key", "id", "--schema", "id BIGINT, at TIMESTAMP")
    assert table().to_arrow().sort_by("id").to_pylist() == [
        {"id": 1, "at": moment, "text": "1.10"},
        {"id": 2, "at": None, "text": ""},
    ]

    write_rows(tmp_path / "in" / f"2.{suffix}", [{"id": "01", "at": None, "text": "x"}])
    assert run() == 1
    assert f"2.{suffix}, {row}, column id: the string '01' does not fit bigint" in capsys.readouterr().err
    assert table().to_arrow().num_rows == 2


def test_a_column_that_is_stated_as_not_null_is_so_in_a_new_table(
    run: Callable[..., int],
    ingest: Ingest,
    table: Callable[[], chronolake.Table],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    (tmp_path / "in" / "1.jsonl").write_text('{"id": 1, "ts": 5, "note": null}')
    options = ("--key", "id", "--ordering", "ts", "--table-type", "merge_on_read")
    ingest(*options, "--schema", "TS BIGINT NOT NULL")
    nullable = {field.name: field.nullable for field in table().definition.schema}
    assert (nullable["ts"], nullable["note"]) == (False, True)
    assert "Hudi's readers will not see" not in capsys.readouterr().err

    (tmp_path / "in" / "2.jsonl").write_text('{"id": 2, "ts": null, "note": "a"}')
    assert run("--schema", "ts BIGINT NOT NULL") == 1
    assert "required-value-missing" in capsys.readouterr().err
    assert run("--schema", "note STRING NOT NULL") == 1
    assert "leave NOT NULL out of --schema for note" in capsys.readouterr().err
    assert table().to_arrow().num_rows == 1


def test_numbers_of_json_are_stored_in_strings_as_they_are_written(
    ingest: Ingest, table: Callable[[], chronolake.Table], tmp_path: Path
) -> None:
    lines = [
        '{"id": 1.1, "_corrupt_record": 1, "a": ["1.5"]}',
        '{"id": 1.10, "_corrupt_record": 2, "a": ["2"]}',
    ]
    (tmp_path / "in" / "1.jsonl").write_text("\n".join(lines))
    ingest("--key", "id", "--schema", "id STRING")

    assert rows_of(table()) == [(1, ["1.5"], "1.1"), (2, ["2"], "1.10")]


def test_an_array_of_json_is_read_in_its_order_and_whole_or_not_at_all(
    run: Callable[..., int],
    ingest: Ingest,
    table: Callable[[], chronolake.Table],
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


def test_an_ingest_says_beforehand_that_readers_of_hudi_will_not_see_the_table(
    ingest: Ingest, client: chronolake.Client, name: str, tmp_path: Path
):
    (tmp_path / "in" / "a.csv").write_text("id,n\n1,10\n")
    assert ingest("--key", "id")["obstacle_for_hudi"] is None
    (tmp_path / "in" / "b.csv").write_text("id,n,größe\n2,20,x\n")
    forbidden = ingest("--merge-schema", "--dry-run")["obstacle_for_hudi"]
    assert "Avro" in forbidden
    assert "größe" in forbidden

    client.table(name).change_schema([RenameColumn("n", "m")])
    hudi_reader.publish_and_compare(client.table(name))
    (tmp_path / "in" / "b.csv").write_text("id,m\n2,20\n")
    renamed = ingest("--dry-run")["obstacle_for_hudi"]
    assert "the column 'm' was renamed" in renamed


def test_a_table_that_readers_of_hudi_will_not_see_is_made_with_a_warning(
    run: Callable[..., int], capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    (tmp_path / "in" / "a.csv").write_text("id,a b\n1,10\n")

    for options in (["--dry-run"], []):
        assert run("--key", "id", *options) == 0
        shown = capsys.readouterr()
        assert "Avro" in json.loads(shown.out)["obstacle_for_hudi"]
        assert "Warning: Hudi's readers will not see what is loaded: " in shown.err
