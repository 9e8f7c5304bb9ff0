"""Random workloads on tables of each type and index have the rows of an oracle in plain Python."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from chronolake_model.vocabulary import IndexType, TableType
from chronolake_spark import SparkTable
from tests.examples import ALL
from tests.spark.mixed_workloads import MixedWorkload
from tests.spark.oracle import Definition
from tests.spark.served_workloads import ServedWorkload
from tests.spark.workloads import Workload

pytestmark = pytest.mark.spark

NewTable = Callable[..., SparkTable]
STEPS = {Workload: 5, ServedWorkload: 12, MixedWorkload: 12 if ALL else 3}
LONG_SECONDS = float(os.environ.get("LONG_SECONDS", "240"))
TYPES = pytest.mark.parametrize("type", list(TableType), ids=str)


def play(
    spark: SparkSession, new_table: NewTable, type: TableType, seed: int, kind: type[Workload] = Workload
) -> None:
    """The workload of a seed; its operations stand in the message of a failure."""
    print(f"type={type} seed={seed}")
    draws = random.Random(seed)
    definition = Definition.drawn(draws, type, draws.choice(list(IndexType)))
    workload = kind(spark, new_table, definition, draws)
    print(definition)
    for _ in range(STEPS[kind]):
        workload.step()
    workload.check_history()


def play_for_long(spark: SparkSession, new_table: NewTable, type: TableType, kind: type[Workload]) -> None:
    """Workloads one after the other, from a seed that ``SEED`` repeats."""
    ends_at = time.monotonic() + LONG_SECONDS
    seed = int(os.environ.get("SEED", random.SystemRandom().getrandbits(32)))
    while time.monotonic() < ends_at:
        play(spark, new_table, type, seed, kind)
        seed += 1


@TYPES
@pytest.mark.parametrize("seed", range(1))
def test_a_table_has_the_rows_of_the_oracle(
    spark: SparkSession, new_table: NewTable, type: TableType, seed: int
) -> None:
    play(spark, new_table, type, seed)


@pytest.mark.slow
@TYPES
def test_tables_have_the_rows_of_the_oracle_for_long(
    spark: SparkSession, new_table: NewTable, type: TableType
) -> None:
    play_for_long(spark, new_table, type, Workload)


@TYPES
@pytest.mark.parametrize("seed", range(1))
def test_a_table_that_spark_and_the_client_write_has_the_rows_of_the_oracle(
    spark: SparkSession, new_table: NewTable, type: TableType, seed: int
) -> None:
    play(spark, new_table, type, seed, MixedWorkload)


@pytest.mark.slow
@TYPES
def test_tables_that_spark_and_the_client_write_have_the_rows_of_the_oracle_for_long(
    spark: SparkSession, new_table: NewTable, type: TableType
) -> None:
    play_for_long(spark, new_table, type, MixedWorkload)


@TYPES
@pytest.mark.parametrize("seed", range(1))
def test_a_table_with_services_and_restores_has_the_rows_of_the_oracle(
    spark: SparkSession, new_table: NewTable, type: TableType, seed: int
) -> None:
    play(spark, new_table, type, seed, ServedWorkload)


@pytest.mark.slow
@TYPES
def test_tables_with_services_and_restores_have_the_rows_of_the_oracle_for_long(
    spark: SparkSession, new_table: NewTable, type: TableType
) -> None:
    play_for_long(spark, new_table, type, ServedWorkload)
