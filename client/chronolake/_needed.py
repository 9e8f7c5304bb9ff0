"""What the guard asks the server, in the thread that deletes (``chronolake_storage.guard.Metastore``)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Final, TypeVar

from chronolake import calls, errors
from chronolake._markers import owner_of
from chronolake._transport import AsyncTransport
from chronolake.calls.base import Call
from chronolake_model.deletable import AskDeletable, AskOrphans, Deletable
from chronolake_model.markers import DELETIONS_MAX, DeletedFile, file_at
from chronolake_model.tables import Table, TablePage
from chronolake_storage.claims import Owner
from chronolake_storage.guard import Deleting
from chronolake_storage.overlaps import TablePlace

_Result = TypeVar("_Result")
_LOOP: Final[ContextVar[asyncio.AbstractEventLoop]] = ContextVar("chronolake_loop")

Send = Callable[[Call[Any]], Any]
"""Sends a call and waits for its answer."""


class Server:
    """The metastore of a table, asked over REST."""

    def __init__(self, send: Send, definition: Table) -> None:
        self._send = send
        self._name = definition.name

    def owner(self) -> Owner | None:
        """As ``Metastore.owner``."""
        try:
            definition: Table = self._send(calls.tables.get(self._name))
        except errors.TableNotFound:
            return None
        return owner_of(definition)

    def tables(self) -> Iterator[TablePlace]:
        """As ``Metastore.tables``, fetched page by page."""
        call: Call[TablePage] | None = calls.tables.list_all(None)
        while call is not None:
            page: TablePage = self._send(call)
            yield from (TablePlace(table.table_id, table.name, table.base_path) for table in page.tables)
            call = None if page.next_cursor is None else call.page_at(page.next_cursor)

    def needed(self, deleting: Deleting, paths: Sequence[str]) -> Mapping[str, str]:
        """As ``Metastore.needed``."""
        refused: dict[str, str] = {}
        for first in range(0, len(paths), DELETIONS_MAX):
            files = [file_at(path) for path in paths[first : first + DELETIONS_MAX]]
            answer: Deletable = self._send(self._question(deleting, files))
            refused |= {one.path: f"it may not be deleted: {one.reason}" for one in answer.refused}
        return refused

    def _question(self, deleting: Deleting, files: list[DeletedFile]) -> Call[Deletable]:
        if deleting.by is None:
            return calls.deletions.deletable_orphans(self._name, AskOrphans(files, deleting.unknown_instants))
        return calls.deletions.deletable(self._name, deleting.by, AskDeletable(files, deleting.writer))


def by_loop(transport: AsyncTransport) -> Send:
    """Sends by the event loop that started the thread; see ``in_thread``."""

    def send(call: Call[Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(transport.send(call), _LOOP.get()).result()

    return send


async def in_thread(work: Callable[..., _Result], *arguments: Any) -> _Result:
    """As ``asyncio.to_thread``, for work that may ask the server by this loop meanwhile."""
    _LOOP.set(asyncio.get_running_loop())
    return await asyncio.to_thread(work, *arguments)
