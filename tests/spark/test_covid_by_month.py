"""The first revisions of ``covid.py`` in a table partitioned by month. The slow tests load all of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import chronolake
from tests.spark import covid
from tests.spark.covid import Layout

pytestmark = pytest.mark.spark


def test_each_state_and_each_change_by_month_is_that_of_its_revision(
    spark: SparkSession, client: chronolake.Client, tmp_path: Path, repository: Path
) -> None:
    data = covid.folder(repository)

    covid.check(covid.load(Layout(by_month=True, revisions=8), spark, client, data, tmp_path), data)
