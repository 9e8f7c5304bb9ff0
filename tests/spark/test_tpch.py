"""TPC-H's orders and lineitem with refreshes, compared with a plain Spark computation of the same data."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from pyspark.sql import DataFrame, SparkSession, functions as sf

from chronolake_model.vocabulary import TableType
from chronolake_spark import SparkTable

pytestmark = [pytest.mark.spark, pytest.mark.slow]

NewTable = Callable[..., SparkTable]
SCALE_FACTOR = os.environ.get("TPCH_SCALE_FACTOR", "1")
REFRESHES = 3


class Refreshed(NamedTuple):
    """A table of TPC-H: its key, that of its order, and a number that updates change."""

    name: str
    key: tuple[str, ...]
    order_key: str
    price: str


ORDERS = Refreshed("orders", ("o_orderkey",), "o_orderkey", "o_totalprice")
LINEITEM = Refreshed("lineitem", ("l_orderkey", "l_linenumber"), "l_orderkey", "l_extendedprice")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The two tables as Parquet files."""
    folder = tmp_path_factory.mktemp("tpch")
    program = Path(sys.executable).with_name("tpchgen-cli")
    options = ["-s", SCALE_FACTOR, "--tables=orders,lineitem", f"--output-dir={folder}"]
    subprocess.run([program, "parquet", *options], check=True)
    return folder


@pytest.mark.parametrize("type", list(TableType), ids=str)
@pytest.mark.parametrize("source", [ORDERS, LINEITEM], ids=lambda source: source.name)
def test_refreshes_leave_what_plain_spark_computes(
    spark: SparkSession, new_table: NewTable, data: Path, source: Refreshed, type: TableType
) -> None:
    """A refresh inserts new orders, changes the prices of some, and deletes others, as TPC-H's RF1 and RF2."""
    loaded = spark.read.parquet(str(data / f"{source.name}.parquet"))
    group = sf.pmod(sf.xxhash64(source.order_key), sf.lit(1_000))
    later = group < REFRESHES
    table = new_table(loaded, ",".join(source.key), type=type, buckets=8)
    table.bulk_insert(loaded.where(~later))
    expected = loaded.where(~later)
    for number in range(REFRESHES):
        new = loaded.where(group == number)
        changed = loaded.where(group.between(100 + 50 * number, 149 + 50 * number) & ~later)
        changed = changed.withColumn(
            source.price, (sf.col(source.price) + number + 1).cast(loaded.schema[source.price].dataType)
        )
        deleted = group == 900 + number
        table.upsert(new.unionByName(changed))
        table.delete(loaded.where(deleted).select(*source.key))
        others = expected.join(changed.select(*source.key), list(source.key), "left_anti")
        expected = others.unionByName(new).unionByName(changed).where(~deleted)

    assert fingerprint(table.read()) == fingerprint(expected.select(*table.read().columns))


def fingerprint(frame: DataFrame) -> tuple[int, int]:
    """The number of rows, and a sum of their hashes."""
    hashes = sf.xxhash64(*(sf.col(name) for name in frame.columns)).cast("decimal(38,0)")
    row = frame.agg(sf.count(sf.lit(1)), sf.sum(hashes)).head()
    assert row is not None
    return int(row[0]), int(row[1] or 0)
