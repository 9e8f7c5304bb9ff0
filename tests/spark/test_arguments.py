"""Arguments that are easy to get wrong, without a server: one name in place of a list, and words."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import chronolake
from chronolake.cli import main as command_line
from chronolake.ingest import source_files
from chronolake.writing import choices, counts
from chronolake.writing.choices import Replaces
from chronolake_model.markers import MarkersType
from chronolake_model.names import listed
from chronolake_model.tables import BucketIndex, index_of
from chronolake_model.times import digits_of
from chronolake_model.vocabulary import IndexType, Operation
from chronolake_spark import create_table, errors
from chronolake_spark.common import format_options
from chronolake_spark.tables import SparkTable
from chronolake_spark.write import (
    casts,
    conditional_deletes,
    instant_options,
    merges,
    partition_deletes,
    writes,
)


@pytest.mark.parametrize(
    ("text", "digits"),
    [
        ("20261123080000123", "20261123080000123"),
        ("2026-11-23", "20261123000000000"),
        ("2026-11-23 08:31", "20261123083100000"),
        ("2026-11-23T08:00:00Z", "20261123080000000"),
        ("2026-11-23T08:00:00+02:00", "20261123060000000"),
        ("latest", "latest"),
    ],
)
def test_a_time_has_the_same_forms_in_the_api_and_in_the_options(text: str, digits: str) -> None:
    options = format_options.parse({"table": "shop.orders", "as_of": text})

    assert digits_of(text) == options.as_of == digits


@pytest.mark.parametrize("text", ["yesterday", "2026-13-01", "20261123", ""])
def test_a_text_that_is_no_time_is_refused_with_the_forms_of_one(text: str) -> None:
    with pytest.raises(ValueError, match="yyyyMMddHHmmssSSS"):
        digits_of(text)


def test_a_datetime_and_its_text_are_the_same_time() -> None:
    assert digits_of(datetime(2026, 11, 23, 8, tzinfo=UTC)) == digits_of("2026-11-23 08:00")


def test_a_text_is_one_name() -> None:
    assert listed("price") == ["price"]
    assert listed(("id", "day")) == ["id", "day"]


def test_a_wrong_word_is_refused_with_the_nearest() -> None:
    with pytest.raises(
        ValueError, match=r"partitions is one of dynamic, all, not 'dynamc'; did you mean 'dynamic'\?"
    ):
        choices.of("partitions", "dynamc", Replaces)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"name": "orders"}, "named namespace.table"),
        ({"index": "blom"}, "did you mean 'bloom'"),
        ({"type": "merge-on-read"}, "did you mean 'merge_on_read'"),
        ({"index": "simple", "buckets": 8}, "for the index bucket"),
    ],
)
def test_a_wrong_definition_is_refused_before_anything_is_sent(given: dict[str, Any], message: str) -> None:
    from pyspark.sql.types import StructType  # noqa: PLC0415

    definition = {"name": "shop.orders", "base_path": "/tmp/x", "record_key_fields": "id"} | given
    with chronolake.connect("http://127.0.0.1:9") as client, pytest.raises(ValueError, match=message):
        create_table(client, struct=StructType(), **definition)


def test_ingest_takes_no_buckets_for_an_index_without_them(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--table", "a.b", "--source", "x.csv", "--key", "id", "--index", "simple", "--buckets", "8"]

    assert command_line.run(["ingest", *arguments]) == 2
    assert "for the index bucket" in capsys.readouterr().err


def test_an_index_without_buckets_has_the_default_number_of_the_model() -> None:
    assert index_of(IndexType.BLOOM, None) == BucketIndex(IndexType.BLOOM)
    assert index_of(IndexType.BUCKET, 8) == BucketIndex(IndexType.BUCKET, 8)


def test_partitions_are_given_one_by_one_or_as_a_list() -> None:
    assert partition_deletes.listed([{"p": "a"}, [{"p": "b"}]]) == [{"p": "a"}, {"p": "b"}]


@pytest.mark.parametrize("nothing", [[], [[]], ["a"], [["a"]]])
def test_a_partition_without_values_is_refused(nothing: list[Any]) -> None:
    with pytest.raises(ValueError, match="by its values"):
        partition_deletes.listed(nothing)


def test_keys_to_delete_come_as_a_frame() -> None:
    with pytest.raises(TypeError, match="createDataFrame"):
        conditional_deletes.keys_where(None, None, [1, 2])  # type: ignore[arg-type]


def test_rows_to_write_come_as_a_frame() -> None:
    table = SparkTable.__new__(SparkTable)
    rows: Any = [(1, "x")]

    with pytest.raises(TypeError, match=r"a DataFrame, as spark\.createDataFrame.*, not list"):
        table.upsert(rows)
    with pytest.raises(TypeError, match="not list"):
        merges.rows(None, None, rows, None, [])  # type: ignore[arg-type]


def test_extra_metadata_is_texts() -> None:
    counts.check_metadata({"job": "1"})
    with pytest.raises(TypeError, match=r"not 1 for 'job': use str\(1\)"):
        counts.check_metadata({"job": 1})  # type: ignore[dict-item]


def test_new_nested_fields_are_refused_with_the_change_of_the_schema() -> None:
    from pyspark.sql.types import ArrayType, IntegerType, StringType, StructType  # noqa: PLC0415

    own_part = StructType().add("city", StringType())
    given_part = StructType().add("city", StringType()).add("zip", IntegerType())
    own = StructType().add("at", own_part).add("all", ArrayType(own_part))
    given = StructType().add("at", given_part).add("all", ArrayType(given_part)).add("n", own_part)

    with pytest.raises(errors.SchemaMismatch) as refused:
        casts.cast(None, "home", own, given)

    additions = (
        "AddColumn('home.at.zip', 'int'), AddColumn('home.all.element.zip', 'int'), AddColumn('home.n', "
    )
    assert f"change_schema([{additions}'struct<city:string>')])" in str(refused.value)


def test_a_file_with_tabs_is_refused_with_the_way_to_convert_it(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("id\tname\n")

    with pytest.raises(errors.SourceUnreadable, match=r"docs/ingest\.md#other-separators"):
        source_files.find(str(tmp_path / "a.tsv"))


def test_a_record_index_is_rebuilt_only_where_there_is_one() -> None:
    definition = SimpleNamespace(index=BucketIndex())
    metastore: Any = SimpleNamespace(name="shop.orders", definition=definition, reload=lambda: metastore)
    table = SparkTable.__new__(SparkTable)
    table._table = metastore

    table.update_index()
    with pytest.raises(errors.TableMismatch, match="only a table with the index 'record'"):
        table.update_index(rebuild=True)


def test_an_unknown_operation_is_not_explained() -> None:
    table = SparkTable.__new__(SparkTable)

    with pytest.raises(ValueError, match="did you mean 'upsert'"):
        table.explain("upsrt")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="view is one of"):
        table.read(view="ro")  # type: ignore[arg-type]


def test_an_option_that_no_write_has_is_refused_with_those_that_it_has() -> None:
    misspelled: Any = {"on_conflit": "retry"}

    with pytest.raises(TypeError, match="no option on_conflit; it has extra_metadata, markers, on_conflict"):
        writes.WriteSettings(operation=Operation.UPSERT, options=misspelled)


def test_a_delete_of_partitions_writes_no_files_so_it_has_no_markers() -> None:
    options: Any = {"markers": MarkersType.DIRECT}

    with pytest.raises(TypeError, match="no option markers"):
        instant_options.check(options, instant_options.CommitOptions)
