"""The views of a table over known histories, as of any time of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from chronolake_metastore.domain import tables
from chronolake_metastore.domain.definitions import NewDefinition
from chronolake_metastore.queries import file_groups, partitions, slices
from chronolake_metastore.queries.slices import SliceSelection
from chronolake_model import instants as wire, tables as wire_tables
from chronolake_model.file_names import base_file_name, bucket_file_id
from chronolake_model.files import FileGroupName, WriteStat
from chronolake_model.partition_paths import HIVE_STYLE_PROPERTY
from chronolake_model.slices import (
    FileGroupHistory,
    Partition,
    Partitions,
    PendingFileGroups,
    ReplacedFileGroups,
)
from chronolake_model.times import Micros, parse_time
from chronolake_model.vocabulary import Action, Operation, View
from tests.store.shown import TESTER
from tests.store.tables_of_types import COW, MOR, TablesOfTypes, group, stat

_Slice = tuple[str | None, list[str]]
"""The instants of a slice's base file and of its log files."""
BY_DAY: Final = "shop.by_day"
FIRST: Final = bucket_file_id(1)


class ViewedTables(TablesOfTypes):
    """Tables whose views are read, as of now or of a time."""

    def view(
        self, view: View, as_of: str | None = None, before_or_on: str | None = None, table: str = MOR
    ) -> dict[str, _Slice]:
        wanted = SliceSelection(view, _time(as_of), _time(before_or_on))
        page = self._runner.run(slices.snapshot(TESTER, self._database, table, wanted, 100, None))
        return {
            file_slice.file_id: (
                None if file_slice.base_file is None else file_slice.base_file.requested_time,
                [log.requested_time for log in file_slice.log_files],
            )
            for file_slice in page.slices
        }

    def history(self, as_of: str | None = None, table: str = MOR) -> FileGroupHistory:
        query = file_groups.history(TESTER, self._database, table, ("", FIRST), _time(as_of), 100, None)
        return self._runner.run(query)

    def pending(self, as_of: str | None = None) -> PendingFileGroups:
        return self._runner.run(file_groups.pending(TESTER, self._database, MOR, _time(as_of), 100, None))

    def replaced(self, table: str, as_of: str | None = None) -> ReplacedFileGroups:
        return self._runner.run(file_groups.replaced(TESTER, self._database, table, _time(as_of), 100, None))

    def partitions(self, as_of: str | None = None, limit: int = 100, cursor: str | None = None) -> Partitions:
        return self._runner.run(partitions.page(TESTER, self._database, BY_DAY, _time(as_of), limit, cursor))

    def log(self, instant: wire.Instant) -> wire.Instant:
        return self.finish(instant, stat(instant, 1, log=True))


@pytest.fixture
def viewed(dsn: str) -> Iterator[ViewedTables]:
    with ViewedTables(dsn) as made:
        made.make()
        yield made


def in_partition(instant: wire.Instant, path: str, bucket: int, size_bytes: int = 100) -> WriteStat:
    file_id = bucket_file_id(bucket)
    return WriteStat(path, file_id, base_file_name(file_id, "0-0-0", instant.requested_time), size_bytes, 10)


def _time(time: str | None) -> Micros | None:
    return None if time is None else parse_time(time)


