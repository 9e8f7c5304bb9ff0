"""The requests of the deletion guard (``chronolake_storage.guard``), sent in the thread that deletes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from chronolake import calls, errors
from chronolake._location import owner_of
from chronolake.calls.base import Call
from chronolake_model import operations
from chronolake_model.deletable import Deletable, FindDeletable, FindDeletableOrphans, LogHead
from chronolake_model.markers import DELETIONS_MAX, DeletedFile, file_at
from chronolake_model.publication import Publication
from chronolake_model.tables import DroppedTablePage, Table, TablePage
from chronolake_storage.claims import Owner
from chronolake_storage.guard import Deleting
from chronolake_storage.overlaps import TablePlace

Send = Callable[[Call[Any]], Any]
"""Sends a call, and blocks until its answer is there."""


class RestMetastore:
    """The metastore of a table, over REST.

    ``send`` sends the id of the table with each call, so no other table that has the name by now answers.
    """

    def __init__(self, send: Send, definition: Table) -> None:
        self._send = send
        self._name = definition.name

    def owner(self) -> Owner | None:
        """As ``Metastore.owner``."""
        try:
            definition: Table = self._send(calls.call(operations.catalog.GET_TABLE, self._name))
        except errors.TableNotFound:
            return None
        return owner_of(definition)

    def tables(self) -> Iterator[TablePlace]:
        """As ``Metastore.tables``, fetched page by page."""
        call: Call[TablePage] | None = calls.catalog.list_tables(None)
        while call is not None:
            page: TablePage = self._send(call)
            yield from (TablePlace(table.table_id, table.name, table.base_path) for table in page.tables)
            call = None if page.next_cursor is None else call.page_at(page.next_cursor)
        dropped_call: Call[DroppedTablePage] | None = calls.catalog.list_dropped_tables()
        while dropped_call is not None:
            dropped: DroppedTablePage = self._send(dropped_call)
            yield from (
                TablePlace(table.table_id, table.name, table.base_path, is_dropped=True)
                for table in dropped.tables
            )
            dropped_call = None if dropped.next_cursor is None else dropped_call.page_at(dropped.next_cursor)

    def needed_files(
        self, deleting: Deleting, paths: Sequence[str], recorded: LogHead | None
    ) -> Mapping[str, str]:
        """As ``Metastore.needed_files``. Raises ``MetastoreMoved``; ``TableNotFound`` for a dropped table."""
        reasons: dict[str, str] = {}
        for first in range(0, len(paths), DELETIONS_MAX):
            files = [file_at(path) for path in paths[first : first + DELETIONS_MAX]]
            answer: Deletable = self._send(self._deletable_call(deleting, files, recorded))
            reasons |= {refused.path: refused.why for refused in answer.refused}
        return reasons

    def is_hidden(self) -> bool:
        """As ``Metastore.is_hidden``."""
        publication: Publication = self._send(calls.call(operations.streams.GET_PUBLICATION, self._name))
        return publication.is_hidden

    def _deletable_call(
        self, deleting: Deleting, files: list[DeletedFile], recorded: LogHead | None
    ) -> Call[Deletable]:
        if deleting.by is None:
            return calls.call(
                operations.files.FIND_DELETABLE_ORPHANS,
                self._name,
                body=FindDeletableOrphans(files, deleting.unknown_instants, recorded),
            )
        body = FindDeletable(files, deleting.writer, recorded)
        return calls.call(operations.files.FIND_DELETABLE, self._name, deleting.by, body=body)
