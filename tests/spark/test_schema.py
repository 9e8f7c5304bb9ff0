"""Types of columns as Spark reads them from a table's definition."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, DataType, LongType, MapType, StringType, StructType, TimestampType

from chronolake_model.tables import Field
from chronolake_spark.driver import schema
from chronolake_spark.errors import SchemaMismatch


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("timestamp", "timestamp"),
        ("TIMESTAMP", "timestamp"),
        ("timestamp_ntz", "timestamp_ntz"),
        ("array<timestamp>", "array<timestamp>"),
        ("struct<timestamp:timestamp,other:timestamp_ntz>", "struct<timestamp:timestamp,other:timestamp_ntz>"),
        ("struct<timestamp :timestamp>", "struct<timestamp:timestamp>"),
        ("struct<`a timestamp b`:timestamp>", "struct<`a timestamp b`:timestamp>"),
    ],
)
@pytest.mark.parametrize("setting", ["TIMESTAMP_LTZ", "TIMESTAMP_NTZ"])
def test_a_type_means_the_same_whatever_the_session_takes_a_timestamp_for(
    spark: SparkSession, text: str, expected: str, setting: str
) -> None:
    spark.conf.set("spark.sql.timestampType", setting)
    try:
        schema.type_of.cache_clear()
        assert schema.type_of(text).simpleString() == expected.replace("`", "")
        assert schema.struct_of([Field("a", text)])["a"].dataType == schema.type_of(text)
    finally:
        spark.conf.unset("spark.sql.timestampType")
        schema.type_of.cache_clear()


@pytest.mark.parametrize(
    "type_",
    [
        StringType("UTF8_LCASE"),
        ArrayType(StringType("UNICODE_CI")),
        MapType(StringType("UTF8_LCASE"), LongType()),
    ],
)
def test_a_collation_is_refused_and_not_dropped(type_: DataType) -> None:
    with pytest.raises(SchemaMismatch, match=r"'name' has the type .*(UTF8_LCASE|UNICODE_CI).*cast it"):
        schema.text_of(type_, "name")


def test_timestamps_of_arrow_are_in_utc_also_where_pyspark_has_no_argument_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    struct = StructType().add("at", TimestampType())
    assert schema.arrow_of(struct).field("at").type == pa.timestamp("us", "UTC")
    # As PySpark 4.1.
    monkeypatch.setattr(schema, "_IN_UTC", {})
    monkeypatch.setattr(schema, "to_arrow_schema", lambda given: pa.schema([(given[0].name, pa.int64())]))
    assert schema.arrow_of(struct).names == ["at"]