def test_the_worked_example_of_rfc_66_step_by_step(viewed: ViewedTables) -> None:
    """Delta writers are in flight while a compaction is scheduled, and while it completes."""
    base = viewed.written(MOR, Action.DELTACOMMIT, 1)
    first, second, third = (viewed.start(MOR, Action.DELTACOMMIT) for _ in range(3))
    viewed.log(first)
    before = viewed.log(second)
    compaction = viewed.planned(MOR, Action.COMPACTION, group(1))
    done = viewed.finish(compaction, stat(compaction, 1))
    after = viewed.log(third)
    old = (base.requested_time, [first.requested_time, second.requested_time])
    new = (compaction.requested_time, [third.requested_time])

    assert viewed.view(View.LATEST) == viewed.view(View.MERGED) == {FIRST: new}
    assert viewed.view(View.MERGED, compaction.requested_time) == {FIRST: old}
    assert viewed.view(View.LATEST, compaction.requested_time) == {FIRST: (None, [])}
    assert viewed.view(View.LATEST, before.completion_time) == {FIRST: old}
    assert viewed.view(View.READ_OPTIMISED, before.completion_time) == {FIRST: (base.requested_time, [])}
    assert viewed.view(View.READ_OPTIMISED) == {FIRST: (compaction.requested_time, [])}
    assert viewed.view(View.LATEST, done.completion_time) == {FIRST: (compaction.requested_time, [])}
    assert viewed.view(View.MERGED, before_or_on=third.requested_time) == {FIRST: old}
    assert viewed.view(View.MERGED, before_or_on=after.completion_time) == {FIRST: new}
    history = viewed.history().slices
    assert [file_slice.base_instant_time for file_slice in history] == [
        base.requested_time,
        compaction.requested_time,
    ]
    assert [file_slice.superseded_at for file_slice in history] == [done.completion_time, None]
    assert [len(file_slice.log_files) for file_slice in history] == [2, 1]


def test_a_pending_compaction_opens_a_slice_until_it_completes_or_is_rolled_back(viewed: ViewedTables) -> None:
    first = viewed.log(viewed.start(MOR, Action.DELTACOMMIT))
    planned = viewed.planned(MOR, Action.COMPACTION, group(1), inflight=False)
    second = viewed.log(viewed.start(MOR, Action.DELTACOMMIT))
    both = (None, [first.requested_time, second.requested_time])
    assert viewed.view(View.LATEST) == {FIRST: (None, [second.requested_time])}
    assert viewed.view(View.MERGED) == {FIRST: both}
    assert viewed.view(View.READ_OPTIMISED) == {}
    assert [file_slice.pending for file_slice in viewed.history().slices] == [False, True]

    undone = viewed.undo(planned)

    assert undone.rolled_back_by is not None
    assert viewed.view(View.LATEST) == {FIRST: both}
    assert viewed.pending().file_groups == []
    assert [file_slice.pending for file_slice in viewed.history().slices] == [False]
    for as_of in (planned.requested_time, second.completion_time, undone.rolled_back_by):
        [waiting] = viewed.pending(as_of).file_groups
        assert (waiting.file_id, waiting.requested_time) == (FIRST, planned.requested_time)
        assert waiting.action is Action.COMPACTION
        assert viewed.history(as_of).slices[-1].pending


@pytest.mark.parametrize("action", [Action.LOGCOMPACTION, Action.CLUSTERING])
def test_a_pending_log_compaction_or_clustering_opens_no_slice(viewed: ViewedTables, action: Action) -> None:
    written = viewed.log(viewed.start(MOR, Action.DELTACOMMIT))
    viewed.planned(MOR, action, group(1))

    assert viewed.view(View.LATEST) == viewed.view(View.MERGED) == {FIRST: (None, [written.requested_time])}
    assert [file_group.action for file_group in viewed.pending().file_groups] == [action]


def test_pending_plans_are_listed_as_of_the_last_event(viewed: ViewedTables) -> None:
    """The answer is of the last time of the log, and so it stays."""
    viewed.log(viewed.start(MOR, Action.DELTACOMMIT))
    planned = viewed.planned(MOR, Action.COMPACTION, group(1))

    answer = viewed.pending()

    assert answer.as_of == planned.requested_time
    viewed.finish(planned, stat(planned, 1))
    assert viewed.pending().file_groups == []
    assert viewed.pending(answer.as_of) == answer


