"""Publication waits where a file group would have two plans of compactions: Hudi's Spark reader would fail."""

from __future__ import annotations

from pathlib import Path

import pytest

import chronolake
from chronolake import Action
from chronolake.errors import NotPublished
from chronolake_model.vocabulary import TableType
from tests.hudi.keyed_table import KeyedTable
from tests.published import row


@pytest.fixture
def keyed_table(client: chronolake.Client, tmp_path: Path) -> KeyedTable:
    """A merge-on-read table with log files."""
    table = KeyedTable(client, tmp_path / "lake", TableType.MERGE_ON_READ)
    table.upsert(row(1), row(3, day="b"))
    table.upsert(row(1, name="y"))
    return table


@pytest.fixture
def restored(keyed_table: KeyedTable) -> KeyedTable:
    """A compaction of it was completed and then undone."""
    savepoint = keyed_table.table.savepoint()
    keyed_table.compact()
    keyed_table.table.restore(savepoint.requested_time)
    keyed_table.table.release_savepoint(savepoint.requested_time)
    keyed_table.publish()
    return keyed_table


def test_publication_waits_until_the_planned_compaction_is_completed(restored: KeyedTable) -> None:
    published = restored.own_rows()
    planned = restored.plan(Action.COMPACTION)
    restored.upsert(row(1, name="z"))
    with pytest.raises(NotPublished, match=r"day=a/.* two plans"):
        restored.publish()
    assert restored.of_hudi_rs() == published
    restored.compact(planned)
    assert restored.publish().is_visible
    assert restored.of_hudi_rs() == restored.own_rows()


def test_a_plan_is_published_when_the_files_of_the_undone_compaction_are_deleted(restored: KeyedTable) -> None:
    restored.upsert(row(1, name="z"))
    restored.upsert(row(5))
    restored.publish()
    restored.table.clean(retain_commits=1)
    planned = restored.plan(Action.COMPACTION)
    assert not restored.publish().lag_versions
    plans = [name for name in restored.timeline() if name.endswith(".compaction.requested")]
    assert plans == [f"{planned}.compaction.requested"]


def test_plans_of_different_file_groups_are_published(restored: KeyedTable) -> None:
    restored.upsert(row(3, name="z", day="b"))
    [group] = [part for part in restored.slices().values() if part.partition_path == "day=b"]
    name = chronolake.FileGroupName(group.partition_path, group.file_id)
    restored.table.plan(Action.COMPACTION, [name])
    assert not restored.publish().lag_versions


def test_publication_waits_for_the_rollback_of_a_compaction(keyed_table: KeyedTable) -> None:
    first = keyed_table.plan_compaction()
    assert first is not None
    write = keyed_table.table.execute(first)
    write.mark(*keyed_table.markers(keyed_table.compacted(write)))
    keyed_table.table.rollback(first, writer=write.instant.writer, execute=False)
    keyed_table.plan(Action.COMPACTION)
    with pytest.raises(NotPublished, match="two plans"):
        keyed_table.publish()
    keyed_table.table.finish_rollbacks()
    assert keyed_table.publish().is_visible
