"""The contents of the publication: Hudi's Spark bundle and hudi-rs read the rows of each state."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import hudi
import pytest

import chronolake
from chronolake_model.vocabulary import TableType
from chronolake_storage import local
from chronolake_storage.publishing import PARTITION_METADATA
from tests.hudi.hudi_spark import HudiFailed, HudiSpark
from tests.hudi.keyed_table import (
    KeyedTable,
    assert_as_of,
    assert_base_files_agree,
    assert_changes,
    assert_history_agrees,
    assert_readers_agree,
    changes_of_java,
)
from tests.published import Row

pytestmark = pytest.mark.hudi_spark
BOTH_TYPES = pytest.mark.parametrize("table_type", TableType)


def row(number: int, day: str = "a", name: str = "x") -> Row:
    return {"id": number, "day": day, "name": name}


@pytest.fixture
def new_table(client: chronolake.Client, tmp_path: Path) -> Callable[..., KeyedTable]:
    """Makes a table in a folder."""
    return partial(KeyedTable, client, tmp_path / "lake")


@BOTH_TYPES
@pytest.mark.parametrize("version", [8, 9])
def test_snapshots_earlier_states_and_changes_are_the_same(
    hudi_spark: HudiSpark, new_table: Callable[..., KeyedTable], table_type: TableType, version: int
) -> None:
    table = new_table(table_type, version=version)
    table.upsert(row(1), row(2), row(3, "b"))
    table.upsert(row(2, name="y"), row(4, "b"))
    table.delete(row(1))
    table.upsert(row(3, "b", "z"), row(5, "c"))

    assert len(assert_readers_agree(hudi_spark, table)) == 4
    assert_base_files_agree(hudi_spark, table)
    assert_history_agrees(hudi_spark, table)


@BOTH_TYPES
def test_a_table_without_commits_is_empty(
    hudi_spark: HudiSpark, new_table: Callable[..., KeyedTable], table_type: TableType
) -> None:
    assert assert_readers_agree(hudi_spark, new_table(table_type)) == []


@BOTH_TYPES
def test_a_pending_write_is_not_listed_and_not_read(
    hudi_spark: HudiSpark, new_table: Callable[..., KeyedTable], table_type: TableType
) -> None:
    table = new_table(table_type)
    table.upsert(row(1), row(2, "b"))
    pending = table.table.begin()
    stats = table.upserted(pending.requested_time, [row(1, name="pending"), row(3, "pending")])
    table.upsert(row(2, "b", "y"))
    table.upsert(row(4, "b"))
    assert len(assert_readers_agree(hudi_spark, table)) == 3
    assert_history_agrees(hudi_spark, table)
    assert not any(pending.requested_time in name for name in table.timeline())

    table.complete(pending, stats)
    assert len(assert_readers_agree(hudi_spark, table)) == 4


@BOTH_TYPES
def test_a_rolled_back_write_is_not_read_before_and_after_its_files_are_deleted(
    hudi_spark: HudiSpark, new_table: Callable[..., KeyedTable], table_type: TableType
) -> None:
    table = new_table(table_type)
    table.upsert(row(1), row(2, "b"))
    pending = table.table.begin()
    table.add(pending, table.upserted(pending.requested_time, [row(1, name="pending"), row(3)]))
    table.table.rollback(pending.requested_time, writer=pending.instant.writer, execute=False)
    assert len(assert_readers_agree(hudi_spark, table)) == 2
    table.upsert(row(2, "b", "y"))
    assert len(assert_readers_agree(hudi_spark, table)) == 2

    table.table.finish_rollbacks()
    table.upsert(row(1, name="z"))
    assert len(assert_readers_agree(hudi_spark, table)) == 2
    assert_history_agrees(hudi_spark, table)


def test_as_of_goes_by_requested_times_and_changes_by_completion_times(
    hudi_spark: HudiSpark, new_table: Callable[..., KeyedTable]
) -> None:
    table = new_table()
    table.upsert(row(1))
    first, second = table.table.begin(), table.table.begin()
    written = [table.upserted(first.requested_time, [row(2, "b")])]
    written.append(table.upserted(second.requested_time, [row(3, "c")]))
    table.complete(second, written[1])
    assert_readers_agree(hudi_spark, table)
    table.complete(first, written[0])
    assert_readers_agree(hudi_spark, table)

    as_of_first = table.of_java(hudi_spark, as__of__instant=first.requested_time)
    assert [seen[2] for seen in as_of_first] == ["1", "2"]
    assert table.of_hudi_rs(hudi.HudiReadOptions().with_as_of_timestamp(first.requested_time)) == as_of_first
    assert_as_of(hudi_spark, table, second.requested_time, table.completion_time(first.requested_time))
    ends = [table.completion_time(write.requested_time) for write in (second, first)]
    assert_changes(hudi_spark, table, ends[0], ends[1])
    assert [seen[2] for seen in changes_of_java(hudi_spark, table, ends[0], ends[1])] == ["2"]


def test_deletes_are_missing_in_changes(hudi_spark: HudiSpark, new_table: Callable[..., KeyedTable]) -> None:
    table = new_table()
    table.upsert(row(1), row(2))
    table.delete(row(1))
    table.publish()
    begin, end = (table.completion_time(time) for time in table.requested_times)
    assert changes_of_java(hudi_spark, table, begin, end) == []


@BOTH_TYPES
def test_replaced_rows_are_not_read(
    hudi_spark: HudiSpark, new_table: Callable[..., KeyedTable], table_type: TableType
) -> None:
    table = new_table(table_type)
    table.upsert(row(1), row(2), row(3, "b"), row(4, "c"))
    table.upsert(row(1, name="y"), row(3, "b", "y"))
    table.overwrite("a", row(2, name="z"), row(5))
    assert [seen[2] for seen in assert_readers_agree(hudi_spark, table)] == ["2", "5", "3", "4"]
    table.overwrite("b")
    assert [seen[2] for seen in assert_readers_agree(hudi_spark, table)] == ["2", "5", "4"]
    table.upsert(row(2, name="w"), row(3, "b"), row(6))
    assert len(assert_readers_agree(hudi_spark, table)) == 5
    assert_base_files_agree(hudi_spark, table)
    assert_history_agrees(hudi_spark, table)


@BOTH_TYPES
def test_clustering_changes_no_row_and_repeats_none(
    hudi_spark: HudiSpark, new_table: Callable[..., KeyedTable], table_type: TableType
) -> None:
    table = new_table(table_type)
    table.upsert(row(1), row(2), row(3, "b"))
    table.upsert(row(1, name="y"))
    before = assert_readers_agree(hudi_spark, table)
    clustered = table.cluster("a")
    assert assert_readers_agree(hudi_spark, table) == before
    assert_history_agrees(hudi_spark, table)
    earlier, later = table.completion_time(table.requested_times[-2]), table.completion_time(clustered)
    assert changes_of_java(hudi_spark, table, earlier, later) == []

    table.upsert(row(2, name="z"), row(7))
    assert len(assert_readers_agree(hudi_spark, table)) == 4
    assert_history_agrees(hudi_spark, table)


@BOTH_TYPES
def test_a_time_before_a_clean_is_refused_by_spark_and_empty_in_hudi_rs(
    hudi_spark: HudiSpark, new_table: Callable[..., KeyedTable], table_type: TableType
) -> None:
    table = new_table(table_type)
    for name in ("v", "w", "x", "y"):
        table.upsert(row(1, name=name), row(2, "b", name))
        table.compact()
    table.publish()
    [_] = table.table.clean(retain_commits=1)
    assert_readers_agree(hudi_spark, table)
    cleaned, *_, last = table.requested_times

    with pytest.raises(HudiFailed, match="Cleaner cleaned up the timestamp of interest"):
        table.of_java(hudi_spark, as__of__instant=cleaned)
    assert table.of_hudi_rs(hudi.HudiReadOptions().with_as_of_timestamp(cleaned)) == []
    assert_as_of(hudi_spark, table, last, table.completion_time(last))
    table.upsert(row(1, name="z"))
    assert_readers_agree(hudi_spark, table)


@BOTH_TYPES
def test_a_restore_takes_back_writes_and_replaces(
    hudi_spark: HudiSpark, new_table: Callable[..., KeyedTable], table_type: TableType
) -> None:
    table = new_table(table_type)
    table.upsert(row(1), row(2, "b"))
    savepoint = table.table.savepoint()
    before = assert_readers_agree(hudi_spark, table)
    table.upsert(row(1, name="undone"), row(3), row(4, "c"))
    table.overwrite("b", row(2, "b", "undone"))
    table.cluster("a")
    assert_readers_agree(hudi_spark, table)

    table.table.restore(savepoint.requested_time)
    assert assert_readers_agree(hudi_spark, table) == before
    table.upsert(row(1, name="after"), row(5))
    assert len(assert_readers_agree(hudi_spark, table)) == 3
    assert_base_files_agree(hudi_spark, table)
    table.table.release_savepoint(savepoint.requested_time)
    table.upsert(row(2, "b", "after"))
    table.publish()
    table.table.clean(retain_commits=1)
    assert len(assert_readers_agree(hudi_spark, table)) == 3


def test_what_a_killed_publisher_left_in_a_partition_is_not_read(
    hudi_spark: HudiSpark, new_table: Callable[..., KeyedTable]
) -> None:
    table = new_table()
    table.upsert(row(1))
    table.files(table.table.begin().requested_time, [row(2, "b")])
    folder = os.open(table.folder / "day=b", os.O_RDONLY)
    for _ in range(2):
        local._write_part(folder, PARTITION_METADATA, b"")
    os.close(folder)
    assert len(assert_readers_agree(hudi_spark, table)) == 1


@pytest.mark.parametrize("value", ["a b", "ü", "1.5", "50%", "x=y", "x/y", "2026-01-01 00:00:00"])
def test_values_in_partition_paths_are_read(
    hudi_spark: HudiSpark, client: chronolake.Client, tmp_path: Path, value: str
) -> None:
    table = KeyedTable(client, tmp_path / "lake")
    table.upsert(row(1, value))
    assert_readers_agree(hudi_spark, table)
