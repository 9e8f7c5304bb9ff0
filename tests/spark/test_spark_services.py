"""Table services as Spark jobs, when a user asks for them and after a write: the rows stay as they are."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession

import chronolake
from chronolake import Action, HeldReason, State, TableService
from chronolake.cli import main as command_line
from chronolake.slices import columns
from chronolake_model.vocabulary import Operation
from chronolake_spark import SparkTable, errors, service_jobs, table_services
from chronolake_spark.write import instant_options
from tests.spark import hudi_reader
from tests.spark.prices import IDS, orphans_of, priced, rows_of

pytestmark = pytest.mark.spark

NewTable = Callable[..., SparkTable]
BUCKETS = 2
# The server of these tests does not publish, and a compaction waits until its plan is published.
BY_CLIENT = {"hudi.publisher": "client"}


@pytest.fixture
def merged(spark: SparkSession, new_table: NewTable) -> SparkTable:
    """A merge-on-read table with buckets, with a base file and two log files in each."""
    table = new_table(priced(spark, 1), "id", buckets=BUCKETS, type="merge_on_read", properties=BY_CLIENT)
    for price in (1, 2, 3):
        table.upsert(priced(spark, price))
    return table


def digest(table: SparkTable) -> list[tuple[Any, ...]]:
    """All rows with Hudi's columns, but for the names of files; hudi-rs reads the same."""
    hudi_reader.publish_and_compare(table.metastore)
    rows = hudi_reader.rows_of(table.metastore).drop_columns([columns.FILE_NAME])
    return sorted((tuple(row.values()) for row in rows.to_pylist()), key=repr)


def files_of(table: SparkTable) -> tuple[int, int]:
    """The numbers of base files and log files of the latest slices."""
    slices = table.metastore.snapshot().slices
    return sum(of.base_file is not None for of in slices), sum(len(of.log_files) for of in slices)


def descriptions(spark: SparkSession) -> set[str]:
    """The descriptions of the Spark jobs so far, as Spark's UI shows them."""
    jobs = spark.sparkContext._jsc.sc().statusStore().jobsList(None)
    described = [jobs.apply(index).description() for index in range(jobs.size())]
    return {text.get() for text in described if text.isDefined()}


def test_compactions_leave_the_rows_as_they_are(spark: SparkSession, merged: SparkTable):
    before = digest(merged)
    result = merged.log_compact()
    [instant] = result.instants
    assert (instant.action, instant.operation) == (Action.DELTACOMMIT, Operation.LOG_COMPACT)
    assert digest(merged) == before
    assert files_of(merged) == (BUCKETS, 3 * BUCKETS)  # a log file more, in place of two

    result = merged.compact()
    [instant] = result.instants
    assert (instant.action, instant.operation) == (Action.COMMIT, Operation.COMPACT)
    assert (result.table, result.left) == (merged.name, [])
    assert digest(merged) == before
    assert files_of(merged) == (BUCKETS, 0)
    assert f"compact {merged.name}: {instant.requested_time}, {BUCKETS} tasks" in descriptions(spark)

    result = merged.compact()
    assert (result.instants, [held.reason for held in result.held]) == ([], [HeldReason.NOTHING_TO_DO])
    assert orphans_of(merged) == []


def test_attempts_that_fail_leave_one_copy_of_each_file(merged: SparkTable, monkeypatch: pytest.MonkeyPatch):
    class Killed(service_jobs._TaskRunner):
        """Workers get this class by value, for it is made here."""

        def __call__(self, task: str) -> bytes:  # type: ignore[explicit-override]
            stats = super().__call__(task)
            context = TaskContext.get()
            assert context is not None
            if context.attemptNumber() == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return stats

    monkeypatch.setattr(service_jobs, "_TaskRunner", Killed)
    before = digest(merged)
    [instant] = merged.compact().instants

    assert digest(merged) == before
    assert files_of(merged) == (BUCKETS, 0)
    assert orphans_of(merged) == []
    assert len(list(merged.metastore.deletions(instant.requested_time))) == BUCKETS


def test_a_plan_in_execution_elsewhere_is_left_and_the_answer_says_so(merged: SparkTable):
    [plan] = merged.metastore.services.plan(TableService.COMPACTION, force=True).instants
    merged.metastore.publish()
    with merged.metastore.execute(plan.requested_time) as write:
        result = merged.compact()
        write.rollback("not needed")

    assert result.instants == []
    assert (HeldReason.PENDING_PLAN, BUCKETS) in [(held.reason, held.file_groups) for held in result.held]


