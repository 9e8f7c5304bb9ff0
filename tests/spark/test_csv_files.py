"""CSV files: what their values are taken for, and what is refused with its place, without a JVM."""

from __future__ import annotations

import datetime
import gzip
import re
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st

from chronolake_spark import (
    csv_advice,
    csv_files,
    csv_profiles,
    csv_types,
    errors,
    json_files,
    missing_keys,
    text_files,
)
from chronolake_spark.csv_files import Column, Reading
from chronolake_spark.formats import Format


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "a.csv"


@pytest.mark.parametrize(
    ("values", "type_"),
    [
        (["1", "-20", "0"], "bigint"),
        (["9223372036854775807", "-9223372036854775808"], "bigint"),
        (["9223372036854775808"], "string"),
        (["007", "8"], "string"),
        (["-0"], "string"),
        (["+1"], "string"),
        ([" 1"], "string"),
        (["1_000"], "string"),
        (["1.50", "2.00", "-0.25"], "decimal(18,2)"),
        (["1.1", "1.10", "1.9"], "string"),
        (["1.5", "2"], "string"),
        (["2", "1.5"], "string"),
        (["0.0", "-0.0"], "string"),
        (["-0.01", "0.00", "-0.10"], "decimal(18,2)"),
        (["+1.5"], "string"),
        (["1."], "string"),
        (["0." + "1" * 37], "decimal(38,37)"),
        (["0." + "1" * 39], "string"),
        (["12345678901234567890.12", "1.00"], "decimal(38,2)"),
        (["1234567890123456789012345678901234567.89"], "string"),
        (["01.5"], "string"),
        ([".5"], "string"),
        (["1e5", "2"], "string"),
        (["NaN", "1.5"], "string"),
        (["true", "false"], "boolean"),
        (["true", "TRUE"], "string"),
        (["True"], "string"),
        (["true", "yes"], "string"),
        (["1", "true"], "string"),
        (["2026-01-31", "0001-01-01"], "date"),
        (["2026-02-30"], "string"),
        (["2026-1-31"], "string"),
        (["2026-01-31", "2026-01-31 10:00:00"], "string"),
        (["2026-01-31 10:00:00.100000", "2026-01-31 10:00:00.123456"], "timestamp_ntz"),
        (["2026-01-31 10:00:00.1", "2026-01-31 10:00:00.100"], "string"),
        (["2026-01-31 10:00:00", "2026-01-31 10:00:00.0"], "string"),
        (["2026-01-31T10:00:00"], "timestamp_ntz"),
        (["2026-01-31 10:00:00", "2026-01-31T10:00:00"], "string"),
        (["2026-01-31 10:00:00.1234567"], "string"),
        (["2026-01-31T10:00:00Z", "2026-01-31T11:00:00Z"], "timestamp"),
        (["2026-01-31T10:00:00+02:00", "2026-01-31T11:00:00+02:00"], "timestamp"),
        (["2026-01-31T10:00:00Z", "2026-01-31T12:00:00+02:00"], "string"),
        (["2026-01-31 24:00:00"], "string"),
        (["2026-01-31T10:00:00Z", "2026-01-31T10:00:00"], "string"),
        (['""', "1"], "string"),
        (["", ""], "string"),
    ],
    ids=" ".join,
)
def test_a_type_is_inferred_only_where_every_value_could_be_written_back(
    file: Path, values: list[str], type_: str
):
    file.write_text("id,v\n" + "".join(f"1,{value}\n" for value in values))

    assert csv_files.look([file], Reading()).profiles["v"].type == type_


def test_all_rows_of_all_files_decide_the_type(file: Path):
    file.write_text("id,v\n" + "1,2\n" * 1_200_000)  # More than one block of Arrow's reader.
    last = file.with_name("b.csv")
    last.write_text("v,id\n2,1\n007,1\n")
    looked = csv_files.look([file, last], Reading())

    assert (looked.rows, looked.profiles["v"].type, looked.profiles["id"].type) == (
        1_200_002,
        "string",
        "bigint",
    )


