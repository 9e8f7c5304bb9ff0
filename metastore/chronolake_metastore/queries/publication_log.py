"""The log of a table as publication reads it: from PostgreSQL, and what is before that from the archive.

A transaction must not wait for the archive. So a read that needs archived rows ends with ``RowsArchived``, and
runs again from its beginning with the rows of the archive. The log never changes, so each run gets further.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final, TypeVar
from uuid import UUID

import msgspec

from chronolake_metastore import errors
from chronolake_metastore.domain.events import InstantCompleted
from chronolake_metastore.domain.publication_steps import LogEvent
from chronolake_metastore.domain.tables import Table
from chronolake_metastore.queries.archived import ask
from chronolake_metastore.store import archived, publication as stored, published_history
from chronolake_metastore.store.archived import (
    ArchivedEntry,
    ArchivedLog,
    ArchivedStat,
    EventRows,
    FirstEvent,
    LogBorder,
)
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.postgres.pooled import Connection
from chronolake_model.times import Micros, format_time

EVENTS_MAX: Final = 500
BYTES_MAX: Final = 8 * 1024 * 1024
"""Approximate size of a page's events and their files; the steps of the page are of this order."""
FILE_BYTES: Final = 512
"""The share of a file in that size (``publication/page_of_events.sql``)."""
ResultT = TypeVar("ResultT")


class ArchivedRows(msgspec.Struct, frozen=True):
    """Rows that the archive gave, of one table.

    ``pages`` are by the version before them; ``versions`` are those of the last events before times; ``rows``
    are by the version of their event.
    """

    table_id: UUID | None = None
    pages: Mapping[int, Sequence[LogEvent]] = {}
    versions: Mapping[Micros, int] = {}
    rows: Mapping[int, EventRows] = {}

    def joined(self, other: ArchivedRows) -> ArchivedRows:
        """All of both; ``other`` alone if it is of another table, which has got the name meanwhile."""
        if self.table_id != other.table_id:
            return other
        return ArchivedRows(
            self.table_id,
            {**self.pages, **other.pages},
            {**self.versions, **other.versions},
            {**self.rows, **other.rows},
        )


class RowsArchived(Exception):
    """Rows are only in the archive. ``read`` finds them there, outside of transactions."""

    def __init__(self, border: LogBorder, read: Callable[[ArchivedLog], ArchivedRows]) -> None:
        super().__init__("rows of the log are only in the archive")
        self.border = border
        self.read = read


class Logs:
    """The logs of tables in a transaction that reads, with what the archive gave before it."""

    def __init__(self, connection: Connection, found: ArchivedRows) -> None:
        self.connection = connection
        self._found = found

    async def of_table(self, table_id: UUID) -> TableLog:
        """The log of a table."""
        first = await archived.first_event(self.connection, table_id)
        border = None if first.version == 1 else await archived.border(self.connection)
        found = self._found if self._found.table_id == table_id else ArchivedRows()
        return TableLog(self.connection, table_id, first, border, found)


