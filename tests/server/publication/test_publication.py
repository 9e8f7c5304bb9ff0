"""Publication: what Hudi's readers see is what Chronolake's readers see, after each event of a table's log."""

from __future__ import annotations

from pathlib import Path

import hudi
import pyarrow as pa
import pytest

import chronolake
from chronolake import Action, Operation, errors
from chronolake_hudi import metadata, properties
from chronolake_hudi.metadata import CleanMetadata, CommitMetadata, CompactionPlan, SavepointMetadata
from chronolake_model.file_names import bucket_file_id
from chronolake_model.files import FileGroupName
from chronolake_model.schemas import AddColumn, WidenColumn
from chronolake_model.vocabulary import TableType
from tests.published import PublishedTable, row

GROUP = FileGroupName("day=a", bucket_file_id(0))


@pytest.fixture
def merge_on_read(client: chronolake.Client, tmp_path: Path) -> PublishedTable:
    """A merge-on-read table without an ordering field."""
    return PublishedTable(client, tmp_path / "lake", type=TableType.MERGE_ON_READ)


def check_rows(table: PublishedTable) -> None:
    """Publish, and compare what both readers see."""
    publication = table.publish()
    assert publication.lag_versions == 0
    assert publication.is_visible
    assert table.hudi_rows() == table.rows()


def test_a_table_without_commits_is_empty(table: PublishedTable) -> None:
    check_rows(table)
    assert table.hudi_rows() == []


def test_each_commit_is_seen_with_its_rows(table: PublishedTable) -> None:
    for number in range(4):
        table.write(row(number), row(number + 10, day="b"), bucket=number % 2)
        check_rows(table)
    assert len(table.hudi_rows()) == 4


def test_a_table_with_a_history_is_published_as_a_whole(table: PublishedTable) -> None:
    for number in range(4):
        table.write(row(number), row(number + 10, day="b"), bucket=number % 2)
    check_rows(table)
    assert len(table.timeline()) == 5


def test_a_pending_commit_and_a_rollback_are_not_listed(table: PublishedTable) -> None:
    table.write(row(1))
    pending = table.table.begin()
    table.files(pending.requested_time, [row(2)], bucket=1)
    check_rows(table)
    later = table.write(row(3), bucket=2)
    check_rows(table)
    pending.rollback()
    check_rows(table)
    assert not any(pending.requested_time in name for name in table.timeline())
    assert any(later in name for name in table.timeline())


def test_overlapping_commits_are_published_in_the_order_of_their_completion(table: PublishedTable) -> None:
    first, second = table.table.begin(), table.table.begin()
    for write, bucket in ((second, 2), (first, 1)):
        for stat in table.files(write.requested_time, [row(bucket)], bucket=bucket):
            write.add(stat)
        write.complete()
        check_rows(table)
    assert len(table.hudi_rows()) == 2


def test_replaced_file_groups_are_not_seen(table: PublishedTable) -> None:
    table.write(row(1), row(2, day="b"))
    with table.table.begin(action=Action.REPLACECOMMIT, operation=Operation.INSERT_OVERWRITE) as write:
        for stat in table.files(write.requested_time, [row(5)], bucket=0, generation=1):
            write.add(stat)
        write.replace(GROUP)
    check_rows(table)
    assert [seen["id"] for seen in table.hudi_rows()] == [2, 5]


def test_a_new_column_is_seen_at_once_and_in_later_files(table: PublishedTable) -> None:
    table.write(row(1))
    table.publish()
    table.table.change_schema([AddColumn("note", "string"), AddColumn("count", "int")])
    table.publish()
    assert table.hudi_rows() == [row(1) | {"note": None, "count": None}]
    table.write(row(2) | {"note": "n", "count": 3}, bucket=1)
    table.table.change_schema([WidenColumn("count", "bigint")])
    table.write(row(3) | {"note": "m", "count": 2**40}, bucket=2)
    table.publish()
    assert table.hudi_rows() == [
        row(1) | {"note": None, "count": None},
        row(2) | {"note": "n", "count": 3},
        row(3) | {"note": "m", "count": 2**40},
    ]


