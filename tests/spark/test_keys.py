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

from chronolake_model.partition_paths import Spelling, escape
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
