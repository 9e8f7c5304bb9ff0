"""Names of columns in advice, without Spark."""

from __future__ import annotations

import shlex

import msgspec
import pytest

from chronolake.ingest import csv_advice
from chronolake.writing import column_names
from chronolake_model.tables import BucketIndex
from chronolake_model.vocabulary import IndexType
from chronolake_spark import errors
from tests.spark.definitions import definition


@pytest.mark.parametrize(
    ("name", "text"),
    [("price", "price"), ("the price", "`the price`"), ("it`s", "`it``s`"), ("größe", "`größe`"), ("1", "`1`")],
)
def test_a_name_is_quoted_where_sql_needs_it(name: str, text: str) -> None:
    assert column_names.plain(name) == text


@pytest.mark.parametrize("text", ["`it``s` BIGINT", "it's BIGINT", "$HOME", ""])
def test_an_argument_is_one_word_of_the_shell(text: str) -> None:
    assert shlex.split(f"ingest {column_names.argument(text)}") == ["ingest", text]


def test_the_advice_for_a_value_can_be_pasted() -> None:
    advice = csv_advice.advice_for_value("it's `a", "int", "3000000000", stated=False)

    command = advice.partition("`chronolake ")[2].removesuffix("`")
    assert shlex.split(command)[-2:] == ["--widen", "`it's ``a`:bigint"]


def test_meta_columns_of_hudi_are_told_from_columns_that_could_be_added() -> None:
    table = definition({"id": "int"})
    with pytest.raises(
        errors.SchemaMismatch, match=r"df\.drop\('_HOODIE_file_name', '_change_type'\)"
    ) as caught:
        column_names.refuse_others(table, ["id"], ["_HOODIE_file_name", "more", "_change_type"])
    assert "merge_schema" not in str(caught.value)
    with pytest.raises(errors.SchemaMismatch, match=r"lack the columns id .* the table does not: more"):
        column_names.refuse_others(table, ["id"], ["more"])


@pytest.mark.parametrize(
    ("missing", "unknown", "message"),
    [
        (["note"], [], r"lack the columns note \(add them, for example as null: .withColumn\('note', lit"),
        (["id", "note"], [], r"lack the columns id, note \(add them, id with the values of each row"),
        (["country"], [], r"add them, country with the values of each row"),
        (["price"], ["Prcie"], r"did you mean Prcie\? Rename it: .withColumnRenamed\('Prcie', 'price'\)"),
        (["price", "note"], ["prcie", "more"], r"'price'\); add them, for example .*: prcie, more \(drop them"),
    ],
)
def test_the_advice_for_a_missing_column_goes_by_its_role_and_by_similar_names(
    missing: list[str], unknown: list[str], message: str
) -> None:
    table = definition(dict.fromkeys(("id", "country", "price", "note"), "string"), partition=["country"])
    with pytest.raises(errors.SchemaMismatch, match=message) as caught:
        column_names.refuse_others(table, missing, unknown)
    assert ("lit(None)" in str(caught.value)) is ("note" in missing and "id" not in missing)
    assert ("drop them" in str(caught.value)) is ("more" in unknown)


def test_a_frame_for_a_delete_is_not_completed_with_nulls() -> None:
    table = definition(dict.fromkeys(("id", "country", "price"), "string"), partition=["country"])
    with pytest.raises(
        errors.SchemaMismatch, match=r"key and the partition columns, .* id, country$"
    ) as caught:
        column_names.refuse_missing_of_delete(table, ["country"], ["id", "price"])
    assert "null" not in str(caught.value).lower()
    assert "None" not in str(caught.value)
    with pytest.raises(errors.SchemaMismatch, match=r"lack the columns id; did you mean idd\? Rename it"):
        column_names.refuse_missing_of_delete(table, ["id"], ["idd", "PRICE"])

    table = msgspec.structs.replace(table, ordering_field="price", index=BucketIndex(IndexType.RECORD))
    with pytest.raises(errors.SchemaMismatch, match=r"record key, with .* id\. With the ordering field price"):
        column_names.refuse_missing_of_delete(table, ["id"], ["country"])
