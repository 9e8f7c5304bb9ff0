"""SQL on tables in S3, with direct markers, and with ordering fields."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import chronolake
import chronolake_spark
from chronolake_model.vocabulary import State
from chronolake_spark import SparkTable
from chronolake_spark.catalogs import registering
from tests.fix_s3 import S3

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not registering.JAR.exists(), reason="the Java part is not built: there is no JDK"),
]

KINDS = pytest.mark.parametrize("type_", ["copy_on_write", "merge_on_read"])
_UPSERT = "ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"


def _rows(spark: SparkSession, source: str) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in spark.sql(f"SELECT * FROM {source}").collect())


@pytest.fixture
def bucket(spark: SparkSession, shared_server_url: str, s3: S3) -> Iterator[chronolake.Client]:
    """The catalog ``bucket``, with the secrets of a bucket, and its namespace ``sql``."""
    secrets = {name: s3.options[name] for name in ("access_key", "secret_key")}
    options = {"storage_secrets": json.dumps(secrets)}
    chronolake_spark.catalog(spark, "bucket", shared_server_url, options)
    with chronolake.connect(shared_server_url, storage_options=secrets) as client:
        client.create_namespace("sql", if_not_exists=True)
        yield client
    for name in ("", ".url", ".storage_secrets"):
        spark.conf.unset(f"spark.sql.catalog.bucket{name}")
    spark._jsparkSession.sessionState().catalogManager().reset()


def _in_s3() -> list[Any]:
    """Both types, kinds of markers and two indexes; ``make test`` runs the first."""
    kinds = itertools.product(
        ("copy_on_write", "merge_on_read"),
        ("'bucket', buckets = '2'", "'record'"),
        ("", "'markers.type' = 'direct',"),
    )
    return [
        pytest.param(*kind, marks=[pytest.mark.slow] if number else []) for number, kind in enumerate(kinds)
    ]


@pytest.mark.parametrize(("type_", "index", "markers"), _in_s3())
def test_statements_on_a_table_in_s3(
    spark: SparkSession, bucket: chronolake.Client, s3: S3, type_: str, index: str, markers: str
) -> None:
    name = f"sql.t{s3.bucket.partition('-')[2]}"
    where = ", ".join(f"'storage.{key}' = '{s3.options[key]}'" for key in ("endpoint_override", "region"))
    spark.sql(
        f"CREATE TABLE bucket.{name} (id BIGINT, v INT, day STRING) PARTITIONED BY (day) "
        f"LOCATION '{s3.base_path}' TBLPROPERTIES ({markers} type = '{type_}', index = {index}, "
        f"record_key = 'id', {where})"
    )
    spark.sql(f"INSERT INTO bucket.{name} VALUES (1, 1, 'a'), (2, 2, 'b'), (3, 3, 'b')")
    first = bucket.table(name).snapshot().as_of
    rows = "(SELECT * FROM VALUES (1, 10, 'a'), (2, 20, 'c'), (4, 40, 'd') AS v (id, v, day))"
    spark.sql(f"MERGE INTO bucket.{name} t USING {rows} s {_UPSERT}")
    second = bucket.table(name).snapshot().as_of
    spark.sql(f"DELETE FROM bucket.{name} WHERE v = 3")
    assert _rows(spark, f"bucket.{name}") == [(1, 10, "a"), (2, 20, "c"), (4, 40, "d")]
    with pytest.raises(PySparkException, match="not this"):
        spark.sql(f"UPDATE bucket.{name} SET v = IF(id = 4, raise_error('not this'), 5)")
    spark.sql(
        f"INSERT OVERWRITE bucket.{name} PARTITION (day = 'd') SELECT id + 1, v FROM bucket.{name} WHERE id > 2"
    )
    assert _rows(spark, f"bucket.{name}") == [(1, 10, "a"), (2, 20, "c"), (5, 40, "d")]
    spark.sql(f"INSERT OVERWRITE bucket.{name} VALUES (9, 9, 'z')")

    assert _rows(spark, f"bucket.{name}") == [(9, 9, "z")]
    assert _rows(spark, f"bucket.{name} VERSION AS OF '{first}'") == [(1, 1, "a"), (2, 2, "b"), (3, 3, "b")]
    past = _rows(spark, f"bucket.{name} VERSION AS OF '{second}'")
    assert past == [(1, 10, "a"), (2, 20, "c"), (3, 3, "b"), (4, 40, "d")]
    assert bucket.table(name).orphans().orphans == []
    assert bucket.table(name).check().findings == []


@pytest.mark.slow
@KINDS
def test_statements_with_direct_markers(
    lake: SparkSession, client: chronolake.Client, tmp_path: Path, type_: str
) -> None:
    name = f"spark.direct_{type_}"
    lake.sql(
        f"CREATE TABLE lake.{name} (id BIGINT, v INT) LOCATION '{tmp_path / 'table'}' TBLPROPERTIES "
        f"('markers.type' = 'direct', type = '{type_}', buckets = '2', record_key = 'id')"
    )
    lake.sql(f"INSERT INTO lake.{name} SELECT id, 0 FROM range(10)")
    lake.sql(f"MERGE INTO lake.{name} t USING (SELECT id, 1 AS v FROM range(5, 15)) s {_UPSERT}")
    with pytest.raises(PySparkException, match="not this"):
        lake.sql(f"UPDATE lake.{name} SET v = IF(id = 4, raise_error('not this'), 5)")
    lake.sql(f"DELETE FROM lake.{name} WHERE id % 2 = 0")
    assert _rows(lake, f"lake.{name}") == [(id, int(id >= 5)) for id in range(1, 15, 2)]
    table = client.table(name)
    assert table.orphans().orphans == []
    assert {instant.state for instant in table.instants(state=list(State))} <= {
        State.COMPLETED,
        State.ROLLED_BACK,
    }
    assert [path for path in (tmp_path / "table").rglob("*.marker.*")] == []


@KINDS
def test_an_update_with_a_smaller_ordering_value_changes_nothing(
    lake: SparkSession, new_table: Callable[..., SparkTable], type_: str
) -> None:
    columns = lake.createDataFrame([], "id long, ts int, v string, day string")
    table = new_table(columns, "id", type=type_, ordering_field="ts", partition_fields=["day"], buckets=1)
    name = f"lake.{table.name}"
    lake.sql(
        f"INSERT INTO {name} VALUES (1, 5, 'a', 'x'), (2, 5, 'b', 'x'), (3, 5, 'c', 'x'), (4, 5, 'd', 'x')"
    )
    rows = "(1, 4, 'old', 'x'), (2, 5, 'same', 'x'), (3, 6, 'new', 'x') AS v (id, ts, v, day)"
    lake.sql(f"MERGE INTO {name} t USING (SELECT * FROM VALUES {rows}) s {_UPSERT}")
    expected = [(1, 5, "a", "x"), (2, 5, "same", "x"), (3, 6, "new", "x"), (4, 5, "d", "x")]
    assert _rows(lake, name) == expected

    # A delete has no value, and a record that moves is new in its partition.
    lake.sql(f"UPDATE {name} SET ts = 1, v = 'older' WHERE id = 4")
    lake.sql(f"DELETE FROM {name} WHERE id = 3")
    lake.sql(f"UPDATE {name} SET day = 'y', ts = 1 WHERE id = 1")
    assert _rows(lake, name) == [(1, 1, "a", "y"), (2, 5, "same", "x"), (4, 5, "d", "x")]
    lake.sql(f"INSERT INTO {name} VALUES (3, 6, 'again', 'x')")
    assert _rows(lake, name) == [(1, 1, "a", "y"), (2, 5, "same", "x"), (3, 6, "again", "x"), (4, 5, "d", "x")]


@pytest.mark.parametrize("index", ["bucket", pytest.param("simple", marks=pytest.mark.slow)])
def test_a_record_that_moves_where_a_later_delete_would_hide_it_is_refused(
    lake: SparkSession, new_table: Callable[..., SparkTable], index: str
) -> None:
    columns = lake.createDataFrame([], "id long, day string, ts int")
    where = {"buckets": 1} if index == "bucket" else {"index": index}
    table = new_table(
        columns, "id", type="merge_on_read", ordering_field="ts", partition_fields=["day"], **where
    )
    name = f"lake.{table.name}"
    lake.sql(f"INSERT INTO {name} VALUES (1, 'a', 10), (2, 'a', 10)")
    lake.sql(f"UPDATE {name} SET day = 'b'")
    with pytest.raises(
        PySparkException, match=r"moves the record '1' to a place where .* larger ordering value"
    ):
        lake.sql(f"UPDATE {name} SET day = 'a', ts = 5 WHERE id = 1")
    assert _rows(lake, name) == [(1, "b", 10), (2, "b", 10)]

    lake.sql(f"UPDATE {name} SET day = 'a' WHERE id = 2")
    lake.sql(f"UPDATE {name} SET day = 'a', ts = 11 WHERE id = 1")
    assert _rows(lake, name) == [(1, "a", 11), (2, "a", 10)]
    lake.sql(f"UPDATE {name} SET day = 'b', ts = 12 WHERE id = 1")
    table.compact()
    lake.sql(f"UPDATE {name} SET day = 'a', ts = 1 WHERE id = 1")
    assert _rows(lake, name) == [(1, "a", 1), (2, "a", 10)]