REFUSED = {
    "too many values": (b'id,v\n"1\n2",a\n\n3,4,5\n', "line 5: the row has 3 values, and the header 2 columns"),
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
    "semicolons": (b"id;v\n1;2,5\n", "one column, 'id;v': only commas .* and not semicolons; convert"),
    "tabs": (b"id\tv\n1\t2\n", "only commas separate values, and not tabs; convert the file"),
    "nothing": (b"", "is empty: a CSV file begins with a line of column names"),
    "a column without a name": (b"id,,v\n1,2,3\n", "no name for its column 2"),
    "a name twice": (b"id,v,V\n1,2,3\n", "several columns called V, v"),
}


@pytest.mark.parametrize(("content", "message"), REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("known", [{}, {"v": Column("string")}], ids=["a new table", "a table"])
def test_what_cannot_be_read_as_it_was_written_is_refused_with_its_place(
    file: Path, content: bytes, message: str, known: dict[str, Column]
):
    file.write_bytes(content)

    with pytest.raises(errors.SourceUnreadable, match=message) as refused:
        csv_files.look([file], Reading(known=known))
    assert str(file) in str(refused.value)


def test_a_zero_byte_of_a_file_in_utf_16_is_no_reason_to_name_that_encoding(file: Path):
    file.write_bytes("id,v\n1,\0\n".encode("utf-16"))

    with pytest.raises(
        errors.SourceUnreadable, match="line 2: holds a zero byte, which no text has; remove it"
    ):
        csv_files.look([file], Reading("utf-16"))


def test_a_file_in_utf_16_that_is_read_as_latin_1_is_told_from_one_with_a_zero_byte(file: Path):
    file.write_bytes("id,v\n1,2\n".encode("utf-16"))

    with pytest.raises(errors.SourceUnreadable, match=r"line 1: .* as UTF-16 does; .*utf-16"):
        csv_files.look([file], Reading("latin-1"))


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
@pytest.mark.parametrize("known", [{}, {"id": Column("string"), "v": Column("string")}], ids=["new", "known"])
def test_the_first_row_without_a_record_key_is_named_with_its_line(
    file: Path, lines: list[str], key: tuple[str, ...], line: int | None, known: dict[str, Column]
):
    file.write_text("\n".join(["id,v", *lines]) + "\n")

    assert line_without_key(file, Reading(known=known, key=key)) == line


def line_without_key(file: Path, reading: Reading) -> int | None:
    try:
        csv_files.look([file], reading)
    except errors.InvalidRecordKey as refused:
        assert str(refused).startswith(f"{file}, line "), refused
        assert refused.problem is not None
        line: int = refused.problem.context["line"]
        return line
    return None


MISSING = errors.InvalidRecordKey("the record key (id): ...")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{"id": 1}\n\n{"id": ""}\n{"n": 1}\n', "line 3"),
        ('{"ID": 1}\n{"n": 2}\n', "line 2"),
        ('\ufeff[{"id": 1},\n {"id": null}]', "record 2"),
    ],
)
def test_the_first_record_of_json_without_a_record_key_is_named(tmp_path: Path, text: str, place: str):
    whole, file = tmp_path / "a.json", tmp_path / "b.json"
    whole.write_text('{"id": 1}\n')
    file.write_text(text)

    located = missing_keys.located(MISSING, Format.JSON, [whole, file], ["id"])
    assert str(located) == f"{file}, {place}: {MISSING}"
    assert missing_keys.located(MISSING, Format.JSON, [whole], ["id"]) is MISSING


def test_the_first_row_of_parquet_without_a_record_key_is_named(tmp_path: Path):
    file = tmp_path / "a.parquet"
    columns = pa.table({"a": ["x", "", "", None], "b": [1, 2, None, None], "c": [None, 1, 1, 1]})
    pq.write_table(columns, file, row_group_size=2)

    located = missing_keys.located(MISSING, Format.PARQUET, [file], ["A", "b"])
    assert str(located) == f"{file}, row 3: {MISSING}"
    assert missing_keys.located(MISSING, Format.PARQUET, [file], ["a", "derived"]) is MISSING


def test_a_truncated_gzip_is_refused(tmp_path: Path):
    file = tmp_path / "a.csv.gz"
    file.write_bytes(gzip.compress(b"id,v\n" + b"1,2\n" * 99_999)[:-20])

    with pytest.raises(errors.SourceUnreadable, match=r"a\.csv\.gz, after line .*may be truncated"):
        csv_files.look([file], Reading())


