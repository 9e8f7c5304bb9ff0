"""Record keys, partition paths and buckets, as Spark computes them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession, functions as sf

from chronolake_model.partition_paths import Spelling
from chronolake_model.record_keys import escape
from chronolake_model.tables import Field
from chronolake_spark import errors
from chronolake_spark.write import keys
from docs import vectors

SPECIAL = "\"#%'*/:=?\\{[]^"
TEXTS = [
    *SPECIAL,
    *map(chr, range(1, 32)),
    "\x7f",
    "a/b=c%d",
    "100%",
    "%2F",
    "Korea, South",
    "Côte d'Ivoire",
    "東京/🗼",
    " spaced ",
    "..",
]
A, B = Field("a", "string"), Field("b", "string")


def evaluate(
    spark: SparkSession, column: Column, fields: list[Field], *rows: tuple[object, ...]
) -> list[object]:
    """The column's value in each row."""
    struct = ", ".join(f"{field.name} {field.type}" for field in fields)
    return [row[0] for row in spark.createDataFrame(list(rows), struct).select(column).collect()]


@given(st.text())
def test_an_escaped_value_is_one_name_and_reads_back(value: str):
    escaped = escape(value)

    assert not set(escaped) & (set(SPECIAL) - {"%"})
    # Every byte that unquote reads as UTF-8 was ASCII, since only ASCII is escaped.
    assert unquote(escaped) == value


@pytest.mark.spark
def test_spark_escapes_as_python_does(spark: SparkSession):
    paths = evaluate(spark, keys.partition_path([A]), [A], *((text,) for text in TEXTS))

    assert paths == [f"a={escape(text)}" for text in TEXTS]


VECTORS = json.loads(vectors.FILE.read_text(encoding="utf-8"))
KEYS = [vector for vector in VECTORS["keys"] if vector["key"] is not None]
FIELDS = sorted({json.dumps(vector["fields"]) for vector in KEYS})


@pytest.fixture(
    params=["true", pytest.param("false", marks=pytest.mark.slow)], ids=["ANSI mode", "no ANSI mode"]
)
def any_mode(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[SparkSession]:
    """Sessions in Tokyo, with and without the mode that changes how decimals are cast."""
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", request.param)
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    yield spark
    spark.conf.set("spark.sql.ansi.enabled", before)
    spark.conf.set("spark.sql.session.timeZone", "UTC")


@pytest.mark.spark
def test_spark_computes_the_keys_of_the_test_vectors(any_mode: SparkSession):
    for text in FIELDS:
        fields = [Field(name, type_.upper()) for name, type_ in json.loads(text)]
        wanted = [
            vector for vector in KEYS if json.dumps(vector["fields"]) == text and vector["key"] is not None
        ]
        frame = frame_of(any_mode, fields, [vector["values"] for vector in wanted])

        hashes = sf.xxhash64(*(keys._text(field) for field in fields)).cast("string")
        buckets = [keys.bucket(fields, count) for count in vectors.BUCKETS]
        rows = frame.select(keys.record_key(fields), hashes, *buckets).collect()

        assert [tuple(row) for row in rows] == [
            (vector["key"], vector["xxhash64"], *vector["buckets"].values()) for vector in wanted
        ]


@pytest.mark.spark
def test_spark_refuses_the_keys_that_the_file_has_no_text_for(spark: SparkSession):
    for vector in VECTORS["keys"]:
        if vector["key"] is None:
            fields = [Field(*field) for field in vector["fields"]]
            frame = frame_of(spark, fields, [vector["values"]])
            with pytest.raises(PySparkException) as caught:
                frame.select(keys.record_key(fields)).collect()
            assert isinstance(errors.decoded(str(caught.value)), errors.InvalidRecordKey)


@pytest.mark.spark
def test_spark_spells_every_partition_path_of_the_file(any_mode: SparkSession):
    for vector in VECTORS["partition_paths"]:
        fields = [Field(*field) for field in vector["fields"]]
        frame = frame_of(any_mode, fields or [A], [vector["values"] or ["x"]])

        path = keys.partition_path(fields, Spelling.of(vector.get("properties", {})))
        if vector["path"] is not None:
            assert frame.select(path).first()[0] == vector["path"]
            continue
        with pytest.raises(PySparkException) as caught:
            frame.select(path).collect()
        assert isinstance(errors.decoded(str(caught.value)), errors.InvalidPartitionValue)


def frame_of(spark: SparkSession, fields: list[Field], rows: list[list[Any]]) -> DataFrame:
    """The values of test vectors as a frame; they come as Arrow, which knows dates that Python does not."""
    columns = [
        vectors.column([row[index] for row in rows], field.type.lower()) for index, field in enumerate(fields)
    ]
    return spark.createDataFrame(pa.table(columns, names=[field.name for field in fields]))


@pytest.mark.spark
def test_partition_paths_are_hive_style(spark: SparkSession):
    rows = [("x", "y"), (None, "y"), ("x", "")]

    assert evaluate(spark, keys.partition_path([A, B]), [A, B], *rows) == [
        "a=x/b=y",
        "a=__HIVE_DEFAULT_PARTITION__/b=y",
        "a=x/b=__HIVE_DEFAULT_PARTITION__",
    ]
    assert evaluate(spark, keys.partition_path([]), [A], ("x",)) == [""]


@pytest.mark.spark
def test_the_key_of_one_field_is_its_value(spark: SparkSession):
    number = Field("n", "bigint")

    assert evaluate(spark, keys.record_key([A]), [A], ("x",), ("a,b:1",)) == ["x", "a,b:1"]
    assert evaluate(spark, keys.record_key([number]), [number], (7,)) == ["7"]


@pytest.mark.spark
def test_the_key_of_several_fields_names_them(spark: SparkSession):
    rows = [("1", "2"), (None, "2"), ("", "2"), ("Korea, South", "2")]

    assert evaluate(spark, keys.record_key([A, B]), [A, B], *rows) == [
        "a:1,b:2",
        "a:__null__,b:2",
        "a:__empty__,b:2",
        "a:Korea, South,b:2",
    ]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("fields", "row"),
    [
        ([A], (None,)),
        ([A], ("",)),
        ([A, B], (None, "")),
        ([A, B], ("__null__", "x")),
        ([A, B], ("1,b:2", "3")),
    ],
    ids=["null", "empty", "all missing", "placeholder", "ambiguous"],
)
def test_a_missing_or_ambiguous_key_is_refused(
    spark: SparkSession, fields: list[Field], row: tuple[object, ...]
):
    with pytest.raises(PySparkException) as caught:
        evaluate(spark, keys.record_key(fields), fields, row)

    assert isinstance(errors.decoded(str(caught.value)), errors.InvalidRecordKey)


@pytest.mark.spark
def test_keys_and_partitions_do_not_depend_on_the_time_zone(spark: SparkSession):
    moment = Field("moment", "timestamp")
    frame = spark.sql("select timestamp_micros(1) as moment")
    column = keys.record_key([moment])
    before = frame.select(column).first()
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        assert frame.select(column).first() == before
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert before[0] == "1"


@pytest.mark.spark
def test_a_bucket_is_sparks_hash_of_the_key_fields(spark: SparkSession):
    number = Field("n", "bigint")
    frame = spark.range(100).withColumnRenamed("id", "n")
    expected = frame.selectExpr("cast(pmod(xxhash64(cast(n as string)), 8) as int)").collect()

    assert frame.select(keys.bucket([number], 8)).collect() == expected
    assert {row[0] for row in expected} == set(range(8))
