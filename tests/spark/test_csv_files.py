"""CSV files: which are read, and which are refused with the place, without a JVM."""

from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import assume, given, strategies as st

from chronolake.ingest import csv_files, json_files, text_files
from chronolake.ingest.csv_files import ReadOptions, TargetColumn
from chronolake_spark import errors


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "a.csv"


REFUSED = {
    "too many values": (
        b'id,v\n"1\n2",a\n\n3,4,5\n',
        "line 5: the row has 3 values, but the header has 2 columns",
    ),
    "too few values": (b"id,v\n1,2\n3\n", "line 3: the row has 1 values"),
    "a quote that is not closed": (b'id,v\n1,2\n3,"four\n5,6\n', "line 3: unexpected end of data"),
    "text after a quote": (b'id,v\n1,"a"b\n', "line 2: ',' expected after '\"'"),
    "bytes of another encoding": (
        b"id,v\n1,2\n3,caf\xe9\n",
        "byte 14 .0xe9. is not utf-8; .*--encoding cp1252",
    ),
    "UTF-16": ("id,v\n1,2\n".encode("utf-16"), "line 1: byte 0 .0xff. is not utf-8; .*--encoding utf-16"),
    "UTF-16 without a mark": (
        "id,v\n1,2\n".encode("utf-16-le"),
        "line 1: holds a zero byte, .*--encoding utf-16",
    ),
    "UTF-16 of other letters": (
        "ид,в\n1,да\n".encode("utf-16-be"),
        "line 1: .*--encoding utf-16",
    ),
    "a zero byte": (b"id,v\n1,2\n3,a\0b\n", "line 3: holds a zero byte, which no text has; remove it"),
    "zero bytes that pad": (b"id,v\n" + b"1,a\0\0\0\n" * 9, "line 2: holds a zero byte, .*; remove it"),
    "a zero byte far behind": (
        b"id,v\n" + b"1,2\n" * 500_000 + b"\0" * 9,
        "line 500002: holds a zero byte, .*; remove it",
    ),
    "semicolons": (b"id;v\n1;2,5\n", "one column, 'id;v': only commas .* not semicolons; convert"),
    "tabs": (b"id\tv\n1\t2\n", "only commas separate values, not tabs; convert the file"),
    "nothing": (b"", "is empty: a CSV file begins with a line of column names"),
    "a column without a name": (b"id,,v\n1,2,3\n", "no name for its column 2"),
    "a name twice": (b"id,v,V\n1,2,3\n", "several columns called V, v"),
}