ENCODINGS = ("latin-1", "cp1252", "utf-16", "utf-16-le", "utf-8", "UTF8", "utf-8-sig")


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_file_of_a_named_encoding_is_read(file: Path, encoding: str):
    file.write_bytes('id,naïve "x"\n1,é\n'.encode(encoding))
    looked = csv_files.look([file], Reading(encoding, {"id": Column("bigint")}))

    assert (looked.rows, list(looked.profiles)) == (1, ["id", 'naïve "x"'])


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
        csv_files.look([file], Reading(known={"v": Column(type_)}))
    assert refused.value.problem is not None
    found = refused.value.problem.context
    assert (found["file"], found["line"], found["column"]) == (str(file), 5, "v")


TAKEN = "--schema 'v {}'"
WIDENED = "--widen 'v:{}'"
CORRECT = "correct the value: no type that the column can be changed to takes it"


@pytest.mark.parametrize(
    ("value", "type_", "advice"),
    [
        ("007", "bigint", {TAKEN.format("bigint")}),
        ("TRUE", "boolean", {TAKEN.format("boolean")}),
        ("2026-01-31 10:00:00", "timestamp", {TAKEN.format("timestamp")}),
        ("12345678901234567890.12", "double", {TAKEN.format("double")}),
        ("300", "tinyint", {WIDENED.format("smallint")}),
        ("3000000000", "int", {WIDENED.format("bigint")}),
        ("0.123456789", "float", {WIDENED.format("double"), TAKEN.format("float")}),
        ("1.5", "decimal(38,2)", {TAKEN.format("decimal(38,2)")}),
        ("123456789.50", "decimal(10,2)", {WIDENED.format("decimal(11,2)")}),
        ("1.255", "decimal(38,2)", {CORRECT}),
        ("1" * 37 + ".00", "decimal(38,2)", {CORRECT}),
        ("9223372036854775808", "bigint", {CORRECT}),
        ("n/a", "int", {CORRECT}),
    ],
)
def test_for_a_value_that_a_table_does_not_take_only_what_helps_is_advised(
    value: str, type_: str, advice: set[str]
):
    given = csv_advice.for_value("v", type_, value, stated=False)

    options = set(re.findall("--schema '.*?'|--widen '.*?'", given))
    assert options | ({CORRECT} & {given}) == advice


@pytest.mark.parametrize(
    ("value", "type_", "advised"),
    [
        ("1.255", "decimal(10,2)", "DECIMAL(11,3)"),
        ("1.255", "decimal(38,2)", "DECIMAL(38,3)"),
        ("1" * 37, "decimal(38,2)", "DOUBLE"),
        ("1" * 40, "decimal(38,0)", "DOUBLE"),
        ("1" * 20, "bigint", "DECIMAL(38,0)"),
        ("3000000000", "int", "BIGINT"),
        ("1e5", "int", "DOUBLE"),
        ("1e400", "double", "STRING"),
        ("n/a", "decimal(38,2)", "STRING"),
        ("31.01.2026", "date", "STRING"),
        ("2026-01-31 10:00:00Z", "timestamp_ntz", "TIMESTAMP"),
    ],
)
def test_for_a_value_that_a_stated_type_does_not_take_one_is_advised_that_takes_it(
    value: str, type_: str, advised: str
):
    assert not csv_types.takes(pa.array([value]), type_, stated=True)
    assert csv_types.takes(pa.array([value]), advised.lower(), stated=True)
    assert f"--schema 'v {advised}'" in csv_advice.for_value("v", type_, value, stated=True)


