"""Hudi's Spark bundle and hudi-rs read merge-on-read tables: log files, deletes, orders, and compactions."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import chronolake
from chronolake.errors import NotPublished
from chronolake_model.vocabulary import TableType
from tests.hudi.hudi_spark import HudiSpark
from tests.hudi.keyed_table import (
    KeyedTable,
    assert_base_files_agree,
    assert_changes,
    assert_history_agrees,
    assert_readers_agree,
    changes_of_java,
    partition_path,
)
from tests.hudi.written_tables import Blocks
from tests.published import Row

pytestmark = pytest.mark.hudi_spark
_DAY = datetime.date(2026, 1, 1)
_NOON = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
ORDERING: dict[str, list[Any]] = {
    "int": [1, 2, 3],
    "bigint": [-1, 2**40, 2**50],
    "double": [-0.5, 0.25, 1e300],
    "float": [-0.5, 0.25, 4.0],
    "date": [_DAY, _DAY.replace(day=2), _DAY.replace(day=3)],
    "timestamp": [_NOON, _NOON.replace(microsecond=1), _NOON.replace(hour=13)],
}


def row(number: int, name: str = "x", day: str = "a", **columns: Any) -> Row:
    return {"id": number, "day": day, "name": name, **columns}


@pytest.fixture
def new_table(client: chronolake.Client, tmp_path: Path) -> Callable[..., KeyedTable]:
    """Makes a merge-on-read table in a folder."""
    return partial(KeyedTable, client, tmp_path / "lake", TableType.MERGE_ON_READ)


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize("blocks", Blocks)
@pytest.mark.parametrize("ordering", ORDERING)
def test_updates_and_deletes_go_by_the_ordering_value(
    hudi_spark: HudiSpark,
    new_table: Callable[..., KeyedTable],
    ordering: str,
    blocks: Blocks,
    version: int,
) -> None:
    table = new_table(ordering=ordering, version=version)
    low, middle, high = ORDERING[ordering]
    table.upsert(*(row(number, ts=middle) for number in range(8)))
    table.upsert(row(0, "older", ts=low), row(1, "same", ts=middle), row(2, "newer", ts=high), blocks=blocks)
    table.delete(row(3, ts=low), row(4, ts=middle), row(5, ts=high))
    table.upsert(row(2, "older", ts=middle), row(5, "older than its delete", ts=middle), blocks=blocks)
    table.upsert(row(4, "after its delete", ts=high), row(6, "new", ts=high), blocks=blocks)
    before = assert_readers_agree(hudi_spark, table)
    assert [seen[2] for seen in before] == ["0", "1", "2", "3", "4", "6", "7"]
    assert_base_files_agree(hudi_spark, table)

    table.compact()
    assert assert_readers_agree(hudi_spark, table) == before
    assert_base_files_agree(hudi_spark, table)
    table.upsert(row(5, "back", ts=high), row(6, "older", ts=low), blocks=blocks)
    assert len(assert_readers_agree(hudi_spark, table)) == 8


def test_strings_order_in_avro_blocks(hudi_spark: HudiSpark, new_table: Callable[..., KeyedTable]) -> None:
    table = new_table(ordering="string", properties={"hudi.log-blocks": "avro"})
    table.upsert(*(row(number, ts="b") for number in range(3)))
    table.upsert(row(0, "older", ts="a"), row(1, "newer", ts="c"), blocks=Blocks.AVRO)
    table.upsert(row(1, "older", ts="b"), row(4, "new", ts="b"), blocks=Blocks.AVRO)
    assert [seen[-1] for seen in assert_readers_agree(hudi_spark, table)] == ["x", "newer", "x", "new"]
    table.delete(row(0, ts="c"), row(2, ts="a"))
    assert len(assert_readers_agree(hudi_spark, table)) == 3
    table.compact()
    assert len(assert_readers_agree(hudi_spark, table)) == 3


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize("blocks", Blocks)
def test_without_ordering_values_the_later_write_wins(
    hudi_spark: HudiSpark, new_table: Callable[..., KeyedTable], blocks: Blocks, version: int
) -> None:
    table = new_table(version=version)
    table.upsert(row(1), row(2), row(3))
    table.delete(row(1), row(2))
    table.upsert(row(2, "back"), row(4), blocks=blocks)
    table.delete(row(4))
    table.upsert(row(3, "y"), blocks=blocks)
    assert [seen[2] for seen in assert_readers_agree(hudi_spark, table)] == ["2", "3"]
    assert_history_agrees(hudi_spark, table)
    table.compact()
    assert len(assert_readers_agree(hudi_spark, table)) == 2
    assert_history_agrees(hudi_spark, table)


def test_log_files_beside_a_pending_compaction_are_read(
    hudi_spark: HudiSpark, new_table: Callable[..., KeyedTable]
) -> None:
    table = new_table()
    table.upsert(row(1), row(2), row(3, day="b"))
    table.upsert(row(1, "y"), row(3, "y", day="b"))
    requested = table.plan_compaction()
    assert requested is not None
    table.upsert(row(1, "after the plan"), row(5))
    table.delete(row(2))
    assert len(assert_readers_agree(hudi_spark, table)) == 3

    write = table.table.execute(requested)
    stats = table.compacted(write)
    table.upsert(row(5, "beside its file"), row(7))
    pending = assert_readers_agree(hudi_spark, table)
    assert len(pending) == 4
    assert_base_files_agree(hudi_spark, table)

    table.complete(write, stats)
    assert assert_readers_agree(hudi_spark, table) == pending
    assert_base_files_agree(hudi_spark, table)
    table.upsert(row(7, "z"))
    table.compact()
    assert len(assert_readers_agree(hudi_spark, table)) == 4
    assert_base_files_agree(hudi_spark, table)


def test_a_compaction_repeats_no_row(hudi_spark: HudiSpark, new_table: Callable[..., KeyedTable]) -> None:
    table = new_table()
    table.upsert(row(1), row(2))
    table.upsert(row(1, "y"))
    table.compact()
    table.publish()
    before, after = (table.completion_time(time) for time in table.requested_times[-2:])
    assert changes_of_java(hudi_spark, table, before, after) == []
    assert_history_agrees(hudi_spark, table)


def test_a_compaction_that_is_rolled_back_loses_no_row(
    hudi_spark: HudiSpark, new_table: Callable[..., KeyedTable]
) -> None:
    table = new_table()
    table.upsert(row(1), row(2))
    table.upsert(row(1, "y"))
    requested = table.plan_compaction()
    assert requested is not None
    write = table.table.execute(requested)
    stats = table.compacted(write)
    write.mark(*table.markers(stats))
    table.upsert(row(2, "y"))
    table.table.rollback(requested, writer=write.instant.writer, execute=False)
    table.upsert(row(3))
    assert len(assert_readers_agree(hudi_spark, table)) == 3
    assert (table.folder / "day=a" / stats[0].file_name).exists()
    assert f"{requested}.compaction.requested" in table.timeline()

    table.table.finish_rollbacks()
    assert not (table.folder / "day=a" / stats[0].file_name).exists()
    table.upsert(row(2, "z"))
    assert len(assert_readers_agree(hudi_spark, table)) == 3
    assert f"{requested}.compaction.requested" not in table.timeline()
    table.compact()
    assert len(assert_readers_agree(hudi_spark, table)) == 3


def test_a_log_that_was_requested_before_a_compaction_and_completed_after_it_is_read(
    hudi_spark: HudiSpark, new_table: Callable[..., KeyedTable]
) -> None:
    table = new_table()
    table.upsert(row(1), row(2))
    table.upsert(row(1, "y"))
    late = table.table.begin()
    stats = table.upserted(late.requested_time, [row(2, "late"), row(4)])
    compaction = table.compact()
    assert compaction is not None
    assert_readers_agree(hudi_spark, table)
    table.complete(late, stats)
    assert [seen[-1] for seen in assert_readers_agree(hudi_spark, table)] == ["y", "late", "x"]
    end = table.completion_time(late.requested_time)
    assert len(table.upserts(table.completion_time(compaction), end)) == 2
    assert_changes(hudi_spark, table, table.completion_time(compaction), end)
    first = table.completion_time(table.requested_times[0])
    assert changes_of_java(hudi_spark, table, first, end) == table.upserts(first, end)


def test_without_ordering_values_hudi_takes_the_later_requested_of_overlapping_writes(
    hudi_spark: HudiSpark, new_table: Callable[..., KeyedTable]
) -> None:
    table = new_table()
    table.upsert(row(1))
    writes = [table.table.begin(), table.table.begin()]
    stats = [
        table.upserted(write.requested_time, [row(1, name)])
        for write, name in zip(writes, ("first", "second"), strict=True)
    ]
    for number in (1, 0):
        table.complete(writes[number], stats[number])
    table.publish()
    names = [table.own_rows(), table.of_hudi_rs(), table.of_java(hudi_spark)]
    assert [seen[-1] for [seen] in names] == ["first", "second", "second"]


@pytest.mark.parametrize("blocks", Blocks)
def test_with_ordering_values_overlapping_writes_are_read_as_chronolake_reads_them(
    hudi_spark: HudiSpark, new_table: Callable[..., KeyedTable], blocks: Blocks
) -> None:
    table = new_table(ordering="bigint")
    table.upsert(row(1, ts=1), row(3, ts=1))
    writes = [table.table.begin(), table.table.begin()]
    stats = [
        table.upserted(writes[0].requested_time, [row(1, "late", ts=3), row(3, "late", ts=2)], blocks),
        table.upserted(writes[1].requested_time, [row(1, "early", ts=2), row(3, "early", ts=3)], blocks),
    ]
    for number in (1, 0):
        table.complete(writes[number], stats[number])
        assert_readers_agree(hudi_spark, table)
    assert [seen[-1] for seen in table.own_rows()] == ["late", "early"]


def test_a_restore_takes_back_a_completed_compaction(
    hudi_spark: HudiSpark, new_table: Callable[..., KeyedTable]
) -> None:
    table = new_table()
    table.upsert(row(1), row(2), row(3, day="b"))
    table.upsert(row(1, "y"))
    savepoint = table.table.savepoint()
    before = assert_readers_agree(hudi_spark, table)
    table.upsert(row(2, "undone"))
    requested = table.compact()
    table.upsert(row(3, "undone", day="b"), row(5, "undone"))
    assert_readers_agree(hudi_spark, table)

    table.table.restore(savepoint.requested_time)
    assert assert_readers_agree(hudi_spark, table) == before
    assert f"{requested}.compaction.requested" in table.timeline()
    table.upsert(row(2, "after"), row(7))
    table.delete(row(1))
    assert len(assert_readers_agree(hudi_spark, table)) == 3
    assert_base_files_agree(hudi_spark, table)

    table.table.release_savepoint(savepoint.requested_time)
    published = table.own_rows()
    planned = table.plan_compaction()
    table.upsert(row(7, "beside the plan"))
    # A file group with two plans would make Spark fail.
    with pytest.raises(NotPublished, match="two plans"):
        table.publish()
    assert table.of_java(hudi_spark) == table.of_hudi_rs() == published
    table.compact(planned)
    after = assert_readers_agree(hudi_spark, table)
    table.upsert(row(7, "z"))
    assert_readers_agree(hudi_spark, table)
    table.table.clean(retain_commits=1)
    assert len(assert_readers_agree(hudi_spark, table)) == len(after)
    assert f"{requested}.compaction.requested" not in table.timeline()
    table.upsert(row(2, "last"))
    assert len(assert_readers_agree(hudi_spark, table)) == 3


def test_log_files_of_a_file_group_without_base_file_are_read(
    hudi_spark: HudiSpark, new_table: Callable[..., KeyedTable]
) -> None:
    table = new_table()
    append_only(table, row(2))
    append_only(table, row(2, "y"))
    assert len(assert_readers_agree(hudi_spark, table)) == 1
    table.compact()
    assert len(assert_readers_agree(hudi_spark, table)) == 1


@pytest.mark.parametrize("undo", ["insert", "overwrite", "cluster"])
def test_log_files_in_groups_without_undone_base_files_are_read_after_a_restore(
    hudi_spark: HudiSpark, new_table: Callable[..., KeyedTable], undo: str
) -> None:
    table = new_table()
    table.upsert(row(1, day="b"))
    savepoint = table.table.savepoint()
    match undo:
        case "insert":
            table.upsert(row(2, "undone"))
        case "overwrite":
            table.overwrite("b", row(1, "undone", day="b"))
        case _:
            table.cluster("b")
    table.table.restore(savepoint.requested_time)
    append_only(table, row(1, "y", day="b"))
    assert [seen[-1] for seen in assert_readers_agree(hudi_spark, table)] == ["y"]
    table.upsert(row(2, "z"))
    append_only(table, row(2, "y"))
    assert [seen[-1] for seen in assert_readers_agree(hudi_spark, table)] == ["y", "y"]


def test_publication_waits_while_an_undone_base_file_would_hide_a_log_file(
    hudi_spark: HudiSpark, new_table: Callable[..., KeyedTable]
) -> None:
    table = new_table()
    table.upsert(row(1, day="b"))
    savepoint = table.table.savepoint()
    table.upsert(row(2, "undone"))
    table.table.restore(savepoint.requested_time)
    before = assert_readers_agree(hudi_spark, table)
    append_only(table, row(2, "y"))
    with pytest.raises(NotPublished, match="day=a/"):
        table.publish()
    assert table.of_java(hudi_spark) == before

    table.table.release_savepoint(savepoint.requested_time)
    append_only(table, row(4, "y"))
    table.table.clean(retain_commits=1)
    assert [seen[-1] for seen in assert_readers_agree(hudi_spark, table)] == ["y", "y", "x"]


def test_publication_waits_while_a_pending_base_file_would_hide_a_log_file(
    hudi_spark: HudiSpark, new_table: Callable[..., KeyedTable]
) -> None:
    table = new_table()
    table.upsert(row(1, day="b"))
    pending = table.table.begin()
    stats = table.upserted(pending.requested_time, [row(2, "pending")])
    pending.mark(*table.markers(stats))
    before = assert_readers_agree(hudi_spark, table)
    append_only(table, row(2, "y"))
    with pytest.raises(NotPublished, match=pending.requested_time):
        table.publish()
    assert table.of_java(hudi_spark) == before

    table.table.rollback(pending.requested_time, writer=pending.instant.writer, execute=False)
    with pytest.raises(NotPublished, match=pending.requested_time):
        table.publish()
    table.table.finish_rollbacks()
    assert [seen[-1] for seen in assert_readers_agree(hudi_spark, table)] == ["y", "x"]


def append_only(table: KeyedTable, *rows: Row) -> str:
    """Append log files, also to file groups without base file."""
    write = table.table.begin()
    time = write.requested_time
    stats = [
        table.log_file(
            time, partition_path(seen["day"]), seen["id"] % 2, [table.data_block(time, [seen], Blocks.PARQUET)]
        )
        for seen in rows
    ]
    return table.complete(write, stats)
