"""The sixty revisions of ``covid.py``, each by one MERGE INTO: every state, also by time travel."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import chronolake
from chronolake_spark.catalogs import registering
from tests.spark import covid
from tests.spark.covid import COUNTS, KEY

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.skipif(not registering.JAR.exists(), reason="the Java part is not built: there is no JDK"),
]

REVISIONS = 60
STEP = 10
"""Each of these states is also read when it is the newest."""
_MERGE = (
    "MERGE INTO {table} t USING (SELECT *, substr(date, 1, 7) AS month FROM parquet.`{file}`) s "
    "ON t.date = s.date AND t.country = s.country "
    "WHEN MATCHED AND s.op = 'delete' THEN DELETE WHEN MATCHED THEN UPDATE SET * "
    "WHEN NOT MATCHED AND s.op = 'upsert' THEN INSERT *"
)


@pytest.mark.parametrize(
    ("type_", "options"),
    [
        ("copy_on_write", "TBLPROPERTIES (type = 'copy_on_write', buckets = '4', {key})"),
        ("merge_on_read", "TBLPROPERTIES (type = 'merge_on_read', buckets = '4', {key})"),
        (
            "merge_on_read",
            "PARTITIONED BY (month) TBLPROPERTIES (type = 'merge_on_read', index = 'record', "
            "ordering_field = 'revision', {key})",
        ),
        ("copy_on_write", "PARTITIONED BY (month) TBLPROPERTIES (index = 'simple', {key})"),
    ],
    ids=[
        "copy-on-write",
        "merge-on-read",
        "merge-on-read-by-month-record-ordered",
        "copy-on-write-by-month-simple",
    ],
)
def test_each_state_is_that_of_its_revision(
    lake: SparkSession, client: chronolake.Client, tmp_path: Path, repository: Path, type_: str, options: str
) -> None:
    data = covid.folder(repository)
    with (data / "totals.csv").open() as file:
        totals = list(csv.DictReader(file))
    name = f"spark.covid_{tmp_path.name}"
    lake.sql(
        f"CREATE TABLE lake.{name} (date STRING, country STRING, confirmed BIGINT, recovered BIGINT, "
        f"deaths BIGINT, revision BIGINT NOT NULL, revised_at TIMESTAMP, month STRING) USING chronolake "
        f"LOCATION '{tmp_path / 'table'}' " + options.format(key="record_key = 'date, country'")
    )
    times = []
    for revision in range(REVISIONS):
        lake.sql(_MERGE.format(table=f"lake.{name}", file=data / f"{revision:03d}.parquet"))
        times.append(client.table(name).snapshot().as_of)
        if revision % STEP == 0:
            assert _totals(lake, f"lake.{name}") == covid.expected_totals(totals, revision), revision

    assert client.table(name).definition.type == type_
    for revision, time in enumerate(times):
        past = _totals(lake, f"lake.{name} VERSION AS OF '{time}'")
        assert past == covid.expected_totals(totals, revision), revision
    assert covid.totals_of(client.table(name).to_arrow()) == covid.expected_totals(totals, REVISIONS - 1)


def _totals(lake: SparkSession, source: str) -> list[int]:
    """``covid.totals_of`` as SQL."""
    sums = ", ".join(f"sum({count})" for count in COUNTS)
    [row] = lake.sql(f"SELECT count(*), count(DISTINCT {', '.join(KEY)}), {sums} FROM {source}").collect()
    return list(row)