MISORDERED = [
    (["9.5", "10"], "DECIMAL(18,1)"),
    (["10", "9.5"], "DECIMAL(18,1)"),
    (["+1", "10"], "BIGINT"),
    (["9", "010"], "BIGINT"),
    (["1e5", "2"], "DOUBLE"),
    ([".5", "10."], "DECIMAL(18,1)"),
    (["NaN", "10", "9"], "DOUBLE"),
    (["9223372036854775808", "5"], "DECIMAL(38,0)"),
    (["1234567890123456789012345678901234567.89", "5.00"], "DOUBLE"),
    (["9.5", "1" * 38], "DOUBLE"),
    (["1e400", "5"], None),
    ([" 9", "10"], None),
    (["9", "10", '""'], None),
    (["2026-01-31T10:00:00Z", "2026-01-31T12:00:00+02:00"], "TIMESTAMP"),
    (["2026-01-31T10:00:00Z", "2026-01-31T10:00:00.5Z"], "TIMESTAMP"),
    (["2026-01-31T10:00:00", "2026-01-31 10:00:00"], "TIMESTAMP_NTZ"),
    (["2026-01-31 10:00:00", "2026-01-31 10:00:00.1234567"], None),
    (["2026-01-31", "2026-01-31 10:00:00"], None),
]


@pytest.mark.parametrize(("values", "advised"), MISORDERED)
def test_an_ordering_field_whose_text_is_ordered_otherwise_than_its_values_is_refused(
    file: Path, values: list[str], advised: str | None
):
    file.write_text("id,v\n" + "".join(f"1,{value}\n" for value in values))
    profile = csv_files.look([file], Reading()).profiles["v"]

    with pytest.raises(errors.SchemaMismatch, match=r"^the ordering field v would be a string") as refused:
        csv_advice.check_ordering("v", profile)
    proposed = re.findall("--schema 'v (.*?)'", str(refused.value))
    assert proposed == [advised, "STRING"] if advised else ["STRING"]
    types = [Reading(known={"v": Column(type_.lower(), stated=True)}) for type_ in proposed]
    assert [csv_files.look([file], reading).rows for reading in types] == [len(values)] * len(types)


@pytest.mark.parametrize(
    "values",
    [
        ["9.5", "10.0"],
        ["007", "010"],
        ["20260131235959000123", "20260131235959000124"],
        ["2026-01-31T10:00:00.123456789Z", "2026-01-31T10:00:00.123456780Z"],
        ["2026-01-31 10:00", "2026-01-31 12:00"],
        ["1.10.2", "1.9.0"],
        ["9", "10", "n/a"],
        ['""', ""],
        [],
    ],
    ids=str,
)
def test_an_ordering_field_of_text_or_of_values_in_the_order_of_their_text_is_taken(
    file: Path, values: list[str]
):
    file.write_text("id,v\n" + "".join(f"1,{value}\n" for value in values))

    csv_advice.check_ordering("v", csv_files.look([file], Reading()).profiles["v"])


@given(
    st.lists(st.sampled_from(["9", "10", "9.5", "+1", "007", "1e5", "", "x", "2026-01-31"]), max_size=6),
    st.data(),
)
def test_what_a_column_resembles_does_not_depend_on_its_batches(values: list[str], data: st.DataObject):
    cut = data.draw(st.integers(0, len(values)))
    whole, first, second = (csv_profiles.Profile() for _ in range(3))
    whole.add(pa.array(values, pa.string()))
    first.add(pa.array(values[:cut], pa.string()))
    second.add(pa.array(values[cut:], pa.string()))
    first.merge(second)

    assert first.type == whole.type
    assert first.resemblance.kind == whole.resemblance.kind
    assert first.resemblance.is_ordered_as_text == whole.resemblance.is_ordered_as_text
    assert whole.resemblance.kind is csv_profiles.Kind.TEXT or first.resemblance.type == whole.resemblance.type


def test_numbers_and_timestamps_that_become_strings_are_noted(file: Path):
    file.write_text(
        "price,zip,at,day,name,n\n"
        "9.5,007,2026-01-31T10:00:00Z,2026-01-31,a,1\n"
        "10.25,008,2026-01-31T10:00:00+01:00,2026-02-30,b,2\n"
    )

    assert csv_advice.notes(csv_files.look([file], Reading()).profiles) == {
        "price": "numbers that no type keeps as written: --schema 'price DECIMAL(18,2)'",
        "zip": "numbers with leading zeros, which only a string keeps",
        "at": "dates or timestamps that no type keeps as written: --schema 'at TIMESTAMP'",
        "day": "dates or timestamps that no type keeps as written; state a type with --schema, and a refusal "
        "names the first value that does not fit",
    }


