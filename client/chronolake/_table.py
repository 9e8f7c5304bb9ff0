"""A table: its timeline, its snapshot and its changes, and where writes begin."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator
from typing import TypeVar

from chronolake import _calls
from chronolake._calls import InstantFilter
from chronolake._transport import Transport, actor
from chronolake._write import Write
from chronolake_model import tables as model
from chronolake_model.files import Changes, Snapshot
from chronolake_model.instants import LEASE_SECONDS_DEFAULT, BeginInstant, Instant, RollbackInstant
from chronolake_model.times import Moment
from chronolake_model.vocabulary import Action, Direction, Operation, State, TableType, TimeOrder

_Word = TypeVar("_Word", State, Action)


class Table:
    """A table of the metastore. ``definition`` is as last fetched. Threads may share it."""

    def __init__(self, transport: Transport, definition: model.Table) -> None:
        self._transport = transport
        self._definition = definition

    @property
    def name(self) -> str:
        """``namespace.table``."""
        return self._definition.name

    @property
    def definition(self) -> model.Table:
        """The table's definition, as last fetched."""
        return self._definition

    def reload(self) -> Table:
        """Fetch the definition again; returns this table. Raises ``TableNotFound``."""
        self._definition = self._transport.send(_calls.table(self.name))
        return self

    def begin(
        self,
        *,
        action: Action | None = None,
        operation: Operation = Operation.UNKNOWN,
        writer: str | None = None,
        lease_seconds: int = LEASE_SECONDS_DEFAULT,
        inflight: bool = True,
    ) -> Write:
        """Begin an instant; ``writer`` is user@host:pid unless given.

        ``action`` is, unless given, what a write is to a table of this type: a commit to a copy-on-write
        table, a deltacommit to a merge-on-read one. Raises ``ActionNotSupported``, ``TableNotFound``.
        Use the result as a context manager, and its lease is renewed; see ``Write``.
        """
        body = BeginInstant(
            writer or default_writer(),
            action or write_action(self.definition.type),
            operation,
            lease_seconds,
            inflight,
        )
        return Write(self._transport, self._transport.send(_calls.begin_instant(self.name, body)))

    def write(self, requested_time: str) -> Write:
        """The write of an instant that was begun before, perhaps in another process.

        Its lease is renewed only while it is used as a context manager. Raises ``InstantNotFound``.
        """
        return Write(self._transport, self.instant(requested_time))

    def instant(self, requested_time: str) -> Instant:
        """One instant of the timeline. Raises ``InstantNotFound``."""
        return self._transport.send(_calls.instant(self.name, requested_time))

    def rollback(self, requested_time: str, reason: str = "", *, writer: str | None = None) -> Instant:
        """Give up an instant of somebody who is gone; ``writer`` is user@host:pid unless given.

        Another than the instant's own writer may do so only when its lease has ended. Raises ``LeaseLive``,
        ``InstantNotFound``, ``IllegalTransition``.
        """
        body = RollbackInstant(writer or default_writer(), reason)
        return self._transport.send(_calls.rollback_instant(self.name, requested_time, body))

    def instants(  # noqa: PLR0913  # one keyword per filter of the timeline
        self,
        *,
        state: State | Iterable[State] = (),
        action: Action | Iterable[Action] = (),
        requested_from: Moment | None = None,
        requested_to: Moment | None = None,
        completed_from: Moment | None = None,
        completed_to: Moment | None = None,
        order_by: TimeOrder = TimeOrder.REQUESTED_TIME,
        direction: Direction = Direction.ASCENDING,
        limit: int | None = None,
    ) -> Iterator[Instant]:
        """The timeline, fetched page by page as it is consumed; ``limit`` bounds the whole.

        Times are an instant's digits, or aware datetimes. Ranges exclude their start and include their end.
        Filters by completion time, and order by it, leave out what has not completed.
        """
        wanted = InstantFilter(
            state=words(state),
            action=words(action),
            requested_from=requested_from,
            requested_to=requested_to,
            completed_from=completed_from,
            completed_to=completed_to,
            order_by=order_by,
            direction=direction,
        )
        pages = self._transport.pages(_calls.list_instants(self.name, wanted, page_size(limit)))
        return itertools.islice((one for page in pages for one in page.instants), limit)

    def snapshot(self, as_of: Moment | None = None, partition_path: str | None = None) -> Snapshot:
        """The live file slices: of everything completed at or before ``as_of``, or of now.

        All pages are of one completion time, whatever completes meanwhile.
        """
        call = _calls.snapshot(self.name, as_of, partition_path)
        return _calls.merge_snapshot(list(self._transport.pages(call)))

    def changes(self, from_: Moment | None = None, to: Moment | None = None) -> Changes:
        """What completed in (from_, to]: from the beginning, and up to now, unless given.

        The answer's ``to`` is where the next range starts.
        """
        call = _calls.changes(self.name, from_, to)
        return _calls.merge_changes(list(self._transport.pages(call)))


def default_writer() -> str:
    """This process: user@host:pid."""
    return f"{actor()}:{os.getpid()}"[:255]


def write_action(type_: TableType) -> Action:
    """What a write is called on the timeline of a table of this type."""
    match type_:
        case TableType.COPY_ON_WRITE:
            return Action.COMMIT
        case TableType.MERGE_ON_READ:
            return Action.DELTACOMMIT


def words(given: _Word | Iterable[_Word]) -> tuple[_Word, ...]:
    """One word or several, as a tuple."""
    if isinstance(given, State | Action):
        return (given,)
    return tuple(given)


def page_size(limit: int | None) -> int:
    """No more per page than are wanted at all."""
    return _calls.LIMIT_MAX if limit is None else max(1, min(limit, _calls.LIMIT_MAX))
