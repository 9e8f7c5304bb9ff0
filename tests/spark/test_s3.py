"""A table in a bucket, through Spark, which itself knows no S3."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

import chronolake
import chronolake_spark
from tests.fix_s3 import S3
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