def test_a_replaced_group_is_listed_with_its_replacement_and_its_history(viewed: ViewedTables) -> None:
    written = viewed.written(COW, Action.COMMIT, 1)
    saved = viewed.save(COW)
    overwrite = viewed.start(COW, Action.REPLACECOMMIT, operation=Operation.INSERT_OVERWRITE)
    done = viewed.finish(overwrite, stat(overwrite, 1, generation=1), replaced=(group(1),))

    [gone] = viewed.replaced(COW).file_groups
    history = viewed.history(table=COW)

    assert (gone.file_id, gone.replaced) == (FIRST, history.replaced)
    assert gone.replaced.requested_time == overwrite.requested_time
    assert gone.replaced.completion_time == done.completion_time
    assert (gone.replaced.action, gone.replaced.operation) == (
        Action.REPLACECOMMIT,
        Operation.INSERT_OVERWRITE,
    )
    assert [file_slice.superseded_at for file_slice in history.slices] == [done.completion_time]
    assert viewed.replaced(COW, saved.completion_time).file_groups == []
    there: dict[str, _Slice] = {FIRST: (written.requested_time, [])}
    assert viewed.view(View.MERGED, before_or_on=written.requested_time, table=COW) == there
    assert viewed.view(View.LATEST, as_of=saved.completion_time, table=COW) == there
    assert FIRST not in viewed.view(View.MERGED, before_or_on=overwrite.requested_time, table=COW)


def test_an_unwritten_group_has_no_history(viewed: ViewedTables) -> None:
    written = viewed.log(viewed.start(MOR, Action.DELTACOMMIT))

    assert viewed.history(written.requested_time).slices == []
    assert viewed.history("20000101000000000").as_of is None
    assert viewed.history(table=COW).slices == []


def by_day() -> tables.CreateTable:
    """The parameters of a table with partitions."""
    return tables.CreateTable(
        NewDefinition(
            name=BY_DAY,
            base_path="s3://lake/by_day",
            schema=[wire_tables.NewField("id", "bigint"), wire_tables.NewField("day", "string")],
            record_key_fields=["id"],
            partition_fields=["day"],
            properties={HIVE_STYLE_PROPERTY: "false"},
        )
    )


def test_partitions_total_their_live_files(viewed: ViewedTables) -> None:
    viewed.done(by_day())
    write = viewed.start(BY_DAY, Action.COMMIT)
    first = viewed.finish(write, *(in_partition(write, path, bucket) for path in "abc" for bucket in (0, 1)))
    again = viewed.start(BY_DAY, Action.COMMIT)
    viewed.finish(again, in_partition(again, "b", 1, size_bytes=7))
    gone = viewed.start(BY_DAY, Action.REPLACECOMMIT)
    viewed.finish(gone, replaced=tuple(FileGroupName("c", bucket_file_id(bucket)) for bucket in (0, 1)))

    page = viewed.partitions(limit=1)
    next_page = viewed.partitions(limit=2, cursor=page.next_cursor)

    assert viewed.partitions(first.requested_time).partitions == []
    assert viewed.partitions(first.completion_time).partitions == [
        Partition(path, 2, 2, 200, 20) for path in "abc"
    ]
    assert [*page.partitions, *next_page.partitions] == [
        Partition("a", 2, 2, 200, 20),
        Partition("b", 2, 2, 107, 20),
    ]
    assert next_page.next_cursor is None


def test_a_partition_that_is_empty_by_now_does_not_end_the_pages(viewed: ViewedTables) -> None:
    viewed.done(by_day())
    write = viewed.start(BY_DAY, Action.COMMIT)
    viewed.finish(write, *(in_partition(write, path, 0) for path in "abcde"))
    gone = viewed.start(BY_DAY, Action.REPLACECOMMIT)
    viewed.finish(gone, replaced=tuple(FileGroupName(path, bucket_file_id(0)) for path in "abd"))

    page = viewed.partitions(limit=1)
    next_page = viewed.partitions(limit=1, cursor=page.next_cursor)
    end = viewed.partitions(limit=1, cursor=next_page.next_cursor)

    assert [partition.partition_path for partition in (*page.partitions, *next_page.partitions)] == ["c", "e"]
    assert (end.partitions, end.next_cursor) == ([], None)
