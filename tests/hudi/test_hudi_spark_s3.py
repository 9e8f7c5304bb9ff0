"""Hudi's Spark bundle and hudi-rs read tables in S3, the first one through Hadoop's S3A."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import chronolake
from chronolake.hudi import adopting, releasing
from chronolake.hudi.definitions import Options
from chronolake_model.vocabulary import TableType
from tests.fix_s3 import S3
from tests.fix_stores import Store
from tests.hudi import stored_tables
from tests.hudi.hudi_spark import HudiFailed, HudiSpark
from tests.hudi.keyed_table import (
    KeyedTable,
    assert_base_files_agree,
    assert_history_agrees,
    assert_readers_agree,
)
from tests.hudi.stored_tables import Rows, rows_by_hudi_rs, rows_of_hudi, unpacked
from tests.hudi.test_hudi_spark_adoption import LATER, NEW, UPDATED, written_with
from tests.hudi.written_tables import Blocks
from tests.published import Row

pytestmark = pytest.mark.hudi_spark
ODD_DAY = "a b+é"
ESCAPED_DAY = "a/b=c%d"


@pytest.fixture
def bucket(s3: S3, hudi_spark: HudiSpark) -> Store:
    """A bucket that Spark reaches."""
    store = Store(s3.base_path, s3.options)
    hudi_spark.reach(store)
    return store


@pytest.fixture
def client(shared_server_url: str, bucket: Store) -> Iterator[chronolake.Client]:
    """A client that reaches the bucket."""
    with chronolake.connect(shared_server_url, storage_options=bucket.options, retry_seconds=10) as client:
        yield client


def row(number: int, ts: int, day: str = "a", name: str = "x") -> Row:
    return {"id": number, "day": day, "ts": ts, "name": name}


@pytest.mark.parametrize("version", [8, 9])
def test_a_copy_on_write_table_in_s3_is_read(
    hudi_spark: HudiSpark, client: chronolake.Client, bucket: Store, version: int
) -> None:
    table = KeyedTable(client, bucket, TableType.COPY_ON_WRITE, ordering="bigint", version=version)
    assert assert_readers_agree(hudi_spark, table) == []
    table.upsert(row(1, 1), row(2, 1, "b"), row(3, 1, ODD_DAY), row(4, 1, ODD_DAY))
    table.upsert(row(1, 2, name="y"), row(3, 2, ODD_DAY, "y"))
    pending = table.table.begin()
    stats = table.upserted(pending.requested_time, [row(2, 5, "b", "pending")])
    pending.mark(*table.markers(stats))
    table.delete(row(4, 2, ODD_DAY))
    assert len(assert_readers_agree(hudi_spark, table)) == 3
    pending.rollback()
    table.overwrite("b", row(5, 1, "b"))
    table.cluster("a")
    assert len(assert_readers_agree(hudi_spark, table)) == 3
    assert_history_agrees(hudi_spark, table)

    table.upsert(row(6, 1, ESCAPED_DAY))
    savepoint = table.table.savepoint()
    before = assert_readers_agree(hudi_spark, table)
    table.overwrite("b")
    assert len(assert_readers_agree(hudi_spark, table)) == 3
    table.table.restore(savepoint.requested_time)
    assert assert_readers_agree(hudi_spark, table) == before
    table.table.release_savepoint(savepoint.requested_time)
    table.table.clean(retain_commits=1)
    assert assert_readers_agree(hudi_spark, table) == before


@pytest.mark.parametrize("blocks", Blocks)
def test_a_merge_on_read_table_in_s3_is_read(
    hudi_spark: HudiSpark, client: chronolake.Client, bucket: Store, blocks: Blocks
) -> None:
    table = KeyedTable(client, bucket, TableType.MERGE_ON_READ, ordering="bigint")
    table.upsert(*(row(number, 2) for number in range(4)), row(5, 2, ODD_DAY), row(7, 2, ODD_DAY))
    table.upsert(row(1, 3, name="newer"), row(5, 2, ODD_DAY, "same"), blocks=blocks)
    table.delete(row(2, 2), row(3, 1), row(7, 3, ODD_DAY))
    assert [seen[2] for seen in assert_readers_agree(hudi_spark, table)] == ["0", "1", "3", "5"]
    assert_base_files_agree(hudi_spark, table)
    assert_history_agrees(hudi_spark, table)

    requested = table.plan_compaction()
    assert requested is not None
    write = table.table.execute(requested)
    stats = table.compacted(write)
    table.upsert(
        row(0, 1, name="older"),
        row(3, 4, name="beside the compaction"),
        row(9, 1),
        row(8, 1, ESCAPED_DAY),
        blocks=blocks,
    )
    pending = assert_readers_agree(hudi_spark, table)
    assert_base_files_agree(hudi_spark, table)
    table.complete(write, stats)
    assert assert_readers_agree(hudi_spark, table) == pending
    assert_base_files_agree(hudi_spark, table)

    undone = table.table.execute(table.plan_compaction() or "")
    undone.mark(*table.markers(table.compacted(undone)))
    undone.rollback()
    table.upsert(row(7, 4, ODD_DAY, "back"), blocks=blocks)
    assert len(assert_readers_agree(hudi_spark, table)) == len(pending) + 1


@pytest.mark.parametrize("name", ["cow8", "mor8", "mor9", "pendingmor8", "cow6"])
def test_a_table_of_hudi_in_s3_is_adopted_and_given_back(
    hudi_spark: HudiSpark, client: chronolake.Client, namespace: str, bucket: Store, tmp_path: Path, name: str
) -> None:
    stored_tables.stored(unpacked(name, tmp_path), bucket)
    assert hudi_spark.rows(bucket.base_path)
    options = Options(
        name=f"{namespace}.{name}",
        base_path=bucket.base_path,
        roll_back_pending=True,
        properties={f"storage.{key}": (bucket.options or {})[key] for key in ("endpoint_override", "region")},
    )
    adopted = adopting.adopt(client, options, storage_options=bucket.options)
    table, expected = client.table(adopted.table), rows_of_hudi(name)
    assert rows_in(bucket, hudi_spark) == expected

    stored_tables.insert(table, bucket, [NEW])
    table.publish()
    assert rows_in(bucket, hudi_spark) == [*expected, NEW]
    with pytest.raises(HudiFailed, match="ThisTableIsWrittenThroughChronolake"):
        hudi_spark.write(bucket.base_path, [UPDATED], **written_with(table))

    releasing.release(client, table.name, storage_options=bucket.options)
    hudi_spark.write(bucket.base_path, [UPDATED, LATER], **written_with(table))
    assert rows_in(bucket, hudi_spark) == [*expected, UPDATED, LATER]


def rows_in(store: Store, spark: HudiSpark) -> Rows:
    """The rows that both readers see."""
    rows = spark.rows(store.base_path)
    assert rows_by_hudi_rs(store.base_path, store.hudi_options) == rows
    return rows