def test_values_of_partitions_are_read_from_their_columns(table: PublishedTable) -> None:
    table.write(row(1, day="a b"), row(2, day="ü"), row(3, day="1.5"))
    check_rows(table)
    assert [seen["day"] for seen in table.hudi_rows()] == ["a b", "ü", "1.5"]
    assert len(list(table.folder.glob("*/.hoodie_partition_metadata"))) == 3


def test_a_table_without_partitions_is_published(client: chronolake.Client, tmp_path: Path) -> None:
    table = PublishedTable(client, tmp_path / "lake", partition_fields=[])
    table.write(row(1))
    check_rows(table)
    assert (table.folder / ".hoodie_partition_metadata").exists()


def test_a_clean_says_from_which_instant_on_the_table_can_be_read(table: PublishedTable) -> None:
    writes = [table.write(row(number)) for number in range(4)]
    table.publish()
    [clean] = table.table.clean(retain_commits=1)
    check_rows(table)
    [name] = [name for name in table.timeline() if name.endswith(".clean")]
    content = (table.folder / ".hoodie/timeline" / name).read_bytes()
    published = metadata.decode(content, CleanMetadata, name)
    assert published.start_clean_time == clean.requested_time
    assert published.earliest_commit_to_retain == writes[-1]


def test_a_clean_deletes_nothing_that_is_published(table: PublishedTable) -> None:
    table.write(row(0))
    table.publish()
    for number in range(1, 4):
        table.write(row(number))
    assert table.table.clean(retain_commits=1) == []
    assert [seen["id"] for seen in table.hudi_rows()] == [0]
    table.publish()
    assert len(table.table.clean(retain_commits=1)) == 1
    check_rows(table)


def test_a_clean_is_free_again_when_publication_is_off(table: PublishedTable) -> None:
    table.write(row(0))
    table.publish()
    table.write(row(1))
    table.write(row(2))
    table.table.alter(set={"hudi.publish": "false"})
    assert len(table.table.clean(retain_commits=1)) == 1
    assert table.publish().is_hidden
    table.table.alter(unset=["hudi.publish"])
    check_rows(table)


def test_savepoints_are_listed_until_they_are_released(table: PublishedTable) -> None:
    saved = table.write(row(1))
    savepoint = table.table.savepoint(comment="before")
    table.publish()
    [name] = [name for name in table.timeline() if name.endswith(".savepoint")]
    assert name.startswith(f"{saved}_")
    content = (table.folder / ".hoodie/timeline" / name).read_bytes()
    kept = metadata.decode(content, SavepointMetadata, name).partition_metadata["day=a"].savepoint_data_file
    assert [saved in file for file in kept] == [True]
    table.table.release_savepoint(savepoint.requested_time)
    check_rows(table)
    assert not [name for name in table.timeline() if name.endswith(".savepoint")]


def test_a_restore_removes_what_it_undid(table: PublishedTable) -> None:
    table.write(row(1))
    savepoint = table.table.savepoint()
    undone = [table.write(row(number)) for number in range(2, 4)]
    check_rows(table)
    table.table.restore(savepoint.requested_time)
    check_rows(table)
    assert [seen["id"] for seen in table.hudi_rows()] == [1]
    assert not [name for name in table.timeline() if name[:17] in undone]
    table.write(row(9))
    check_rows(table)


def test_the_properties_follow_a_rename(table: PublishedTable) -> None:
    table.publish()
    table.table.alter(name=table.table.name + "_new", set={"hudi.table-version": "9"})
    check_rows(table)
    published = properties.decode((table.folder / properties.PATH).read_bytes())
    assert published.name == table.table.name.partition(".")[2]
    assert published.version == 9
    assert published.is_guarded


