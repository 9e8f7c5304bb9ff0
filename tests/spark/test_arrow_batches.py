"""The batches in which Spark hands rows over to Python."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import DataFrame, SparkSession, functions as sf

from chronolake_model.vocabulary import State
from chronolake_spark import SparkTable
from chronolake_spark.write import arrow_batches

pytestmark = pytest.mark.spark

NewTable = Callable[..., SparkTable]
SETTING = "spark.sql.execution.arrow.maxBytesPerBatch"


def test_a_write_with_a_large_row_is_done_again_with_limited_batches(
    spark: SparkSession, new_table: NewTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited: list[bool] = []
    save = arrow_batches.save

    def noted(rows: DataFrame, format_: str, options: dict[str, str], *, is_limited: bool) -> None:
        limited.append(is_limited)
        save(rows, format_, options, is_limited=is_limited)

    monkeypatch.setattr(arrow_batches, "save", noted)
    before = spark.conf.get(SETTING)
    small = spark.sql("SELECT id, cast(null as binary) b, 'x' s FROM range(3)")
    large = spark.sql(f"SELECT 2L id, cast('b' as binary) b, repeat('y', {arrow_batches.ROW_BYTES_MAX}) s")
    table = new_table(small, "id", buckets=1)
    table.insert(small)
    table.upsert(large)
    table.upsert(large.withColumn("s", large.s.substr(1, 5)))

    assert limited == [False, False, True, True]
    assert [row.s for row in table.read().orderBy("id").collect()] == ["x", "x", "yyyyy"]
    states = [instant.state for instant in table.metastore.instants()]
    assert states.count(State.ROLLED_BACK) == 1
    assert table.metastore.orphans().orphans == []
    assert (spark.conf.get(SETTING), spark.sparkContext.getLocalProperty(SETTING)) == (before, None)


def test_only_rows_whose_size_is_known_come_in_unlimited_batches(spark: SparkSession) -> None:
    numbers = spark.range(1)
    assert arrow_batches.can_be_unlimited(numbers)
    assert arrow_batches.guarded(numbers) is numbers
    assert not arrow_batches.can_be_unlimited(numbers.selectExpr("array(id) a"))
    computed = (
        numbers.select(sf.pandas_udf(lambda ids: ids, "long")("id")),
        numbers.select(sf.udf(lambda id: id, "long")("id")),
        numbers.mapInArrow(lambda batches: batches, "id long").where("id > 0").select("id"),
        numbers.groupBy("id").applyInPandas(lambda frame: frame, "id long"),
        numbers.observe("seen", sf.count("id")),
    )
    assert not any(map(arrow_batches.can_be_unlimited, computed))
    records = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = spark.conf.get(records)
    try:
        for unbounded in ("0", "1000000"):
            spark.conf.set(records, unbounded)
            assert not arrow_batches.can_be_unlimited(numbers)
    finally:
        spark.conf.set(records, before)
