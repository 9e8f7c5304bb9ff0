"""The views of a table as of a time, all pages of each, held against a reader who replays the events."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import pytest

from chronolake_metastore import errors
from chronolake_metastore.domain import slices
from chronolake_metastore.domain.slices import FileSlice, Replacement, Slices
from chronolake_metastore.queries import file_groups, files, partitions, slices as slice_queries
from chronolake_metastore.queries.slices import SliceSelection
from chronolake_metastore.store.files import PublishedFile
from chronolake_metastore.store.postgres.engine import Database
from chronolake_model import files as wire
from chronolake_model.file_names import FileKind
from chronolake_model.scans import Scan
from chronolake_model.times import Micros, parse_time
from chronolake_model.vocabulary import View
from tests.store.naive_reader import Group, Names, Slice, State

PAGE: Final = 2
"""Entries of a page: few, so that there are pages."""
_Shown = dict[Group, tuple[str | None, Names]]


class Views:
    """The views of a table as of one time."""

    def __init__(
        self, database: Database, table: str, as_of: int, expected: State, served_from: int | None = None
    ) -> None:
        self._served_from = served_from
        self._database = database
        self._table = table
        self._as_of = Micros(as_of)
        self._expected = expected

    async def compare(self, turn: int | None = None) -> None:
        """Each says what the events up to the time say, and so does the slicing rule as a pure function.

        Of slices before or on a time those of all times, or of one in turn.
        """
        await self.compare_lists()
        times: set[int] = set()
        for group in self._expected.groups():
            expected = self._expected.slices(group)
            assert _historic(self._cut(group)) == expected
            assert await self._history(group) == expected
            times |= {time for one in expected for time in (one.time, one.time - 1)}
        if turn is not None and times:
            times = {sorted(times)[turn % len(times)]}
        for before_or_on in (None, *times):
            await self.compare_snapshots(before_or_on)

    async def refused(self) -> None:
        """Of a time that was cleaned, none of them is shown."""
        group = next(iter(self._expected.groups()), ("", "none"))
        database, table, at = self._database, self._table, self._as_of
        for answer in (
            partitions.page(database, table, at, PAGE, None),
            file_groups.replaced(database, table, at, PAGE, None),
            file_groups.pending(database, table, at, PAGE, None),
            file_groups.history(database, table, group, at, PAGE, None),
            slice_queries.snapshot(database, table, SliceSelection(View.LATEST, at), PAGE, None),
            files.scan(database, table, Scan(), at),
            files.changes(database, table, at, None, PAGE, None),
        ):
            with pytest.raises(errors.HistoryCleaned):
                await answer

    async def compare_snapshots(self, before_or_on: int | None) -> None:
        """Of every kind."""
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

    async def compare_lists(self) -> None:
        """Partitions, replaced file groups, and those for which table services are pending."""
        database, table, at = self._database, self._table, self._as_of
        found = await _pages("partitions", lambda cursor: partitions.page(database, table, at, PAGE, cursor))
        totals = {
            one.partition_path: (one.file_groups, one.files, one.size_bytes, one.records) for one in found
        }
        assert totals == self._expected.partitions()
        found = await _pages(
            "file_groups", lambda cursor: file_groups.replaced(database, table, at, PAGE, cursor)
        )
        assert {_group(one): _times(one.replaced) for one in found} == self._expected.replaced
        found = await _pages(
            "file_groups", lambda cursor: file_groups.pending(database, table, at, PAGE, cursor)
        )
        planned = {(_group(one), parse_time(one.requested_time)): one.action for one in found}
        assert planned == self._expected.pending

    async def _live(self) -> _Shown:
        found = await _pages(
            "slices",
            lambda cursor: files.snapshot(self._database, self._table, self._as_of, None, PAGE, cursor),
        )
        return {_group(one): _names(one) for one in found}

    async def _snapshot(self, view: View, before_or_on: int | None) -> _Shown:
        wanted = SliceSelection(view, self._as_of, None if before_or_on is None else Micros(before_or_on))
        found = await _pages(
            "slices",
            lambda cursor: slice_queries.snapshot(self._database, self._table, wanted, PAGE, cursor),
        )
        return {_group(one): _names(one) for one in found}

    async def _history(self, group: Group) -> list[Slice]:
        found = await _pages(
            "slices",
            lambda cursor: file_groups.history(self._database, self._table, group, self._as_of, PAGE, cursor),
        )
        return [
            Slice(
                parse_time(one.base_instant_time),
                *_names(one),
                one.pending,
                None if one.superseded_at is None else parse_time(one.superseded_at),
            )
            for one in found
        ]

    def _cut(self, group: Group) -> Slices[PublishedFile]:
        published = [
            PublishedFile(
                *group,
                file.name,
                FileKind(file.kind),
                file.size_bytes,
                file.records,
                Micros(file.requested_time),
                Micros(file.completion_time),
                schema_version=1,
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
            one = {View.MERGED: known.merged, View.LATEST: known.latest}.get(view, known.read_optimised)()
            if one is not None:
                shown[group] = _file_names(one)
        return shown


async def _pages(entries: str, page: Callable[[str | None], Awaitable[Any]]) -> list[Any]:
    found, cursor = [], None
    while True:
        answer = await page(cursor)
        found += getattr(answer, entries)
        cursor = answer.next_cursor
        if cursor is None:
            return found


def _group(one: Any) -> Group:
    return one.partition_path, one.file_id


def _times(one: Any) -> tuple[int, int]:
    return parse_time(one.requested_time), parse_time(one.completion_time)


def _names(one: Any) -> tuple[str | None, Names]:
    return None if one.base_file is None else _name(one.base_file), tuple(map(_name, one.log_files))


def _name(file: wire.DataFile) -> str:
    return file.path.rpartition("/")[2]


def _file_names(one: FileSlice[PublishedFile]) -> tuple[str | None, Names]:
    return None if one.base is None else one.base.file_name, tuple(log.file_name for log in one.logs)


def _historic(group: Slices[PublishedFile]) -> list[Slice]:
    return [Slice(one.time, *_file_names(one), one.is_pending, group.superseded_at(one)) for one in group.all]
