"""Writers without Spark, and Spark, write into the same file groups of one table at the same time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import chronolake
import chronolake_spark
from chronolake import TableType
from tests.spark import hudi_reader

ROUNDS = 4
SHARED, OWN = 3, 30
"""The keys that all writers write, and those that a writer has alone."""
Rows = dict[str, list[int]]


def rows_of(writer: int, number: int) -> Rows:
    """The rows of a round of a writer: of shared keys the writer with the highest number wins a round."""
    ids = [*range(SHARED), *range(1_000 * writer, 1_000 * writer + OWN)]
    return {"id": ids, "amount": [10 * number + writer] * len(ids), "ts": [10 * number + writer] * len(ids)}


@pytest.mark.parametrize("type_", TableType)
def test_no_row_of_two_writers_and_a_spark_job_is_lost(
    spark: SparkSession, client: chronolake.Client, shared_server_url: str, tmp_path: Path, type_: TableType
) -> None:
    name, schema = f"spark.beside_{type_}", "id bigint, amount bigint, ts bigint NOT NULL"
    chronolake_spark.create_table(
        client,
        name,
        spark.createDataFrame([], schema).schema,
        base_path=str(tmp_path / "beside"),
        record_key_fields=["id"],
        ordering_field="ts",
        type=type_,
        buckets=2,
    )
    table = chronolake_spark.table(spark, name, client=client)

    def write(writer: int) -> None:
        with chronolake.connect(shared_server_url) as own_client:
            rows = own_client.table(name)
            for number in range(1, ROUNDS + 1):
                rows.upsert(rows_of(writer, number), on_conflict="retry")

    with ThreadPoolExecutor(2) as writers:
        running = [writers.submit(write, writer) for writer in (1, 2)]
        for number in range(1, ROUNDS + 1):
            values = zip(*rows_of(3, number).values(), strict=True)
            table.upsert(spark.createDataFrame(list(values), schema), on_conflict="retry")
        for future in running:
            future.result()

    expected = dict.fromkeys(range(SHARED), 10 * ROUNDS + 3)
    for writer in (1, 2, 3):
        expected |= dict.fromkeys(range(1_000 * writer, 1_000 * writer + OWN), 10 * ROUNDS + writer)
    stored = client.table(name)
    assert {row["id"]: row["amount"] for row in stored.to_arrow().to_pylist()} == expected
    assert {row.id: row.amount for row in table.read().collect()} == expected
    assert len(list(stored.instants(state=chronolake.State.COMPLETED))) >= 3 * ROUNDS
    assert list(stored.instants(pending=True)) == []
    hudi_reader.publish_and_compare(stored)
