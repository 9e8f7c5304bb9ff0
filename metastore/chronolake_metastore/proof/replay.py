"""Replaying the log into replay tables, up to the present, while servers append to it.

The long part is read in short transactions, so that neither vacuum nor followers of the log wait for it; only
what was appended meanwhile is left for the last one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final
from uuid import UUID

import msgspec

from chronolake_metastore.domain.events import Event, ImpossibleEvent
from chronolake_metastore.domain.logs import Clock
from chronolake_metastore.domain.state import EMPTY
from chronolake_metastore.domain.stored_events import StoredEvent
from chronolake_metastore.projections import registry as projections
from chronolake_metastore.projections.logs import Clocks
from chronolake_metastore.store import event_lists, event_log, instants as stored_instants
from chronolake_metastore.store.event_log import Cursor
from chronolake_metastore.store.postgres.transaction import Transaction
from chronolake_metastore.store.replay_tables import ReplaySession

Progress = Callable[[str, int, int], None]
"""Takes the present step, how much of it is done, and how much there is to do; 0 if that is unknown."""
ConsumePage = Callable[[Transaction, Sequence[StoredEvent]], Awaitable[None]]
"""Takes the next page of the log, in the transaction that read it."""


def no_progress(doing: str, done: int, total: int) -> None:
    """Progress that is not shown."""


_TAIL_EVENTS: Final = 5_000
"""The largest number of events that are left for the last transaction."""
_ROUNDS_MAX: Final = 20
"""If servers write faster than this reads, the last transaction reads the rest."""


class InvalidEvent(msgspec.Struct, frozen=True):
    """An event that does not follow from the earlier ones."""

    event: Event
    reason: str


class LogReader:
    """Reads the log, of all tables or of one, from its beginning to a given place."""

    def __init__(self, table_id: UUID | None = None) -> None:
        self._table_id = table_id
        self._cursor = Cursor()
        self.events = 0

    async def read_until_recent(self, session: ReplaySession, consume: ConsumePage) -> None:
        """Read, a page at a time, until little is left."""
        for _ in range(_ROUNDS_MAX):
            async with session.replaying() as tx:
                horizon = await event_log.horizon(tx)
            before = self.events
            while True:
                async with session.replaying() as tx:
                    if not await self._read_page(tx, consume, horizon):
                        break
            await session.analyze()
            if self.events - before < _TAIL_EVENTS:
                return

    async def read_remainder(self, tx: Transaction, consume: ConsumePage) -> None:
        """Read to the end as ``tx`` sees it: one moment, or a log to which nothing is appended."""
        while await self._read_page(tx, consume, None):
            pass

    async def _read_page(self, tx: Transaction, consume: ConsumePage, horizon: str | None) -> bool:
        page = await event_log.read(tx, self._cursor, horizon=horizon, table_id=self._table_id)
        if not page.events:
            return False
        await consume(tx, page.events)
        self._cursor = page.end
        self.events += len(page.events)
        return True


class Replay:
    """The state, event by event, written into the replay tables page by page.

    It holds the clocks and the tables that are not dropped. Instants come from the replay tables when they
    change.
    """

    def __init__(self) -> None:
        self._state = projections.state_of(EMPTY)
        self._clocks: dict[UUID, Clock] = dict(self._state.clocks)
        self.refused: dict[UUID, InvalidEvent] = {}
        """By table, the first event that could not be applied. Later ones of the table are skipped."""

    async def begin(self, tx: Transaction) -> None:
        """Write the rows that exist before the first event."""
        self._state.evolution(Clocks)
        await self._project(tx)

    async def apply(self, tx: Transaction, events: Sequence[Event]) -> None:
        """Apply the next events of the log, in their order."""
        if not events:
            return
        state = self._state
        state.clocks = {
            table_id: self._clocks[table_id] for table_id in _tables(events) if table_id in self._clocks
        }
        changed = [(event.table_id, event.instant) for event in events if event.instant is not None]
        instants = await tx.fetch_one(stored_instants.find_by_id(changed))
        state.instants = {
            (table_id, instant.requested_time): instant for table_id, instant in instants.instants
        }
        for event in events:
            self._evolve(event)
            if any(evolution.must_be_written for evolution in state.evolutions.values()):
                await self._project(tx)
        await self._project(tx)

    async def _project(self, tx: Transaction) -> None:
        entries = {key: await event_lists.read(tx, key) for key in projections.lists(self._state)}
        await tx.batch(projections.replay(self._state, entries))
        self._clocks.update(self._state.clocks)
        self._state.evolutions.clear()
        self._state.concurrent.clear()

    def _evolve(self, event: Event) -> None:
        if event.table_id in self.refused:
            return
        try:
            self._state.evolve(event)
        except ImpossibleEvent as exc:
            self.refused[event.table_id] = InvalidEvent(event, str(exc))


def _tables(events: Iterable[Event]) -> set[UUID]:
    return {event.table_id for event in events}
