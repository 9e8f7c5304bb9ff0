"""The sixty revisions of ``covid.py``: in a copy-on-write table, and in every other layout."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import chronolake
from chronolake_model.merge_modes import MergeMode
from chronolake_model.vocabulary import IndexType, TableType
from tests.examples import ALL
from tests.spark import covid
from tests.spark.covid import Layout

pytestmark = pytest.mark.spark


def layouts() -> Iterator[Layout]:
    """Every type, index and partitioning, and every merge mode once for each type."""
    for type_, index, by_month in itertools.product(TableType, IndexType, (False, True)):
        yield Layout(type_, index, by_month)
    for type_, mode in itertools.product(TableType, (MergeMode.COMMIT_TIME, MergeMode.PARTIAL_UPDATE)):
        yield Layout(type_, merge_mode=mode)


@pytest.mark.parametrize(
    "layout",
    [pytest.param(layout, marks=[] if layout == Layout() else pytest.mark.slow) for layout in layouts()],
    ids=str,
)
def test_each_state_and_each_change_is_that_of_its_revision(
    layout: Layout,
    spark: SparkSession,
    client: chronolake.Client,
    tmp_path: Path,
    repository: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Without it Polars warns that its own planner, another package, would be faster.
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")
    data = covid.folder(repository)

    step = 1 if ALL or layout != Layout() else 5
    covid.check(covid.load(layout, spark, client, data, tmp_path), client.url, data, tmp_path, step)