@pytest.mark.parametrize(
    ("value", "type_", "expected"),
    [
        ("007", "bigint", 7),
        ("+7", "int", 7),
        ("12345678901234567890.12", "double", 12345678901234567890.12),
        ("1.5", "decimal(10,2)", 1.5),
        (".5", "decimal(10,2)", 0.5),
        ("-5.", "double", -5),
        ("TRUE", "boolean", True),
    ],
)
def test_a_type_that_the_caller_states_takes_other_ways_to_write_a_value(
    value: str, type_: str, expected: float
):
    assert csv_types.convert(pa.array([value, None]), type_, stated=True).to_pylist() == [expected, None]
    with pytest.raises(csv_types.Unfit):
        csv_types.convert(pa.array([None, value]), type_, stated=False)


def test_a_number_that_is_too_large_for_a_double_is_never_infinity():
    assert csv_types.convert(pa.array(["inf"]), "double", stated=True).to_pylist() == [float("inf")]
    with pytest.raises(csv_types.Unfit):
        csv_types.convert(pa.array(["1", "1e400"]), "double", stated=True)


@pytest.mark.parametrize(
    ("value", "type_"),
    [
        ("1" * 38, "decimal(38,2)"),
        ("1" * 40, "decimal(38,0)"),
        ("1" * 40, "decimal(18,0)"),
        ("0." + "1" * 45, "decimal(38,38)"),
    ],
)
@pytest.mark.parametrize("stated", [True, False])
def test_a_number_of_too_many_digits_is_never_another_number(value: str, type_: str, stated: bool):
    with pytest.raises(csv_types.Unfit):
        csv_types.convert(pa.array([None, value]), type_, stated=stated)


def test_values_that_only_different_files_write_differently_make_a_string(file: Path):
    file.write_text("id\n\n1.1\n1.9\n")
    other, empty = file.with_name("b.csv"), file.with_name("c.csv")
    other.write_text("id\n1.10\n")
    empty.write_text("id\n")

    assert csv_files.look([empty, file, empty], Reading()).profiles["id"].type == "decimal(18,1)"
    assert csv_files.look([empty, file, other], Reading()).profiles["id"].type == "string"


def test_files_without_a_row_do_not_decide_types():
    with pytest.raises(errors.SchemaMismatch, match="hold no row, so the types of n cannot be inferred"):
        csv_advice.check_types_known(["n"], 0)
    csv_advice.check_types_known([], 0)
    csv_advice.check_types_known(["id"], 1)
    csv_advice.check_types_known(["id"], None)


WHOLE = st.sampled_from(["0", "-0", "1", "-1", "01", "+1", "true", "TRUE", "x"]) | st.from_regex(
    r"\A-?[0-9]{1,22}\Z"
)
FRACTION = st.sampled_from(["", ".0", ".1", ".10", ".00", ".01"]) | st.from_regex(r"\A\.[0-9]{1,20}\Z")
TIMES = st.builds(
    "2026-01-{}{}1{}:00:00{}{}".format,
    st.sampled_from(["30", "31", "32"]),
    st.sampled_from(" T"),
    st.integers(0, 2),
    st.sampled_from(["", ".1", ".10", ".100000"]),
    st.sampled_from(["", "Z", "+00:00", "+01:00"]),
)


@given(
    st.lists(st.builds(str.__add__, WHOLE, FRACTION))
    | FRACTION.flatmap(lambda fraction: st.lists(WHOLE.map(lambda whole: whole + fraction)))
    | st.lists(TIMES, max_size=3)
)
def test_values_written_differently_never_become_one_value_of_the_inferred_type(values: list[str]):
    array = pa.array(values, pa.string())
    profile = csv_profiles.Profile()
    profile.add(array)
    converted = csv_types.convert(array, profile.type, stated=False).to_pylist()

    assert len(set(converted)) == len(set(values))
    for value, stored in zip(values, converted, strict=True):
        if isinstance(stored, Decimal):
            assert format(stored, "f") == value
        elif not isinstance(stored, datetime.datetime):
            assert value == (str(stored).lower() if isinstance(stored, bool) else str(stored))
