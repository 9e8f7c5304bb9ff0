"""JSON files: values that Spark would drop or change are refused with their place, without a JVM."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from chronolake.ingest import json_files, json_records, json_types, text_files
from chronolake.ingest.csv_files import ReadOptions, TargetColumn
from chronolake.ingest.file_rows import FilePart, FileRows
from chronolake.ingest.formats import Format
from chronolake.writing import conversions
from chronolake_model.tables import Field, SchemaField
from chronolake_spark import errors


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "a.json"


ARRAYS = [
    '\n [ {"id": -12.5e+3, "s": "a\\ud83d\\ude00\\n\\"", "b": [true, null, {}]} \n,\r\n{"id":1}\n ]\n\n ',
    "[]",
    " [\n]\n",
    '[{"id":1}, 2]',
    '[{"id":1}]\n[{"id":2}]\n',
    '[{"id":1}\n{"id":2}]',
    '[{"id":1},\n]',
    '[{"id":1},\n',
    '[{"id":1}',
    '[{"id":1},\n{"a":1,"a":1}]',
    '[{"id":1},\n{"a":-Infinity}]',
    '[{"id":1}, {"id":\n"a}]',
    '[{"id":1},\n {"id":1,"s":"a\tb"}]' + " " * 40 + "x",
    '[{"id":1},\n {"id":tru}]' + " " * 40,
    '[{"id":1},\n {"id":"\\u12"}]' + " " * 40,
    '[{"v":"\\ud800"}]',
]


def outcome(file: Path) -> list[object]:
    """The records of a file, and the error that ends them."""
    found: list[object] = []
    try:
        found.extend((record.place, record.fields) for record in json_records.records(file))
    except errors.SourceUnreadable as exc:
        found.append(str(exc))
    return found


@pytest.mark.parametrize("text", ARRAYS)
def test_an_array_that_is_read_in_parts_is_that_of_the_whole_text(
    file: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    file.write_text(text, "utf-8", newline="")
    whole = outcome(file)
    for chars in (1, 2, 3, 20):
        monkeypatch.setattr(json_records, "_CHUNK_CHARS", chars)
        assert outcome(file) == whole


def test_a_record_of_an_array_has_a_bound(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_records, "_CHUNK_CHARS", 100)
    monkeypatch.setattr(text_files, "RECORD_CHARS_MAX", 1 << 20)
    file.write_text('[{"id":1},\n{"id":"' + "a" * (3 << 20), "utf-8")
    with pytest.raises(errors.SourceUnreadable, match="line 2: a record has more than 1 million characters"):
        list(json_records.records(file))


REFUSED = {
    "two records": ('{"id":1}\n{"id":2}{"id":3}\n', "line 2: Extra data"),
    "text behind": ('{"id":1}\n\n{"id":3} not JSON\n', "line 3: Extra data"),
    "a comma behind": ('{"id":1},\n', "line 1: Extra data"),
    "brackets behind": ('{"id":1}]}}\n', "line 1: Extra data"),
    "single quotes": ("{'id':1}\n", "line 1: Expecting property name"),
    "several lines": ('{\n"id":1}\n', "line 1: Expecting property name"),
    "a control character": (
        '{"id":1}\n{"id":"a\tb"}\n',
        "line 2: Invalid control character at column 9; a JSON",
    ),
    "no quote": ('[{"id":1},\n{"id":"a}]', "line 2: Unterminated string starting at column 7; a JSON"),
    "no object": ('{"id":1}\n3\n', "line 2: a number and not an object"),
    "NaN": ('{"id":NaN}\n', "line 1: NaN is not a JSON number"),
    "a field twice": ('{"id":1,"s":{"a":1,"a":2}}\n', "line 1: an object has the field 'a' twice"),
    "nested too deeply": ('{"id":' + "[" * 200_000, "line 1: it is nested too deeply"),
    "an array of other values": ('[{"id":1}, 2]', "record 2: a number and not an object"),
    "two arrays": ('[{"id":1}]\n[{"id":2}]\n', "line 2: Extra data"),
    "an array without commas": ('[{"id":1}\n{"id":2}]', "line 2: Expecting ',' or ']'"),
    "a comma before the end": ('[{"id":1},\n]', "line 2: Expecting value"),
    "an array without an end": ('[{"id":1}', "line 1: Expecting ',' or ']'"),
    "an array with a field twice": ('[{"id":1},\n{"a":1,"a":1}]', "line 2: an object has the field 'a' twice"),
    "a string beside a number": (
        '{"v":1}\n{"v":null}\n{"v":"1"}\n',
        r"line 3, column v: a string, and .*a\.json, line 1 has a number",
    ),
    "a boolean beside a string": ('[{"v":"x"},{"v":true}]', "record 2, column v: a boolean"),
    "an object beside a number": ('{"v":1}\n{"v":{"x":1}}\n', "line 2, column v: an object"),
    "kinds in a struct": ('{"v":{"x":1}}\n{"v":{"x":[1]}}\n', r"line 2, column v\.x: an array"),
    "kinds in an array": ('{"v":[1,"1"]}\n', r"line 1, column v\[\]: a string"),
    "half a surrogate pair": ('{"v":"x"}\n{"v":"\\ud800"}\n', "line 2: a text has half of a surrogate pair"),
    "half a pair in a name": ('{"\\uDC00":1}\n', "line 1: a text has half of a surrogate pair"),
    "names by case": ('{"id":1,"ID":2}\n', "line 1: the fields id and ID differ only in case"),
    "names by case in a struct": (
        '{"s":{"a":1}}\n{"s":{"A":1}}\n',
        "line 2, column s: the fields a and A differ only in case",
    ),
    "an empty name": ('{"id":1,"":2}\n', "line 1: a field has the empty name"),
    "only empty objects": ('{"id":1,"s":{}}\n', "line 1, column s: all its objects are empty"),
    "a large exponent": ('{"v":1e400}\n', "line 1, column v: 1e400 .* without an exponent"),
    "an exponent": ('{"v":1}\n{"v":1E2}\n', "line 2, column v: 1E2 .* without an exponent"),
    "a number near zero": ('{"v":1e-400}\n', "line 1, column v: .* a double does not keep 1e-400"),
    "too many digits": ('{"v":0.5}\n{"v":' + "1" * 39 + "}\n", "line 2, column v: no decimal of 38 digits"),
    "digits on both sides": (
        '{"v":' + "1" * 30 + '}\n{"v":0.1234567890123456789}\n',
        "line 1, column v: no decimal of 38 digits",
    ),
}


@pytest.mark.parametrize(("content", "message"), REFUSED.values(), ids=REFUSED)
def test_a_value_that_spark_would_drop_or_change_is_refused_with_its_place(
    file: Path, content: str, message: str
):
    file.write_text(content)

    with pytest.raises(errors.SourceUnreadable, match=rf"a\.json, {message}"):
        json_files.shape_of([file])


def test_a_kind_of_another_file_counts_too(file: Path, tmp_path: Path):
    other = tmp_path / "b.json"
    file.write_text('{"v":1}\n')
    other.write_text('[{"v":"1"}]')

    with pytest.raises(errors.SourceUnreadable, match=r"b\.json, record 1, column v: .*a\.json, line 1"):
        json_files.shape_of([file, other])


@pytest.mark.parametrize(
    ("content", "places"),
    [
        ('\ufeff{"id":1}\r\n \t\n{"id":2.5,"s":{"a":[]}}', ["line 1", "line 3"]),
        ('\n[ {"id":1} ,\n{"id":null}\n]\n ', ["record 1", "record 2"]),
        ("[]", []),
        ("", []),
        ('{"v":"\\ud83d\\ude00 \\\\ud800"}\n{"v":null}\n', ["line 1", "line 2"]),
        ('{"v":' + "9" * 38 + '}\n{"v":-0}\n', ["line 1", "line 2"]),
        ('{"v":1}\n{"v":1.5e-3}\n{"v":1E0}', ["line 1", "line 2", "line 3"]),
    ],
)
def test_valid_json_is_accepted(file: Path, content: str, places: list[str]):
    file.write_bytes(content.encode())

    json_files.shape_of([file])

    assert [record.place for record in json_records.records(file)] == places


def test_an_invalid_line_after_many_uniform_ones_is_refused_with_its_number(file: Path):
    alike = '{"id":1,"text":"' + "x" * 100 + '"}\n'
    file.write_text("\n{}\r{}\r\n" + alike * 60_000 + '{"id":1,"id":2}\n')
    assert file.stat().st_size > 4 << 20, "the file is read in several blocks"

    with pytest.raises(errors.SourceUnreadable, match=r"line 60004: an object has the field 'id' twice"):
        json_files.shape_of([file])


def test_an_operation_after_many_uniform_lines_is_checked(file: Path):
    file.write_text('{"id":1,"Op":" D"}\n{"id":1,"Op":null}\n' * 50 + '{"id":1,"Op":"x"}\n')

    with pytest.raises(errors.SchemaMismatch, match=r"line 101, column Op: 'x' is not an operation"):
        json_files.shape_of([file], op_column="op")


STRINGS = [
    ("bigint", ["1", "01"], "'01' does not fit bigint"),
    ("boolean", ["true", "yes"], "'yes' does not fit boolean"),
    ("timestamp_ntz", ["2026-01-31 10:00:00", "2026-01-31 10:00:00.1234567"], "does not fit timestamp_ntz"),
    ("date", ["2026-01-31", "2026-01-31T10:00:00"], "does not fit date"),
]


@pytest.mark.parametrize(("type_", "values", "message"), STRINGS)
def test_a_string_that_is_no_value_of_the_column_is_refused_with_its_file(
    tmp_path: Path, type_: str, values: list[str], message: str
):
    file = tmp_path / "a b.json"
    file.write_text("".join(json.dumps({"v": value}) + "\n" for value in values))
    rows = FileRows.of(Format.JSON, [Field("v", "string")], ReadOptions(known={"v": TargetColumn(type_)}))

    with pytest.raises(errors.SchemaMismatch, match=rf"a b\.json, line 2, column v: the string .*{message}"):
        list(rows.batches(FilePart(0, file)))


TYPES = {
    "integers": ([1, 2**63 - 1, -(2**63)], "bigint"),
    "larger integers": ([2**63, 1], "decimal(38,0)"),
    "fractions": ([0.5, 10.25], "decimal(18,2)"),
    "integers and fractions": ([1, 0.5], "decimal(38,1)"),
    "doubles": ([1, 2.0**-60], "double"),
    "strings that look like numbers": (["1.10", "1"], "string"),
    "booleans": ([True, None], "boolean"),
    "nulls": ([None], "string"),
    "structs": ([{"b": 1.5, "a": ["1"]}, {}], "struct<a:array<string>,b:decimal(2,1)>"),
    "arrays of nothing": ([[], [None]], "array<string>"),
}


@pytest.mark.parametrize(("values", "type_"), TYPES.values(), ids=TYPES)
def test_a_column_has_the_type_of_all_its_values(file: Path, values: list[Any], type_: str):
    file.write_text("\n".join(json.dumps({"v": value}) for value in values))

    [field] = json_types.fields_of(json_files.shape_of([file]), ReadOptions())

    assert field.type == type_


def test_a_column_of_strings_in_the_table_is_one_of_strings(file: Path):
    file.write_text('{"b":1.50,"a":{"x":1}}\n')
    reading = ReadOptions(known={"a": TargetColumn("string"), "b": TargetColumn("string")})

    fields = json_types.fields_of(json_files.shape_of([file]), reading)

    assert [field.type for field in fields] == ["struct<x:bigint>", "string"]


@pytest.mark.parametrize("numbers", [["1", "-0"], ["0.5", "-0.0"], ["0.5"] * 40 + ["-0.0"], ["0.5", "-0E-1"]])
@pytest.mark.parametrize(("type_", "zero"), [("double", "-0.0"), ("float", "-0.0"), ("bigint", "0")])
def test_a_negative_zero_keeps_its_sign_in_a_column_that_has_one(
    file: Path, numbers: list[str], type_: str, zero: str
):
    file.write_text("".join(f'{{"v":{number}}}\n' for number in numbers))
    reading = ReadOptions(known={"v": TargetColumn(type_)})

    fields = json_types.fields_of(json_files.shape_of([file]), reading)
    rows = FileRows.of(Format.JSON, fields, reading)
    values = pa.chunked_array([batch["v"] for batch, _ in rows.batches(FilePart(0, file))])
    stored = conversions.converted(values.slice(len(values) - 1), SchemaField("v", type_, field_id=1))

    assert str(stored[0]) == zero


def test_with_all_strings_only_arrays_and_objects_keep_their_kind(file: Path):
    file.write_text('{"a":[1],"b":true,"c":{"x":1.5}}\n')

    reading = ReadOptions(default=TargetColumn("string", stated=True))
    fields = json_types.fields_of(json_files.shape_of([file]), reading)

    assert [field.type for field in fields] == ["array<string>", "string", "struct<x:string>"]
