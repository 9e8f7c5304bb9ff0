"""The sixty revisions of ``covid.py``: in a copy-on-write table, and in every other layout."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import chronolake
from chronolake_model.vocabulary import TableType
from tests.spark import covid
from tests.spark.covid import Layout

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    "layout",
    [
        Layout(),
        pytest.param(Layout(by_month=True), marks=pytest.mark.slow),
        pytest.param(Layout(TableType.MERGE_ON_READ), marks=pytest.mark.slow),
        pytest.param(Layout(TableType.MERGE_ON_READ, by_month=True), marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_each_state_and_each_change_is_that_of_its_revision(
    layout: Layout, spark: SparkSession, client: chronolake.Client, tmp_path: Path, repository: Path
) -> None:
    data = covid.folder(repository)

    covid.check(covid.load(layout, spark, client, data, tmp_path), data)
