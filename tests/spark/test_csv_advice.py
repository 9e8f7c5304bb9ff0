"""The advice about values, types and ordering fields of CSV files, without a JVM."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest

from chronolake.ingest import csv_advice, csv_files, request as ingest_request
from chronolake.ingest.csv_files import ReadOptions, TargetColumn
from chronolake.ingest.request import IngestRequest
from chronolake.writing import csv_types
from chronolake_spark import errors
from tests.spark.definitions import definition


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "a.csv"


WIDEN = "or widen it before with `chronolake schema change shop.orders --widen"
TAKEN = "--schema 'v {}'"


WIDENED = "--widen 'v:{}'"


CORRECT = "correct the value: the column cannot be widened to a type that holds it"


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
def test_for_a_refused_value_only_working_remedies_are_advised(value: str, type_: str, advice: set[str]):
    given = csv_advice.advice_for_value("v", type_, value, stated=False)

    options = set(re.findall("--schema '.*?'|--widen '.*?'", given))
    assert options | ({CORRECT} & {given}) == advice


@pytest.mark.parametrize(
    ("column", "stated", "advice"),
    [
        ("n", "bigint", "or widen it before with `chronolake schema change shop.orders --widen 'n:bigint'`"),
        (
            "price",
            "decimal(12,2)",
            "or widen it before with `chronolake schema change shop.orders --widen 'price:decimal(12,2)'`",
        ),
        ("n", "string", "because no change of the schema makes int a string"),
        ("n", "tinyint", "because no change of the schema makes int a tinyint"),
        ("price", "decimal(12,3)", "because no change of the schema makes decimal(10,2) a decimal(12,3)"),
        ("id", "bigint", "because columns of the record key, the partition and the ordering keep their types"),
    ],
)
def test_for_a_stated_type_only_changes_that_the_server_makes_are_advised(
    column: str, stated: str, advice: str
):
    table = definition({"id": "int", "n": "int", "price": "decimal(10,2)"})
    request = IngestRequest(table=table.name, source="in", key=())

    with pytest.raises(errors.TableMismatch) as refused:
        ingest_request.check_same(table, request, {column: stated})
    assert str(refused.value).endswith(f"leave it out of --schema, {advice}")


def test_a_key_column_is_not_advised_to_be_widened():
    given = csv_advice.advice_for_value("v", "int", "3000000000", stated=False, is_fixed=True)

    assert "--widen" not in given


@pytest.mark.parametrize(
    ("value", "type_", "advised"),
    [
        ("1.255", "decimal(10,2)", "DECIMAL(11,3)"),
        ("1.255", "decimal(38,2)", "DECIMAL(38,3)"),
        ("1" + "0" * 36, "decimal(38,2)", "DOUBLE"),
        ("1" * 37, "decimal(38,2)", "STRING"),
        ("1" * 40, "decimal(38,0)", "STRING"),
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
    assert not csv_types.accepts(pa.array([value]), type_, stated=True)
    assert csv_types.accepts(pa.array([value]), advised.lower(), stated=True)
    assert f"--schema 'v {advised}'" in csv_advice.advice_for_value("v", type_, value, stated=True)


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
    (["9.5", "1" + "0" * 37], "DOUBLE"),
    (["9.5", "1" * 38], None),
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
    profile = csv_files.inspect([file], ReadOptions()).profiles["v"]

    with pytest.raises(errors.SchemaMismatch, match=r"^the ordering field v would be a string") as refused:
        csv_advice.check_ordering("v", profile)
    proposed = re.findall("--schema 'v (.*?)'", str(refused.value))
    assert proposed == ([advised, "STRING"] if advised else ["STRING"])
    types = [ReadOptions(known={"v": TargetColumn(type_.lower(), stated=True)}) for type_ in proposed]
    assert [csv_files.inspect([file], reading).rows for reading in types] == [len(values)] * len(types)


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

    csv_advice.check_ordering("v", csv_files.inspect([file], ReadOptions()).profiles["v"])


def test_numbers_and_timestamps_that_become_strings_are_noted(file: Path):
    file.write_text(
        "price,zip,at,day,name,n\n"
        "9.5,007,2026-01-31T10:00:00Z,2026-01-31,a,1\n"
        "10.25,008,2026-01-31T10:00:00+01:00,2026-02-30,b,2\n"
    )

    assert csv_advice.notes(csv_files.inspect([file], ReadOptions()).profiles) == {
        "price": "numbers that no type keeps as written: --schema 'price DECIMAL(18,2)'",
        "zip": "numbers with leading zeros, which only a string keeps",
        "at": "dates or timestamps that no type keeps as written: --schema 'at TIMESTAMP'",
        "day": "dates or timestamps that no type keeps as written; state a type with --schema, and a refusal "
        "names the first value that does not fit",
    }
