"""Facts for the steps of a publication, in bulk: of the projections, and of rows of the log."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import msgspec

from chronolake_metastore.domain import actions
from chronolake_metastore.domain.events import InstantCompleted
from chronolake_metastore.domain.lists import ListName
from chronolake_metastore.domain.publication_steps import (
    InstantFacts,
    LiveFile,
    LogEvent,
    UndoneInstant,
    WrittenFile,
)
from chronolake_metastore.domain.tables import Table
from chronolake_metastore.queries.publication_log import TableLog
from chronolake_metastore.store import publication as stored
from chronolake_metastore.store.archived import EventRows
from chronolake_metastore.store.postgres.pooled import Connection
from chronolake_model.file_names import FileKind
from chronolake_model.files import FileGroupName
from chronolake_model.times import Micros
from chronolake_model.vocabulary import Action, Operation

FactT = TypeVar("FactT")


class FactLoading:
    """Loads facts by the requested times of instants; without instants there is no query."""

    def __init__(self, connection: Connection, log: TableLog, table: Table) -> None:
        self._connection = connection
        self._log = log
        self._archived = EventRows()
        self.table = table

    def find_archived(self, completed: dict[Micros, LogEvent], requested: Sequence[Micros]) -> None:
        """Read the archived rows of completed instants, and the plans of others; raises ``RowsArchived``.

        All at once, because each time the page is read again.
        """
        versions = [version for event in completed.values() for version in _versions(event)]
        self._archived = self._log.rows(versions, requested)

    def _given(self, instants: Iterable[Micros], name: ListName) -> dict[str, Any]:
        """The archived entries of a list, and the first event whose entries the database has."""
        named = {*instants}
        entries = [entry for entry in self._archived.entries if entry.list == name and entry.instant in named]
        return self._of_archive(entries)

    def _of_archive(self, rows: Sequence[msgspec.Struct]) -> dict[str, Any]:
        return {
            "archived": msgspec.json.encode(rows).decode(),
            "first_version": self._log.first.version,
        }

    async def instants(self, times: Iterable[Micros]) -> list[tuple[Micros, InstantFacts, Micros | None]]:
        """How instants were begun, and when each completed, also if it was undone since."""
        times = list(times)
        self._log.refuse_archived(self.table, times)
        return [
            (
                time,
                InstantFacts(
                    actions.begun_as(Action(action), Operation(operation)), Operation(operation), *more
                ),
                ended,
            )
            for time, action, operation, *more, ended in await self._rows(
                "find_instants", requested_times=times
            )
        ]

    async def written(self, completed: dict[Micros, LogEvent]) -> dict[Micros, list[WrittenFile]]:
        """The files of completed instants."""
        named = [
            (time, event.time, version)
            for time, event in completed.items()
            for version in _versions_of_files(event)
        ]
        instants, times, versions = ([row[part] for row in named] for part in range(3))
        given = self._of_archive(self._archived.stats)
        rows = await self._rows(
            "find_written_files", instants=instants, times=times, versions=versions, **given
        )
        return _grouped(
            rows,
            lambda path, file_id, name, kind, *more: WrittenFile(path, file_id, name, FileKind(kind), *more),
        )

    async def groups(self, times: Sequence[Micros], name: ListName) -> dict[Micros, list[FileGroupName]]:
        """The file groups of a list."""
        given = self._given(times, name)
        rows = await self._rows("find_lists", instants=list(times), lists=[name.value] * len(times), **given)
        return _grouped(rows, lambda _, path, file_id: FileGroupName(path, file_id))

    async def planned_files(self, compactions: Sequence[Micros]) -> dict[Micros, list[LiveFile]]:
        """The live files of the file groups of plans."""
        given = self._given(compactions, ListName.PLAN_FILE_GROUPS)
        rows = await self._rows("find_planned_files", instants=list(compactions), **given)
        return _grouped(rows, _live_file)

    async def saved_files(self, savepoints: dict[Micros, Micros]) -> dict[Micros, list[LiveFile]]:
        """The files that savepoints keep."""
        rows = await self._rows(
            "find_saved_files", savepoints=list(savepoints), targets=list(savepoints.values())
        )
        return _grouped(rows, _live_file)

    async def undone(self, times: Sequence[Micros]) -> dict[Micros, list[UndoneInstant]]:
        """The instants that rollbacks and restores undid."""
        given = self._given(times, ListName.PLAN_INSTANTS)
        rows = await self._rows("find_undone_instants", requested_times=list(times), **given)
        return _grouped(
            rows,
            lambda time, ended, action, operation: UndoneInstant(
                time, ended, actions.begun_as(Action(action), Operation(operation))
            ),
        )

    async def last_completed(self, cleans: dict[Micros, Micros]) -> dict[Micros, Micros]:
        """The last requested time of the writes that had completed before each clean."""
        rows = await self._rows("find_last_completed", cleans=list(cleans))
        return {clean: Micros(self.table.created_at if time is None else time) for clean, time in rows}

    async def pinned(self, cleans: dict[Micros, Micros]) -> dict[Micros, list[Micros]]:
        """The instants that savepoints pinned at the time of each clean."""
        return _grouped(await self._rows("find_pinned", cleans=list(cleans)), Micros)

    async def purged(self, cleans: dict[Micros, Micros]) -> dict[Micros, list[Micros]]:
        """The undone compactions whose last files each clean has deleted."""
        rows = await self._rows("find_purged_compactions", cleans=list(cleans))
        return _grouped(rows, Micros)

    async def _rows(self, name: str, **parameters: Any) -> list[tuple[Any, ...]]:
        if not next(iter(parameters.values())):
            return []
        return await stored.facts(self._connection, name, self.table.table_id, parameters)


def _versions_of_files(event: LogEvent) -> Sequence[int]:
    """The versions of the write stats of an event."""
    if not isinstance(event.payload, InstantCompleted) or not event.payload.summary.files:
        return ()
    return event.payload.staged or (event.version,)


def _versions(event: LogEvent) -> Iterable[int]:
    """The versions of the write stats of an event, and of its lists."""
    return {event.version, *_versions_of_files(event)}


def _grouped(rows: Iterable[Sequence[Any]], fact: Callable[..., FactT]) -> dict[Micros, list[FactT]]:
    """The facts of rows by their first column, in the order of the rows."""
    grouped: dict[Micros, list[FactT]] = defaultdict(list)
    for time, *columns in rows:
        grouped[Micros(time)].append(fact(*columns))
    return dict(grouped)


def _live_file(path: str, file_id: str, name: str, kind: str, requested_time: int) -> LiveFile:
    return LiveFile(path, file_id, name, FileKind(kind), Micros(requested_time))