class TableLog:
    """The log of one table. Methods raise ``RowsArchived``."""

    def __init__(
        self,
        connection: Connection,
        table_id: UUID,
        first: FirstEvent,
        border: LogBorder | None,
        found: ArchivedRows,
    ) -> None:
        self._connection = connection
        self._table_id = table_id
        self._border = border
        self._found = found
        self.first = first

    def refuse_archived(self, table: Table, times: Iterable[Micros]) -> None:
        """Raise ``InstantsArchived`` if the database no longer has instants of some requested times.

        Those that a publication needs stay, but for one that begins again at the beginning of the log.
        """
        since = self.first.instants_from
        if since is not None and any(time < since for time in times):
            raise errors.InstantsArchived(
                table.name,
                f"its instants before {format_time(since, table.definition.tick)} have left the database. Run "
                "chronolake-metastore rebuild --with-instants, which brings them back from the archive",
            )

    async def page(self, after: int) -> Sequence[LogEvent]:
        """The events after a version, bounded by ``EVENTS_MAX`` and ``BYTES_MAX``, at least one.

        It ends at the first event in the database at the latest, and goes on there.
        """
        if after + 1 >= self.first.version:
            return await stored.page_of_events(self._connection, self._table_id, after, EVENTS_MAX, BYTES_MAX)
        if after not in self._found.pages:
            table_id, until = self._table_id, self.first.version - 1
            self._ask(lambda log: ArchivedRows(table_id, pages={after: _page(log, table_id, after, until)}))
        return self._found.pages[after]

    async def version_before(self, time: Micros) -> int:
        """The version of the last event before a time; 0 if there is none."""
        if time >= self.first.time:
            return await published_history.version_before(
                self._connection, self._table_id, time, self.first.version
            )
        return self._versions_before([time])[time]

    def rows(self, versions: Iterable[int], requested_times: Iterable[Micros] = ()) -> EventRows:
        """The archived rows of events of some versions, and of those that requested some instants.

        Those of events in the database are not among them.
        """
        # An instant is requested at the time of the event.
        before = {Micros(time + 1) for time in requested_times if time < self.first.time}
        wanted = {version for version in versions if version < self.first.version}
        wanted |= set(self._versions_before(before).values())
        missing = wanted - self._found.rows.keys()
        if missing:
            table_id = self._table_id
            self._ask(lambda log: ArchivedRows(table_id, rows=_rows(log, table_id, missing)))
        found = [self._found.rows[version] for version in sorted(wanted)]
        return EventRows(
            [stat for rows in found for stat in rows.stats], [entry for rows in found for entry in rows.entries]
        )

    def _versions_before(self, times: Iterable[Micros]) -> Mapping[Micros, int]:
        wanted, table_id = set(times), self._table_id
        missing = wanted - self._found.versions.keys()
        if missing:
            self._ask(
                lambda log: ArchivedRows(
                    table_id, versions={time: log.version_before(table_id, time) for time in missing}
                )
            )
        return {time: self._found.versions[time] for time in wanted}

    def _ask(self, read: Callable[[ArchivedLog], ArchivedRows]) -> None:
        # Rows leave after the border is recorded.
        assert self._border is not None
        raise RowsArchived(self._border, read)


async def read(database: Database, read_found: Callable[[ArchivedRows], Awaitable[ResultT]]) -> ResultT:
    """The result of a read that opens ``reading`` with what it is given.

    Raises ``ArchiveNotSet`` or ``ArchiveUnavailable``.
    """
    found = ArchivedRows()
    while True:
        try:
            return await read_found(found)
        except RowsArchived as exc:
            missing = exc
        found = found.joined(await ask(database, missing.border, missing.read))


@asynccontextmanager
async def reading(database: Database, found: ArchivedRows) -> AsyncIterator[Logs]:
    """A transaction that reads logs, at one moment. Rows that leave later stay until it ends."""
    async with database.reading() as connection:
        yield Logs(connection, found)


def _page(log: ArchivedLog, table_id: UUID, after: int, until: int) -> list[LogEvent]:
    page: list[LogEvent] = []
    size = 0
    found = log.events_of_table(table_id, after, until, EVENTS_MAX, BYTES_MAX)
    for archived_event in found.events[: found.counted]:
        row = archived_event.event
        event = stored.log_event(row.version, row.time, row.instant, row.type, row.payload)
        size += row.payload_bytes
        if isinstance(event.payload, InstantCompleted):
            size += FILE_BYTES * event.payload.summary.files
        if page and size > BYTES_MAX:
            break
        page.append(event)
    assert page, f"the archive has no event after version {after} of {table_id}"
    return page


def _rows(log: ArchivedLog, table_id: UUID, versions: set[int]) -> dict[int, EventRows]:
    stats: dict[int, list[ArchivedStat]] = {version: [] for version in versions}
    entries: dict[int, list[ArchivedEntry]] = {version: [] for version in versions}
    rows = log.rows_of_events(table_id, versions)
    for stat in rows.stats:
        stats[stat.version].append(stat)
    for entry in rows.entries:
        entries[entry.version].append(entry)
    return {version: EventRows(stats[version], entries[version]) for version in versions}