def test_a_compaction_is_listed_before_it_begins_and_its_files_follow(merge_on_read: PublishedTable) -> None:
    table = merge_on_read
    table.write(row(1))
    table.publish()
    log = table.append(row(1, name="y"), row(2))
    plan = table.table.plan(Action.COMPACTION, [GROUP])
    with pytest.raises(errors.NotPublishedYet):
        table.take_at_once(plan.requested_time)
    table.publish()
    name = f"{plan.requested_time}.compaction.requested"
    assert name in table.timeline()
    content = (table.folder / ".hoodie/timeline" / name).read_bytes()
    [operation] = metadata.decode(content, CompactionPlan, name).operations
    assert [log in file for file in operation.delta_file_paths] == [True]
    assert operation.data_file_path is not None
    with table.table.execute(plan.requested_time) as write:
        for stat in table.files(write.requested_time, [row(1, name="y"), row(2)]):
            write.add(stat)
    publication = table.publish()
    assert publication.lag_versions == 0
    assert table.hudi_rows() == [row(1, name="y"), row(2)]
    assert name in table.timeline()
    [commit] = [name for name in table.timeline() if name.endswith(".commit")]
    compacted = metadata.decode(
        (table.folder / ".hoodie/timeline" / commit).read_bytes(), CommitMetadata, commit
    )
    assert compacted.operation_type == "COMPACT"


def test_a_plan_is_withdrawn_only_after_its_files_are_deleted(merge_on_read: PublishedTable) -> None:
    table = merge_on_read
    table.write(row(1))
    table.append(row(2))
    table.publish()
    plan = table.table.plan(Action.COMPACTION, [GROUP])
    table.publish()
    write = table.table.execute(plan.requested_time)
    stats = table.files(write.requested_time, [row(1), row(2)])
    write.mark(*table.markers(stats))
    rolled_back = table.table.rollback(plan.requested_time, writer=write.instant.writer, execute=False)
    name = f"{plan.requested_time}.compaction.requested"
    table.publish()
    assert name in table.timeline()
    assert rolled_back.rolled_back_by is not None
    table.table.finish_rollbacks()
    table.publish()
    assert name not in table.timeline()
    assert table.hudi_rows() == [row(1), row(2)]


def test_a_compaction_that_begins_inflight_waits_for_its_plan(
    publishing_client: chronolake.Client, tmp_path: Path
) -> None:
    table = PublishedTable(publishing_client, tmp_path / "lake", type=TableType.MERGE_ON_READ)
    table.write(row(1))
    table.append(row(2))
    table.published()
    plan = chronolake.Plan([GROUP])
    with table.table.begin(action=Action.COMPACTION, operation=Operation.COMPACT, plan=plan) as write:
        assert f"{write.requested_time}.compaction.requested" in table.timeline()
        for stat in table.files(write.requested_time, [row(1), row(2)]):
            write.add(stat)
    table.published()
    assert table.hudi_rows() == [row(1), row(2)]


def test_a_compaction_waits_for_nothing_where_nothing_was_published(merge_on_read: PublishedTable) -> None:
    table = merge_on_read
    table.write(row(1))
    table.append(row(2))
    plan = table.table.plan(Action.COMPACTION, [GROUP])
    table.take_at_once(plan.requested_time)


def test_a_server_publishes_by_itself(following_table: PublishedTable) -> None:
    for number in range(3):
        following_table.write(row(number), bucket=number)
        assert following_table.published().failure is None
        assert following_table.hudi_rows() == following_table.rows()


@pytest.mark.parametrize("as_of", [None, "20200101000000000"], ids=["rows", "no rows"])
def test_batches_become_a_table_with_the_schema_of_the_hudi_table(
    table: PublishedTable, as_of: str | None
) -> None:
    table.write(row(1))
    table.publish()
    read = hudi.HudiTable(table.location)
    options = hudi.HudiReadOptions()
    batches = read.read(options if as_of is None else options.with_as_of_timestamp(as_of))

    rows = pa.Table.from_batches(batches, read.get_schema_with_meta_fields())

    assert rows.column("id").to_pylist() == ([1] if as_of is None else [])