def test_the_command_runs_services_by_spark(spark: SparkSession, merged: SparkTable, client: chronolake.Client):
    before = digest(merged)
    merged.metastore.alter(set={"hoodie.compact.inline.max.delta.commits": "2"})
    command = ["services", "run", "--once", "--engine", "spark", "--table", merged.name, "--url", client.url]
    assert command_line.run(command) == 0

    assert digest(merged) == before
    assert files_of(merged) == (BUCKETS, 0)
    assert any(text.startswith(f"table services {merged.name}: ") for text in descriptions(spark))


def test_a_clustering_joins_small_files_in_an_order_and_keys_are_found_afterwards(
    spark: SparkSession, new_table: NewTable
):
    properties = {
        "files.small-file-limit": "0",
        "hoodie.clustering.plan.strategy.small.file.limit": "1000000",
        "hoodie.clean.fileversions.retained": "1",
    }
    table = new_table(priced(spark, 1), "id", index="record", properties=properties)
    for first in (20, 0):
        table.insert(spark.range(first, first + 20).selectExpr("id", "cast(100 - id as int) price"))
    before, (small_files, _) = digest(table), files_of(table)

    [instant] = table.cluster().instants
    assert (instant.action, instant.operation) == (Action.REPLACECOMMIT, Operation.CLUSTER)
    assert files_of(table) == (1, 0) != (small_files, 0)
    assert digest(table) == before
    again = table.cluster()
    assert (again.instants, [held.reason for held in again.held]) == ([], [HeldReason.NOTHING_TO_DO])

    assert len(table.cluster(["price"]).instants) == 1
    assert [row.price for row in table.read().collect()] == list(range(61, 101))
    assert table.cluster("price").instants == []
    assert digest(table) == before

    table.upsert(spark.range(20).selectExpr("id", "7 price"), services="off")
    assert [row.price for row in table.lookup([3, 30]).sort("id").collect()] == [7, 70]
    assert table.read().count() == len(before)

    after = digest(table)
    [clean] = table.clean().instants
    assert clean.state is State.COMPLETED
    assert digest(table) == after
    assert (table.clean(retain_versions=1).instants, orphans_of(table)) == ([], [])
    with pytest.raises(errors.SchemaMismatch, match="no column 'cost'"):
        table.cluster(["cost"])
    with pytest.raises(ValueError, match="did you mean 'zorder'"):
        table.cluster(["price"], layout="z-order")  # type: ignore[arg-type]


def test_a_service_that_fails_after_a_write_is_a_warning_and_the_next_write_runs_it(
    spark: SparkSession, new_table: NewTable, caplog: pytest.LogCaptureFixture
):
    properties = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "2"}
    table = new_table(
        priced(spark, 1), "id", buckets=1, type="merge_on_read", properties={**BY_CLIENT, **properties}
    )
    table.upsert(priced(spark, 1))
    [slice_] = table.metastore.snapshot().slices
    assert slice_.base_file is not None
    base = Path(table.definition.base_path, slice_.base_file.path)
    hidden = base.rename(base.with_suffix(".hidden"))

    with caplog.at_level(logging.WARNING, "chronolake.spark"):
        instant = _unpublished(spark, table).upsert(priced(spark, 2))
    assert instant.state is State.COMPLETED
    [message] = caplog.messages
    assert "the write is complete" in message
    assert "SparkTable.compact()" in message
    [plan] = table.metastore.instants(state=State.REQUESTED)
    assert plan.action is Action.COMPACTION

    hidden.rename(base)
    table.upsert(priced(spark, 3))
    assert table.metastore.instant(plan.requested_time).state is State.COMPLETED
    assert rows_of(table) == [(id, 3) for id in IDS]
    assert orphans_of(table) == []


def _unpublished(spark: SparkSession, table: SparkTable) -> SparkTable:
    """The table, which hudi-rs does not read after each write."""
    return SparkTable(spark, table._client, table.metastore)


def test_the_option_of_a_write_counts_before_the_properties_of_the_table():
    wanted = table_services._services_after_write
    inline = {"hoodie.compact.inline": "true"}
    assert wanted({}, None) == wanted(inline, "off") == []
    assert wanted(inline, None) == [
        TableService.COMPACTION,
        TableService.LOG_COMPACTION,
        TableService.CLEAN,
    ]
    assert wanted({}, "on") == list(TableService)
    with pytest.raises(ValueError, match="services is one of on, off"):
        instant_options.check({"services": "inline"})  # type: ignore[typeddict-unknown-key]
