"""The views of a table as of a time, all pages of each, compared with a reader that replays the events."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Set
from typing import Any, Final

import pytest

from chronolake_metastore import errors
from chronolake_metastore.domain import slices
from chronolake_metastore.domain.slices import FileSlice, Replacement, Slices
from chronolake_metastore.queries import file_groups, files, partitions, slices as slice_queries
from chronolake_metastore.queries.slices import SliceSelection
from chronolake_metastore.store.files import FileOfInstant
from chronolake_metastore.store.postgres.engine import Database
from chronolake_model import files as wire
from chronolake_model.file_names import FileKind, bucket_of
from chronolake_model.scans import Scan
from chronolake_model.slices import BucketName, FindFileGroups, FoundFileGroup
from chronolake_model.times import Micros, parse_time
from chronolake_model.vocabulary import View
from tests.store.naive_reader import Group, Names, Slice, State
from tests.store.shown import TESTER

PAGE: Final = 2
"""Entries of a page: few, so that there are pages."""
_Shown = dict[Group, tuple[str | None, Names]]


class Views:
    """The views of a table as of one time."""

    def __init__(
        self,
        database: Database,
        table: str,
        as_of: int,
        expected: State,
        served_from: int | None = None,
        cleaned: Set[str] = frozenset(),
    ) -> None:
        """``cleaned`` are the names of files whose slices no history has, as of any time."""
        self._served_from = served_from
        self._database = database
        self._table = table
        self._as_of = Micros(as_of)
        self._expected = expected
        self._cleaned = cleaned

    async def compare(self, turn: int | None = None) -> None:
        """Compare each view, and the pure slicing rule, with the events up to the time.

        Slices before or on a time are compared at all times, or at the one that ``turn`` selects.
        """
        await self.compare_lists()
        times: set[int] = set()
        for group in self._expected.groups():
            expected = self._expected.slices(group)
            assert _historic(self._cut(group)) == expected
            assert await self._history(group) == [
                each for each in expected if self._cleaned.isdisjoint({each.base, *each.logs})
            ]
            times |= {time for file_slice in expected for time in (file_slice.time, file_slice.time - 1)}
        if turn is not None and times:
            times = {sorted(times)[turn % len(times)]}
        for before_or_on in (None, *times):
            await self.compare_snapshots(before_or_on)

    async def refused(self) -> None:
        """As of a cleaned time, all of them are refused."""
        group = next(iter(self._expected.groups()), ("", "none"))
        database, table, at = self._database, self._table, self._as_of
        for answer in (
            partitions.page(TESTER, database, table, at, PAGE, None),
            file_groups.replaced(TESTER, database, table, at, PAGE, None),
            file_groups.pending(TESTER, database, table, at, PAGE, None),
            file_groups.history(TESTER, database, table, group, at, PAGE, None),
            slice_queries.snapshot(TESTER, database, table, SliceSelection(View.LATEST, at), PAGE, None),
            files.scan(TESTER, database, table, Scan(), at),
            file_groups.find(TESTER, database, table, FindFileGroups(), at),
            files.changes(TESTER, database, table, at, None, PAGE, None),
        ):
            with pytest.raises(errors.HistoryCleaned):
                await answer

    async def compare_snapshots(self, before_or_on: int | None) -> None:
        """Files of every kind."""
        for view in View:
            expected = self._expected.seen(view, before_or_on)
            assert self._by_rule(view, before_or_on) == expected
            if before_or_on is not None and before_or_on < (self._served_from or 0):
                with pytest.raises(errors.HistoryCleaned):
                    await self._snapshot(view, before_or_on)
                continue
            assert await self._snapshot(view, before_or_on) == expected, (view, before_or_on)
        if before_or_on is None:
            assert await self._live() == self._expected.seen("merged")
            await self.compare_named_groups()

    async def compare_named_groups(self) -> None:
        """The file groups of a request by their file ids, and those of a bucket index by their buckets."""
        expected = self._expected.seen("merged")
        groups = [*self._expected.groups(), ("nowhere", "none")]
        buckets = sorted({(path, bucket_of(file_id)) for path, file_id in groups[:-1]})
        names = [wire.FileGroupName(*group) for group in groups]
        found = await self._found(names, [BucketName(*bucket) for bucket in buckets])
        by_name, by_bucket = found[: len(groups)], found[len(groups) :]
        assert [entry.slice and _names(entry.slice) for entry in by_name] == list(map(expected.get, groups))
        for bucket, entry in zip(buckets, by_bucket, strict=True):
            live = [group for group in expected if (group[0], bucket_of(group[1])) == bucket]
            replaced = [name for path, name in self._expected.replaced if (path, bucket_of(name)) == bucket]
            assert ([] if entry.slice is None else [_group(entry.slice)]) == live
            assert entry.replaced == max(replaced, default=None)

    async def _found(self, names: list[wire.FileGroupName], buckets: list[BucketName]) -> list[FoundFileGroup]:
        def page(cursor: str | None) -> Awaitable[Any]:
            body = FindFileGroups(names, buckets, limit=PAGE, cursor=cursor)
            return file_groups.find(TESTER, self._database, self._table, body, self._as_of)

        return await _pages("file_groups", page)

    async def compare_lists(self) -> None:
        """Partitions, replaced file groups, and those for which table services are pending."""
        database, table, at = self._database, self._table, self._as_of
        entries = await _pages(
            "partitions", lambda cursor: partitions.page(TESTER, database, table, at, PAGE, cursor)
        )
        totals = {
            entry.partition_path: (entry.file_groups, entry.files, entry.size_bytes, entry.records)
            for entry in entries
        }
        assert totals == self._expected.partitions()
        entries = await _pages(
            "file_groups", lambda cursor: file_groups.replaced(TESTER, database, table, at, PAGE, cursor)
        )
        assert {_group(entry): _times(entry.replaced) for entry in entries} == self._expected.replaced
        entries = await _pages(
            "file_groups", lambda cursor: file_groups.pending(TESTER, database, table, at, PAGE, cursor)
        )
        planned = {(_group(entry), parse_time(entry.requested_time)): entry.action for entry in entries}
        assert planned == self._expected.pending

    async def _live(self) -> _Shown:
        entries = await _pages(
            "slices",
            lambda cursor: files.snapshot(TESTER, self._database, self._table, self._as_of, None, PAGE, cursor),
        )
        return {_group(entry): _names(entry) for entry in entries}

    async def _snapshot(self, view: View, before_or_on: int | None) -> _Shown:
        wanted = SliceSelection(view, self._as_of, None if before_or_on is None else Micros(before_or_on))
        entries = await _pages(
            "slices",
            lambda cursor: slice_queries.snapshot(TESTER, self._database, self._table, wanted, PAGE, cursor),
        )
        return {_group(entry): _names(entry) for entry in entries}

    async def _history(self, group: Group) -> list[Slice]:
        entries = await _pages(
            "slices",
            lambda cursor: file_groups.history(
                TESTER, self._database, self._table, group, self._as_of, PAGE, cursor
            ),
        )
        return [
            Slice(
                parse_time(entry.base_instant_time),
                *_names(entry),
                entry.pending,
                None if entry.superseded_at is None else parse_time(entry.superseded_at),
            )
            for entry in entries
        ]

    def _cut(self, group: Group) -> Slices[FileOfInstant]:
        published = [
            FileOfInstant(
                *group,
                file.name,
                FileKind(file.kind),
                file.size_bytes,
                file.records,
                Micros(file.requested_time),
                Micros(file.completion_time),
                schema_version=1,
                has_field_ids=False,
            )
            for file in self._expected.files
            if file.group == group
        ]
        compactions = [
            Micros(time)
            for (name, time), action in self._expected.pending.items()
            if name == group and action == "compaction"
        ]
        gone = self._expected.replaced.get(group)
        replacement = None if gone is None else Replacement(Micros(gone[0]), Micros(gone[1]))
        return slices.cut(published, compactions, replacement)

    def _by_rule(self, view: View, before_or_on: int | None) -> _Shown:
        shown = {}
        for group in self._expected.groups():
            known = self._cut(group)
            if before_or_on is not None:
                known = known.before_or_on(Micros(before_or_on))
            file_slice = {View.MERGED: known.merged, View.LATEST: known.latest}.get(
                view, known.read_optimised
            )()
            if file_slice is not None:
                shown[group] = _file_names(file_slice)
        return shown


async def _pages(entries: str, page: Callable[[str | None], Awaitable[Any]]) -> list[Any]:
    collected, cursor = [], None
    while True:
        answer = await page(cursor)
        collected += getattr(answer, entries)
        cursor = answer.next_cursor
        if cursor is None:
            return collected


def _group(entry: Any) -> Group:
    return entry.partition_path, entry.file_id


def _times(entry: Any) -> tuple[int, int]:
    return parse_time(entry.requested_time), parse_time(entry.completion_time)


def _names(entry: Any) -> tuple[str | None, Names]:
    return None if entry.base_file is None else _name(entry.base_file), tuple(map(_name, entry.log_files))


def _name(file: wire.DataFile) -> str:
    return file.path.rpartition("/")[2]


def _file_names(file_slice: FileSlice[FileOfInstant]) -> tuple[str | None, Names]:
    return None if file_slice.base is None else file_slice.base.file_name, tuple(
        log.file_name for log in file_slice.logs
    )


def _historic(group: Slices[FileOfInstant]) -> list[Slice]:
    return [
        Slice(file_slice.time, *_file_names(file_slice), file_slice.is_pending, group.superseded_at(file_slice))
        for file_slice in group.all
    ]
