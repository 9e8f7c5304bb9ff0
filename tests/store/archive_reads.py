"""The answers of a reader of an archive, beside those of PostgreSQL, which still has all rows."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import msgspec
import psycopg
import pytest

from chronolake_metastore.archive import instant_reading
from chronolake_metastore.archive.reading import ArchiveReader
from chronolake_metastore.archive.storage import ArchiveStorage
from chronolake_metastore.domain.instants import Instant
from chronolake_metastore.domain.lists import ListName
from chronolake_metastore.queries import archived as across
from chronolake_metastore.settings import Settings
from chronolake_metastore.store import archived, deletions, event_lists, feed, instants, packed_results
from chronolake_metastore.store.archived import ArchivedEvents, LogBorder
from chronolake_metastore.store.deletions import FIRST
from chronolake_metastore.store.event_log import Cursor
from chronolake_metastore.store.feed import FeedEntry
from chronolake_metastore.store.instants import Filter
from chronolake_metastore.store.markers import InstantRef
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.postgres.pooled import Connection
from chronolake_metastore.store.postgres.transaction import Query
from chronolake_model.marker_names import DeletedFile
from chronolake_model.times import Micros
from chronolake_model.vocabulary import Action, State
from chronolake_storage.files import Files
from tests.store.timelines import draw_filter, place

ALL_TIMES = instant_reading.ALL
BYTES_MAX = (1, 2_000, 20_000, 1 << 30)
ALL = Micros(1 << 62)


def reader_of(files: Files) -> ArchiveReader:
    """A reader that has read nothing."""
    return ArchiveReader(ArchiveStorage(files))


def compare(dsn: str, reader: ArchiveReader, seed: int = 0, borders: Sequence[int] = ()) -> None:
    """Assert that a reader of an archive of all of the log gives what PostgreSQL gives.

    ``borders`` are transactions before which it must give the same part, and the queries the same pages.
    """
    reads = _Reads(dsn, reader, random.Random(seed))

    async def run() -> None:
        database = Database(Settings(dsn=dsn), lambda: reader)
        try:
            async with database.reading() as connection:
                await reads.compare_order(connection, [ALL, *borders])
                await reads.compare_tables(connection)
                await reads.compare_places(connection)
                await reads.compare_lists(connection)
                await reads.compare_timelines(connection)
                for border in borders:
                    await reads.compare_across(database, connection, LogBorder(border))
        finally:
            await database.close()

    reads.compare_outcomes()
    reads.compare_instants()
    asyncio.run(run())


class _Reads:
    def __init__(self, dsn: str, reader: ArchiveReader, draws: random.Random) -> None:
        self._dsn = dsn
        self._reader = reader
        self._draws = draws

    def _rows(self, query: str) -> list[Any]:
        with psycopg.connect(self._dsn) as connection:
            connection.execute("SET search_path = chronolake")
            return connection.execute(query.encode()).fetchall()

    def _limits(self) -> tuple[int, int]:
        return self._draws.choice((1, 2, 3, 7, 50, 1_000)), self._draws.choice(BYTES_MAX)

    def compare_outcomes(self) -> None:
        columns = "request_id, fingerprint, table_id, version, code, result, dialect, answer_digest"
        rest = "micros(recorded_at), command, actor, address, chain_id, number"
        rows = self._rows(f"SELECT {columns}, {rest} FROM outcome")
        assert rows
        for row in rows:
            outcome = self._reader.outcome(row[0])
            assert outcome is not None
            stored = dict(zip(outcome.__struct_fields__, row, strict=False))
            place = stored["table_id"], stored["version"], stored["recorded_at"]
            stored["result"] = packed_results.unpack(stored["result"], *place)
            assert {name: getattr(outcome, name) for name in stored} == stored
            assert self._reader.outcome(f"{row[0]}-") is None

    def compare_instants(self) -> None:
        rows = self._rows(
            "SELECT table_id, micros(requested_time), micros(completion_time), action, operation, state "
            "FROM instant ORDER BY table_id, requested_time"
        )
        for table_id in {row[0] for row in rows}:
            expected = [row[1:] for row in rows if row[0] == table_id]
            assert self._timeline(table_id) == expected
            asked = [requested for requested, *_ in expected] + [Micros(1), Micros(expected[0][0] + 1)]
            self._draws.shuffle(asked)
            times = {requested: completed for requested, completed, *_ in expected}
            completed = self._reader.completion_times(table_id, asked[:20])
            assert completed == [times.get(requested) for requested in asked[:20]]

    def _timeline(self, table_id: UUID) -> list[Any]:
        """The timeline in pages; with the payloads, and in any range, it is the same."""
        found, requested = list[Any](), ALL_TIMES
        while page := self._indexed(table_id, requested, self._limits()[0]).to_pylist():
            found += [tuple(instant.values()) for instant in page]
            requested = range(found[-1][0] + 1, ALL_TIMES.stop)
        low, high = sorted(self._draws.choices(found, k=2))
        between = self._indexed(table_id, range(low[0], high[0]), 1_000_000).to_pylist()
        assert [tuple(instant.values()) for instant in between] == [
            instant for instant in found if low[0] <= instant[0] < high[0]
        ]
        self._compare_payloads(table_id, found)
        return found

    def _indexed(self, table_id: UUID, requested: range, limit: int) -> Any:
        return self._reader.of_runs(lambda runs: instant_reading.timeline(runs, table_id, requested, limit))

    def _with_payloads(self, table_id: UUID, requested: range, limit: int, bytes_max: int) -> list[Any]:
        of = table_id, requested, limit, bytes_max
        return self._reader.of_runs(lambda runs: instant_reading.with_payloads(runs, *of).to_pylist())

    def _compare_payloads(self, table_id: UUID, instants: list[Any]) -> None:
        [[payloads]] = self._rows(
            f"SELECT json_object_agg(version, payload::text) FROM event WHERE table_id = '{table_id}'"
        )
        versions = self._rows(
            f"SELECT version FROM instant WHERE table_id = '{table_id}' ORDER BY requested_time"
        )
        found, requested = list[Any](), ALL_TIMES
        while page := self._with_payloads(table_id, requested, *self._limits()):
            found += [tuple(instant.values()) for instant in page]
            requested = range(found[-1][0] + 1, ALL_TIMES.stop)
        assert found == [
            (*instant, payloads[f"{version}"]) for instant, (version,) in zip(instants, versions, strict=True)
        ]

    async def compare_order(self, connection: Connection, borders: list[int]) -> None:
        for until in borders:
            after = (0, 0)
            is_last = False
            while not is_last:
                limit, bytes_max = self._limits()
                page = self._reader.events_in_order(after, until, limit, bytes_max)
                cursor = Cursor(str(after[0]), after[1])
                expected, is_last = await feed.page(connection, cursor, limit, bytes_max)
                before = [entry for entry in expected if int(entry.transaction_id) < until]
                assert await archived.entries(connection, page.events) == before
                if before != expected:
                    assert not page.is_cut
                    break
                assert until < ALL or is_last == _is_last(page, limit)
                after = _place(expected[-1]) if expected else after

    async def compare_tables(self, connection: Connection) -> None:
        for table_id, last in self._rows("SELECT table_id, max(version) FROM event GROUP BY table_id"):
            version, is_last = 0, table_id.int == 0
            while not is_last:
                limit, bytes_max = self._limits()
                page = self._reader.events_of_table(table_id, version, last, limit, bytes_max)
                expected, is_last = await feed.page_of_table(connection, table_id, version, limit, bytes_max)
                assert await archived.entries(connection, page.events) == expected
                assert is_last == _is_last(page, limit)
                version = expected[-1].version if expected else version
            await self._compare_middle(connection, table_id, last)

    async def _compare_middle(self, connection: Connection, table_id: UUID, last: int) -> None:
        """Compare single events at random versions, as the first read of another reader."""
        for version in self._draws.sample(range(last), min(3, last)):
            page = self._reader.events_of_table(table_id, version, version + 1, 1, 1)
            [[digest]] = self._rows(
                f"SELECT hash FROM event WHERE table_id = '{table_id}' AND version = {version + 1}"
            )
            assert [found.event.hash for found in page.events] == [digest]

    async def compare_across(self, database: Database, connection: Connection, border: LogBorder) -> None:
        """Compare pages that begin before a border and go on after it, though nothing has left the database."""
        tables = self._rows("SELECT table_id FROM clock WHERE version > 0")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(archived, "find_border", lambda: Query.known(border))
            cursor, is_last = Cursor(), False
            while not is_last:
                limits = self._limits()
                page = await across.page(database, cursor, *limits)
                assert page == await feed.page(connection, cursor, *limits)
                entries, is_last = page
                cursor = Cursor(entries[-1].transaction_id, entries[-1].position) if entries else cursor
            for (table_id,) in tables:
                version, is_last = 0, table_id.int == 0
                while not is_last:
                    limits = self._limits()
                    page = await across.page_of_table(database, table_id, version, *limits)
                    assert page == await feed.page_of_table(connection, table_id, version, *limits)
                    entries, is_last = page
                    version = entries[-1].version if entries else version

    async def compare_places(self, connection: Connection) -> None:
        rows = self._rows("SELECT transaction_id::text::bigint, position, table_id, version FROM event")
        for transaction_id, position, table_id, version in self._draws.sample(rows, min(20, len(rows))):
            assert self._reader.has_event((transaction_id, position))
            assert not self._reader.has_event((transaction_id - 1, position))
            assert self._reader.version_at(table_id, (transaction_id, position)) == version
            place = (transaction_id + self._draws.randint(-3, 3), position)
            found = await feed.version_at(connection, table_id, Cursor(str(place[0]), place[1]))
            assert self._reader.version_at(table_id, place) == found
            time = await feed.time_of_version(connection, table_id, version)
            assert self._reader.time_of_version(table_id, version) == time
            assert self._reader.time_of_version(table_id, 1_000_000) is None

    async def compare_timelines(self, connection: Connection) -> None:
        for (table_id,) in self._rows("SELECT DISTINCT table_id FROM instant"):
            all_ = await instants.page(connection, table_id, Filter(), None, 1_000)
            whole = [await instants.get(connection, table_id, instant.requested_time) for instant in all_]
            named = [instant.requested_time for instant in all_]
            assert self._reader.instants(table_id, [*named, Micros(7)]) == [*map(_swept, whole), None]
            for _ in range(3):
                await self._compare_pages(connection, table_id, draw_filter(self._draws, all_))
            await self._compare_completions(connection, table_id, named)

    async def _compare_pages(self, connection: Connection, table_id: UUID, wanted: Filter) -> None:
        after, skip, is_cut = None, self._draws.choice((0, 0, 1, 5)), True
        while is_cut:
            limit, bytes_max = self._limits()
            page = self._reader.page_of_instants(table_id, wanted, after, skip, limit, bytes_max)
            expected = await instants.page(connection, table_id, wanted, after, limit + 1, skip)
            assert page.instants == list(map(_swept, expected[: len(page.instants)]))
            assert page.is_cut == (len(expected) > len(page.instants))
            assert page.skipped == skip or not expected
            is_cut = page.is_cut
            if is_cut:
                after, skip = place(page.instants[-1], wanted), 0

    async def _compare_completions(self, connection: Connection, table_id: UUID, named: list[Micros]) -> None:
        after, until = sorted(self._draws.choices(named, k=2))
        all_ = self._reader.completions(table_id, Micros(0), Micros(ALL), ALL)
        last, _ = await instants.latest_completion(connection, table_id, until)
        assert self._reader.latest_completion(table_id, until) == last
        between = [of for of in all_ if after < of.completed <= until]
        assert self._reader.completions(table_id, after, until, 2) == between[:2]
        restores = await instants.restores_between(connection, table_id, after, until, 1_000)
        assert restores == [
            (of.requested, of.completed)
            for of in between
            if (of.action, of.state) == (Action.RESTORE, State.COMPLETED)
        ]

    async def compare_lists(self, connection: Connection) -> None:
        lists = self._rows("SELECT DISTINCT table_id, micros(instant), list FROM event_entry")
        for table_id, instant, name in lists:
            after = -1
            while after < 1_000_000:
                limit, bytes_max = self._limits()
                of = table_id, Micros(instant), ListName(name), after, limit, bytes_max
                expected = await event_lists.page(connection, *of)
                assert self._reader.entries(*of) == expected
                entries, _ = expected
                after = entries[-1][0] if entries else 1_000_000
        for table_id, instant in self._rows(
            "SELECT DISTINCT table_id, micros(requested_time) FROM deleted_file"
        ):
            file: DeletedFile | None = FIRST
            while file is not None:
                limit, _ = self._limits()
                files = await deletions.page(connection, InstantRef(table_id, instant), file, limit)
                assert self._reader.deleted_files(table_id, instant, file, limit) == files
                file = files[-1] if files else None


def _swept(instant: Instant | None) -> Instant | None:
    """The instant after its sweeps, of which its own events say nothing."""
    return instant and msgspec.structs.replace(instant, unswept_since=None, grace_began_at=None)


def _is_last(page: ArchivedEvents, limit: int) -> bool:
    return not page.is_cut and page.counted < limit


def _place(entry: FeedEntry) -> tuple[int, int]:
    return int(entry.transaction_id), entry.position
