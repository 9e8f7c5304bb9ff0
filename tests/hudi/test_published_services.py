"""Table services of published tables: hudi-rs reads each step, also of plans that are given up or cancelled."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import chronolake
from chronolake import Action
from chronolake_model.file_names import generation_of
from chronolake_model.files import FileGroupName
from chronolake_model.vocabulary import RollbackCause, State, TableType
from tests.hudi.keyed_table import KeyedTable, partition_path
from tests.published import row


@pytest.fixture
def table(client: chronolake.Client, tmp_path: Path) -> KeyedTable:
    """A merge-on-read table with a log file in each of two partitions."""
    table = KeyedTable(client, tmp_path / "lake", TableType.MERGE_ON_READ)
    table.upsert(row(1), row(2), row(3, day="b"))
    table.upsert(row(1, name="y"), row(3, day="b", name="y"))
    table.publish()
    return table


def check(table: KeyedTable) -> None:
    """Publish all, and compare the rows."""
    assert not table.publish().lag_versions
    assert table.of_hudi_rs() == table.own_rows()


def plan_clustering(table: KeyedTable) -> str:
    groups = [FileGroupName(part.partition_path, part.file_id) for part in table.slices().values()]
    return table.table.plan(Action.CLUSTERING, groups).requested_time


def clustered(table: KeyedTable, write: chronolake.Write) -> None:
    """Write and mark the files of a clustering of all file groups."""
    for (path, bucket), file_slice in table.slices().items():
        generation = generation_of(file_slice.file_id) + 1
        table.add(write, [table._base(write.requested_time, path, bucket, table._kept(file_slice), generation)])
        write.replace(FileGroupName(path, file_slice.file_id))


def merged_logs(table: KeyedTable, write: chronolake.Write) -> None:
    table.add(write, table.stitched(write.requested_time))


def compacted(table: KeyedTable, write: chronolake.Write) -> None:
    table.add(write, table.compacted(write))


Execute = Callable[[KeyedTable, chronolake.Write], None]
SERVICES: dict[Action, Execute] = {
    Action.COMPACTION: compacted,
    Action.LOGCOMPACTION: merged_logs,
    Action.CLUSTERING: clustered,
}


def planned(table: KeyedTable, action: Action) -> str:
    requested = plan_clustering(table) if action is Action.CLUSTERING else table.plan(action)
    assert requested is not None
    return requested


@pytest.mark.parametrize("action", SERVICES)
def test_rows_stay_the_same_at_each_step_of_a_service(table: KeyedTable, action: Action) -> None:
    rows = table.of_hudi_rs()
    withdrawn = planned(table, action)
    check(table)
    # An execution that fails after it has written its files, and whose plan is given up.
    write = table.table.execute(withdrawn)
    SERVICES[action](table, write)
    table.table.rollback(withdrawn, writer=write.instant.writer, execute=False)
    check(table)
    table.table.finish_rollbacks()
    check(table)
    assert not [name for name in table.timeline() if withdrawn in name]

    again = planned(table, action)
    check(table)
    with table.table.execute(again) as write:
        SERVICES[action](table, write)
    check(table)
    assert table.of_hudi_rs() == rows
    table.upsert(row(1, name="z"), row(4))
    check(table)
    table.table.clean(retain_commits=1)
    check(table)


def test_a_write_beside_each_step_of_a_cancelled_clustering_is_read_once(table: KeyedTable) -> None:
    clustering = plan_clustering(table)
    write = table.table.execute(clustering)
    clustered(table, write)
    table.upsert(row(1, name="z"), row(5))
    cancelled = table.table.instant(clustering)
    assert (cancelled.state, cancelled.rollback_cause) == (State.ROLLED_BACK, RollbackCause.CONFLICT)
    check(table)
    with pytest.raises(chronolake.errors.InstantRolledBack):
        write.complete()
    table.table.finish_rollbacks()
    check(table)
    assert table.table.orphans().orphans == []


@pytest.mark.parametrize("action", [Action.COMPACTION, Action.LOGCOMPACTION])
def test_a_service_of_a_file_group_that_was_overwritten_meanwhile_repeats_no_row(
    table: KeyedTable, action: Action
) -> None:
    table.upsert(row(1, name="z"), row(3, day="b", name="z"))
    service = planned(table, action)
    table.publish()
    with table.table.execute(service) as write:
        is_full = action is Action.COMPACTION
        files = list(table.compacted(write) if is_full else table.stitched(write.requested_time))
        table.overwrite("a", row(7))
        check(table)
        table.add(write, files)
    check(table)
    assert partition_path("a") in {stat.partition_path for stat in files}
    table.table.clean(retain_commits=1)
    check(table)
    assert table.table.orphans().orphans == []
