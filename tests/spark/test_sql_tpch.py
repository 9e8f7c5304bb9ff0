"""TPC-H's refreshes by SQL: orders are inserted and deleted; DuckDB computes the same from the files."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.sql import SparkSession

from chronolake_spark import SparkTable
from chronolake_spark.catalogs import registering

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.skipif(not registering.JAR.exists(), reason="the Java part is not built: there is no JDK"),
]

SCALE_FACTOR = "0.02"
REFRESHES = 3
_KEYS = {"orders": "o_orderkey", "lineitem": "l_orderkey"}
_QUERIES = {
    "rows": "SELECT (SELECT count(*) FROM orders), (SELECT count(*) FROM lineitem), "
    "(SELECT count(DISTINCT o_orderkey) FROM orders)",
    "Q1": "SELECT l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice), "
    "sum(l_extendedprice * (1 - l_discount)), count(*) FROM lineitem "
    "WHERE l_shipdate <= date '1998-09-02' GROUP BY l_returnflag, l_linestatus",
    "Q3": "SELECT l_orderkey, sum(l_extendedprice * (1 - l_discount)) AS revenue, o_orderdate FROM orders "
    "JOIN lineitem ON l_orderkey = o_orderkey WHERE o_orderdate < date '1995-03-15' "
    "AND l_shipdate > date '1995-03-15' GROUP BY l_orderkey, o_orderdate "
    "ORDER BY revenue DESC, l_orderkey LIMIT 10",
    "Q4": "SELECT o_orderpriority, count(*) FROM orders WHERE o_orderdate >= date '1993-07-01' "
    "AND o_orderdate < date '1993-10-01' AND EXISTS (SELECT * FROM lineitem WHERE l_orderkey = o_orderkey "
    "AND l_commitdate < l_receiptdate) GROUP BY o_orderpriority",
    "Q6": "SELECT sum(l_extendedprice * l_discount) FROM lineitem WHERE l_shipdate >= date '1994-01-01' "
    "AND l_shipdate < date '1995-01-01' AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24",
    "Q12": "SELECT l_shipmode, sum(CASE WHEN o_orderpriority IN ('1-URGENT', '2-HIGH') THEN 1 ELSE 0 END) "
    "FROM orders JOIN lineitem ON o_orderkey = l_orderkey WHERE l_commitdate < l_receiptdate "
    "AND l_shipdate < l_commitdate GROUP BY l_shipmode",
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The two tables as Parquet files."""
    folder = tmp_path_factory.mktemp("tpch")
    program = Path(sys.executable).with_name("tpchgen-cli")
    options = ["-s", SCALE_FACTOR, "--tables=orders,lineitem", f"--output-dir={folder}"]
    subprocess.run([program, "parquet", *options], check=True)
    return folder


@pytest.mark.parametrize("type_", ["copy_on_write", "merge_on_read"])
@pytest.mark.parametrize("index", ["bucket", "record"])
def test_queries_after_refreshes_are_those_of_duckdb(
    lake: SparkSession, new_table: Callable[..., SparkTable], data: Path, type_: str, index: str
) -> None:
    kind: dict[str, Any] = {"buckets": 4} if index == "bucket" else {"index": index}
    oracle = duckdb.connect()
    for name, key in _KEYS.items():
        files = lake.read.parquet(str(data / f"{name}.parquet"))
        files.createOrReplaceTempView(f"loaded_{name}")
        record_key = key if name == "orders" else f"{key},l_linenumber"
        table = new_table(files, record_key, type=type_, **kind)
        lake.sql(f"INSERT INTO lake.{table.name} SELECT * FROM loaded_{name} WHERE {key} % 100 >= {REFRESHES}")
        lake.sql(f"CREATE OR REPLACE TEMPORARY VIEW {name} AS SELECT * FROM lake.{table.name}")
        oracle.sql(f"CREATE VIEW loaded_{name} AS SELECT * FROM '{data / f'{name}.parquet'}'")
        oracle.sql(f"CREATE TABLE {name} AS SELECT * FROM loaded_{name} WHERE {key} % 100 >= {REFRESHES}")
        for number in range(REFRESHES):
            new = f"SELECT * FROM loaded_{name} WHERE {key} % 100 = {number}"
            old = f"{key} IN (SELECT {key} FROM loaded_{name} WHERE {key} % 100 = {90 + number})"
            lake.sql(f"INSERT INTO lake.{table.name} {new}")
            lake.sql(f"DELETE FROM lake.{table.name} WHERE {old}")
            oracle.sql(f"INSERT INTO {name} {new}")
            oracle.sql(f"DELETE FROM {name} WHERE {old}")

    for name, query in _QUERIES.items():
        expected = oracle.sql(query).fetchall()
        assert expected != [], name
        assert sorted(map(tuple, lake.sql(query).collect())) == sorted(expected), name
