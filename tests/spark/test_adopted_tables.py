"""Tables that Hudi wrote, adopted, and then written through Spark: hudi-rs and Spark read the same rows."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import chronolake
import chronolake_spark
from chronolake.hudi import adopting
from chronolake.hudi.definitions import Options
from tests.hudi.stored_tables import COLUMNS, rows_by_hudi_rs, rows_of_hudi, unpacked

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("name", ["cow8", "mor9"])
def test_upserts_and_deletes_find_the_records_that_hudi_wrote(
    spark: SparkSession, client: chronolake.Client, tmp_path: Path, name: str
) -> None:
    path = unpacked(name, tmp_path)
    adopted = adopting.adopt(client, Options(name=f"spark.{name}", base_path=str(path)))
    table = chronolake_spark.table(spark, adopted.table, client=client)
    stored = rows_of_hudi(name)
    findings = table.metastore.check().totals
    day, first = stored[0][0], stored[0][1]
    deleted = stored[-1]
    changed = [
        [day, first, "changed", 7.0, 99],
        [day, 500, "new", 8.0, 99],
        ["2026-03-03", 501, "new", 9.0, 99],
    ]
    table.upsert(spark.createDataFrame(changed, COLUMNS))
    table.delete(table.read().where(f"id = {deleted[1]}"))
    table.metastore.publish()
    expected = sorted([*stored[1:-1], *changed], key=lambda row: row[1])
    assert sorted(map(list, table.read().select(*COLUMNS).collect()), key=lambda row: row[1]) == expected
    assert rows_by_hudi_rs(path) == expected
    assert table.metastore.check().totals == findings
