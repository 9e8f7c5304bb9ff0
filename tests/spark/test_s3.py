"""A table in a bucket, through Spark, which itself knows no S3."""

from __future__ import annotations

from typing import Literal

import pytest
from pyspark.sql import SparkSession

import chronolake
import chronolake_spark
from chronolake_model.vocabulary import TableType
from chronolake_spark import SparkTable
from chronolake_spark.common.format_options import SECRETS_OPTION, secrets_to_json
from tests.fix_s3 import S3, Fault
from tests.spark.prices import IDS, orphans_of, priced, rows_of

pytestmark = pytest.mark.spark


def test_a_table_in_a_bucket_is_written_and_read(spark: SparkSession, shared_server_url: str, s3: S3):
    secrets = {name: s3.options[name] for name in ("access_key", "secret_key")}
    where = {f"storage.{name}": s3.options[name] for name in ("endpoint_override", "region")}
    frame = priced(spark, 1)
    with chronolake.connect(shared_server_url, storage_options=secrets) as client:
        client.create_namespace("bucket")
        chronolake_spark.create_table(
            client,
            "bucket.prices",
            frame.schema,
            base_path=s3.base_path,
            record_key_fields=["id"],
            properties=where,
        )
        table = chronolake_spark.table(spark, "bucket.prices", client=client)
        first = table.insert(frame)
        table.upsert(priced(spark, 2).where("id < 3"), delete_when="id = 2")
        changes = table.changes(first.completion_time).select("id", "price", "_change_type").collect()

        assert rows_of(table) == [(0, 2), (1, 2), *((id, 1) for id in IDS[3:])]
        assert sorted(map(tuple, changes)) == [(0, 2, "upsert"), (1, 2, "upsert"), (2, 1, "delete")]
        assert orphans_of(table) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("index", "type_"), [("simple", "copy_on_write"), ("bloom", "merge_on_read"), ("record", "merge_on_read")]
)
def test_a_table_with_an_index_in_a_bucket(
    spark: SparkSession, shared_server_url: str, s3: S3, index: Literal["simple", "bloom", "record"], type_: str
) -> None:
    secrets = {name: s3.options[name] for name in ("access_key", "secret_key")}
    where = {f"storage.{name}": s3.options[name] for name in ("endpoint_override", "region")}
    with chronolake.connect(shared_server_url, storage_options=secrets) as client:
        client.create_namespace("indexed_bucket", if_not_exists=True)
        chronolake_spark.create_table(
            client,
            f"indexed_bucket.{index}",
            priced(spark, 1).schema,
            base_path=s3.base_path,
            record_key_fields=["id"],
            index=index,
            type=TableType(type_),
            properties=where,
        )
        table = chronolake_spark.table(spark, f"indexed_bucket.{index}", client=client)
        table.insert(priced(spark, 1))
        table.upsert(priced(spark, 2).where("id < 3"), delete_when="id = 2")
        expected = {0: 2, 1: 2, **dict.fromkeys(IDS[3:], 1)}
        assert_same(table, expected)
        given = {"table": table.name, "url": client.url, SECRETS_OPTION: secrets_to_json(secrets)}
        inserted = spark.range(60, 70).selectExpr("id", "3 price")
        inserted.write.format("chronolake").mode("append").options(**given).save()
        expected |= dict.fromkeys(range(60, 70), 3)
        assert_same(table, expected)

        # Answers to puts are lost: of data files, and of the index and its manifest.
        s3.faults += [
            Fault("PUT", end, 500, "InternalError", times=1, executed=True) for end in (".parquet", ".json")
        ]
        table.upsert(priced(spark, 4).where("id between 5 and 6 or id = 63"))
        expected |= {5: 4, 6: 4, 63: 4}
        assert_same(table, expected)
        # The index cannot be written: the write is complete nevertheless.
        refused = Fault("PUT", ".json", 403, "AccessDenied")
        s3.faults.append(refused)
        table.upsert(priced(spark, 5).where("id = 7"))
        expected[7] = 5
        assert_same(table, expected)
        s3.faults.clear()
        table.update_index()
        assert_same(table, expected)
        if index == "record":
            table.update_index(rebuild=True)
        table.delete(spark.range(8, 9))
        del expected[8]
        assert_same(table, expected)
        assert orphans_of(table) == []


def assert_same(table: SparkTable, expected: dict[int, int]) -> None:
    """The table has these prices, for all readers."""
    assert rows_of(table) == sorted(expected.items())
    wanted = [0, 2, 5, 7, 8, 63, 69, 999]
    prices = {row.id: row.price for row in table.lookup(wanted).collect()}
    assert prices == {id: expected[id] for id in wanted if id in expected}
