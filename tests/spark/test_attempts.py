"""Attempts of tasks that fail: one copy of each file is published, and storage has nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from pyspark.sql import SparkSession

import chronolake
from chronolake import Action, MarkersType, State
from chronolake.errors import ChronolakeError, InstantRolledBack
from chronolake.storage import open_storage
from chronolake_model.file_names import base_file_name, bucket_file_id
from chronolake_spark import SparkTable
from chronolake_spark.write.data_source import FileGroupsDataSource
from tests.spark import faults
from tests.spark.faults import Fault
from tests.spark.prices import BUCKETS, IDS, orphans_of, priced, rows_of

pytestmark = pytest.mark.spark

NewTable = Callable[..., SparkTable]


@pytest.fixture
def meet(spark: SparkSession) -> Iterator[Callable[[Fault], None]]:
    """Injects a fault into the attempts of the next write."""
    yield lambda fault: spark.dataSource.register(faults.source_with(fault))
    spark.dataSource.register(FileGroupsDataSource)


@pytest.mark.parametrize(
    ("fault", "type"),
    [
        (faults.raise_first, MarkersType.DIRECT),
        (faults.die_first, MarkersType.SERVER),
        pytest.param(faults.raise_first, MarkersType.SERVER, marks=pytest.mark.slow),
        pytest.param(faults.die_first, MarkersType.DIRECT, marks=pytest.mark.slow),
    ],
)
def test_tasks_that_fail_and_are_tried_again_leave_one_copy_of_each_file(
    spark: SparkSession, new_table: NewTable, meet: Callable[[Fault], None], fault: Fault, type: MarkersType
):
    table = new_table(priced(spark, 1), "id", buckets=BUCKETS, properties={"markers.type": type})
    table.insert(priced(spark, 1))
    meet(fault)
    instant = table.upsert(priced(spark, 2))

    assert rows_of(table) == [(id, 2) for id in IDS]
    assert orphans_of(table) == []
    assert instant.summary is not None
    assert (instant.summary.files, instant.summary.updates) == (BUCKETS, len(IDS))
    assert len(list(table.metastore.deletions(instant.requested_time))) == BUCKETS


@pytest.mark.parametrize("type", MarkersType)
def test_a_job_that_fails_leaves_nothing(
    spark: SparkSession, new_table: NewTable, meet: Callable[[Fault], None], type: MarkersType
):
    table = new_table(priced(spark, 1), "id", buckets=BUCKETS, properties={"markers.type": type})
    table.insert(priced(spark, 1))
    meet(faults.die_last)

    with pytest.raises(ChronolakeError):
        table.upsert(priced(spark, 2))

    [instant] = table.metastore.instants(state=State.ROLLED_BACK)
    [rollback] = table.metastore.timeline.rollbacks()
    assert (rollback.action, rollback.state) == (Action.ROLLBACK, State.COMPLETED)
    assert list(table.metastore.markers(instant.requested_time)) == []
    assert rows_of(table) == [(id, 1) for id in IDS]
    assert orphans_of(table) == []


def test_a_write_that_is_rolled_back_meanwhile_stops_and_reports_it(
    spark: SparkSession, new_table: NewTable, meet: Callable[[Fault], None]
):
    table = new_table(priced(spark, 1), "id", buckets=BUCKETS)
    meet(faults.roll_back)

    with pytest.raises(InstantRolledBack, match="not wanted any more"):
        table.insert(priced(spark, 1))
    assert orphans_of(table) == []


def test_the_next_write_deletes_the_files_that_a_rollback_left(spark: SparkSession, new_table: NewTable):
    table = new_table(priced(spark, 1), "id", buckets=BUCKETS)
    write = table.metastore.begin()
    name = base_file_name(bucket_file_id(0), "0-0-0", write.requested_time)
    write.mark(chronolake.Marker("", name, chronolake.MarkerKind.CREATE))
    open_storage(table.definition.base_path).create_empty(name)
    table.metastore.rollback(write.requested_time, writer=write.instant.writer, execute=False)
    assert [orphan.path for orphan in orphans_of(table)] == [name]

    table.upsert(priced(spark, 1))

    assert orphans_of(table) == []
    assert [file.file_name for file in table.metastore.deletions(write.requested_time)] == [name]