@pytest.mark.parametrize(("content", "message"), REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("known", [{}, {"v": TargetColumn("string")}], ids=["a new table", "a table"])
def test_a_file_that_cannot_be_read_faithfully_is_refused_with_the_place(
    file: Path, content: bytes, message: str, known: dict[str, TargetColumn]
):
    file.write_bytes(content)

    with pytest.raises(errors.SourceUnreadable, match=message) as refused:
        csv_files.inspect([file], ReadOptions(known=known))
    assert str(file) in str(refused.value)


def test_a_zero_byte_of_a_file_in_utf_16_is_no_reason_to_name_that_encoding(file: Path):
    file.write_bytes("id,v\n1,\0\n".encode("utf-16"))

    with pytest.raises(
        errors.SourceUnreadable, match="line 2: holds a zero byte, which no text has; remove it"
    ):
        csv_files.inspect([file], ReadOptions("utf-16"))


def test_utf_16_read_as_latin_1_is_distinguished_from_a_zero_byte(file: Path):
    file.write_bytes("id,v\n1,2\n".encode("utf-16"))

    with pytest.raises(errors.SourceUnreadable, match=r"line 1: .* as UTF-16 does; .*utf-16"):
        csv_files.inspect([file], ReadOptions("latin-1"))


def test_a_zero_byte_in_json_is_named_with_its_line(tmp_path: Path):
    file = tmp_path / "a.jsonl"
    file.write_bytes(b'{"id": 1}\n{"id": 2}\0\n')
    with pytest.raises(errors.SourceUnreadable, match=r"a\.jsonl, line 2: holds a zero byte, .*; remove it"):
        json_files.shape_of([file])
    file.write_bytes('{"id": 1}\n'.encode("utf-16-le"))
    with pytest.raises(errors.SourceUnreadable, match=r"line 1: .* as UTF-16 does; JSON files are UTF-8"):
        json_files.shape_of([file])


@pytest.mark.parametrize(
    ("lines", "key", "line"),
    [
        (["1,a", '"two\nlines",b', ",c"], ("id",), 5),
        (["1,a", "", '"",b'], ("id",), 4),
        (["1,a", ",b", ",", ","], ("ID", "v"), 4),
        (["1,a", ",b"], ("v",), None),
        (["1,a", ",b"], ("id", "derived"), None),
        (["1,a", ",b"], (), None),
    ],
)
@pytest.mark.parametrize(
    "known", [{}, {"id": TargetColumn("string"), "v": TargetColumn("string")}], ids=["new", "known"]
)
def test_the_first_row_without_a_record_key_is_named_with_its_line(
    file: Path, lines: list[str], key: tuple[str, ...], line: int | None, known: dict[str, TargetColumn]
):
    file.write_text("\n".join(["id,v", *lines]) + "\n")

    assert line_without_key(file, ReadOptions(known=known, key=key)) == line


def line_without_key(file: Path, reading: ReadOptions) -> int | None:
    try:
        csv_files.inspect([file], reading)
    except errors.InvalidRecordKey as refused:
        assert str(refused).startswith(f"{file}, line "), refused
        assert refused.problem is not None
        line: int = refused.problem.context["line"]
        return line
    return None


def test_a_truncated_gzip_is_refused(tmp_path: Path):
    file = tmp_path / "a.csv.gz"
    file.write_bytes(gzip.compress(b"id,v\n" + b"1,2\n" * 99_999)[:-20])

    with pytest.raises(errors.SourceUnreadable, match=r"a\.csv\.gz, after line .*may be truncated"):
        csv_files.inspect([file], ReadOptions())


def test_a_text_named_as_gzip_is_refused_as_such(tmp_path: Path):
    file = tmp_path / "a.csv.gz"
    file.write_text("id,v\n1,2\n")

    with pytest.raises(errors.SourceUnreadable, match=r"a\.csv\.gz is not compressed with gzip"):
        csv_files.inspect([file], ReadOptions())


ENCODINGS = ("latin-1", "cp1252", "utf-16", "utf-16-le", "utf-8", "UTF8", "utf-8-sig")


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_file_of_a_named_encoding_is_read(file: Path, encoding: str):
    file.write_bytes('id,naïve "x"\n1,é\n'.encode(encoding))
    inspection = csv_files.inspect([file], ReadOptions(encoding, {"id": TargetColumn("bigint")}))

    assert (inspection.rows, list(inspection.profiles)) == (1, ["id", 'naïve "x"'])


@pytest.mark.parametrize("name", ["klingon", "base64", "rot13", ""])
def test_an_unknown_encoding_is_refused(name: str):
    with pytest.raises(ValueError, match=f"there is no encoding called '{name}'"):
        text_files.check_encoding(name)


@pytest.mark.parametrize(
    ("value", "type_"),
    [
        ("007", "bigint"),
        ("1.5", "bigint"),
        ("300", "tinyint"),
        ("12345678901234567890.12", "double"),
        ("1e400", "double"),
        ("0.123456789", "float"),
        ("1.255", "decimal(10,2)"),
        ("1.5", "decimal(10,2)"),
        ("-0.00", "decimal(10,2)"),
        ("TRUE", "boolean"),
        ("123456789.5", "decimal(10,2)"),
        ("yes", "boolean"),
        ("31.01.2026", "date"),
        ("2026-01-31 10:00:00", "timestamp"),
        ("2026-01-31 10:00:00Z", "timestamp_ntz"),
        ("n/a", "int"),
        ('""', "int"),
    ],
)
def test_a_value_that_its_column_does_not_hold_is_refused_with_file_line_column_and_advice(
    file: Path, value: str, type_: str
):
    file.write_text(f'name,v\n"two\nlines",\n\nb,{value}\n')

    with pytest.raises(errors.SchemaMismatch) as refused:
        csv_files.inspect([file], ReadOptions(known={"v": TargetColumn(type_)}))
    assert refused.value.problem is not None
    context = refused.value.problem.context
    assert (context["file"], context["line"], context["column"]) == (str(file), 5, "v")


@given(st.lists(st.sampled_from(['"', '""', ",", "\n", "\r", "x"]), max_size=12), st.integers(1, 5))
def test_where_quotes_are_clear_arrow_and_the_strict_reader_of_python_read_the_same(
    pieces: list[str], size: int
):
    text = "a,b\n" + "".join(pieces)
    quotes = text_files.Quotes()
    for start in range(0, len(text), size):
        quotes.add(text[start : start + size].encode())
    assume(quotes.are_clear)

    rows = [row for row in csv.reader(io.StringIO(text, newline=""), strict=True) if row]
    assume(all(len(row) == 2 for row in rows))
    read = pyarrow.csv.read_csv(
        io.BytesIO(text.encode()),
        parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
        convert_options=pyarrow.csv.ConvertOptions(column_types={"a": pa.string(), "b": pa.string()}),
    )
    assert [list(row.values()) for row in read.to_pylist()] == rows[1:]
