"""Pages of a timeline across the border of its instants.

The instants of the archive come before those of the database, by requested time and by completion time: those
before the border have also ended before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

import msgspec

from chronolake_metastore.domain.instants import PENDING, Instant
from chronolake_metastore.queries.timeline import Timeline
from chronolake_metastore.store import instants as stored
from chronolake_metastore.store.archived import InstantsBorder
from chronolake_metastore.store.instants import Filter
from chronolake_model.times import Micros
from chronolake_model.vocabulary import Direction, TimeOrder

_SKIPPED_AT_ONCE: Final = 500


def place_of(instant: Instant, order_by: TimeOrder) -> Micros:
    """The time of an instant by which a list is ordered."""
    if order_by is TimeOrder.REQUESTED_TIME:
        return instant.requested_time
    assert instant.completion_time is not None, "a list by completion time has completed instants only"
    return instant.completion_time


class Pages:
    """The instants that pass a filter, in its order, portion by portion. Methods raise ``ArchiveNeeded``."""

    def __init__(self, parts: Sequence[_Part], wanted: Filter, after: Micros | None, skip: int) -> None:
        self._parts = list(parts)
        self._wanted = wanted
        self._after = after
        self._skip = skip

    async def next(self, number: int) -> list[Instant]:
        """The next ``number`` instants, without their plans; fewer at the end."""
        found: list[Instant] = []
        while self._parts and len(found) < number:
            missing = number - len(found)
            portion, skipped = await self._parts[0].fetch(self._after, missing, self._skip)
            self._skip -= skipped
            if portion:
                self._after = place_of(portion[-1], self._wanted.order_by)
            if len(portion) < missing:
                self._parts.pop(0)
            found += portion
        return found


async def pages(
    timeline: Timeline,
    wanted: Filter,
    after: Micros | None,
    skip: int,
    bounds: tuple[int, int],
) -> Pages:
    """Instants after a time of the filter's order, without the first ``skip`` of them.

    ``bounds`` are those of the whole page: instants and bytes.
    """
    # Instants before the border have ended.
    are_pending = bool(wanted.states) and wanted.states <= PENDING
    border = None if are_pending else await timeline.border()
    if border is None:
        parts: list[_Part] = [_DatabasePart(timeline, wanted)]
    else:
        before = Micros(border.since - 1)
        newer, older = _narrow(wanted, requested_from=before), _narrow(wanted, requested_to=before)
        if wanted.order_by is TimeOrder.COMPLETION_TIME:
            newer, older = _narrow(newer, completed_from=before), _narrow(older, completed_to=before)
        parts = [_DatabasePart(timeline, newer)]
        if not wanted.active_only:
            parts.insert(0, _ArchivePart(timeline, border, older, bounds))
    return Pages(parts if wanted.direction is Direction.ASCENDING else parts[::-1], wanted, after, skip)


class _Part(Protocol):
    """A part of a timeline."""

    async def fetch(self, after: Micros | None, number: int, skip: int) -> tuple[list[Instant], int]:
        """The next ``number`` instants, fewer at the end, and how many were left out before, up to ``skip``."""


class _DatabasePart:
    def __init__(self, timeline: Timeline, wanted: Filter) -> None:
        self._timeline = timeline
        self.wanted = wanted

    async def fetch(self, after: Micros | None, number: int, skip: int) -> tuple[list[Instant], int]:
        search = self._timeline.connection, self._timeline.table_id, self.wanted
        found = await stored.page(*search, after, number, skip)
        # Only a first page leaves some out.
        return found, skip if found or not skip else await stored.count(*search)


class _ArchivePart:
    """The archive is asked for the whole page, which is given in portions."""

    def __init__(
        self, timeline: Timeline, border: InstantsBorder, wanted: Filter, bounds: tuple[int, int]
    ) -> None:
        self._timeline = timeline
        self._border = border
        self._bounds = bounds
        self._waiting: list[Instant] = []
        self._last: Micros | None = None
        self._is_cut = True
        self.wanted = wanted

    async def fetch(self, after: Micros | None, number: int, skip: int) -> tuple[list[Instant], int]:
        skipped = 0
        while len(self._waiting) < number and self._is_cut:
            skipped += self._read(after if self._last is None else self._last, skip - skipped)
        portion, self._waiting = self._waiting[:number], self._waiting[number:]
        return portion, skipped

    def _read(self, after: Micros | None, skip: int) -> int:
        if self.is_empty(after):
            self._is_cut = False
            return 0
        table_id, wanted, (limit, bytes_max) = self._timeline.table_id, self.wanted, self._bounds
        # Newer instants begin between two runs of a query: then a few more are left out of those.
        surplus = skip % _SKIPPED_AT_ONCE if wanted.direction is Direction.DESCENDING else 0
        if surplus:
            limit += _SKIPPED_AT_ONCE
        search = table_id, wanted, after, skip - surplus, limit, bytes_max
        page = self._timeline.ask(self._border, ("page", *search), lambda log: log.page_of_instants(*search))
        if page.instants:
            self._last = place_of(page.instants[-1], wanted.order_by)
        self._waiting += page.instants[surplus:]
        self._is_cut = page.is_cut
        return page.skipped + min(surplus, len(page.instants))

    def is_empty(self, after: Micros | None) -> bool:
        """Whether no instant in the archive passes the filter, as the filter alone shows."""
        wanted, border = self.wanted, self._border
        if wanted.completed_from is not None and wanted.completed_from >= border.since - 1:
            return True
        if after is not None:
            begin, end = (after, None) if wanted.direction is Direction.ASCENDING else (None, Micros(after - 1))
            if wanted.order_by is TimeOrder.REQUESTED_TIME:
                wanted = _narrow(wanted, requested_from=begin, requested_to=end)
            else:
                wanted = _narrow(wanted, completed_from=begin, completed_to=end)
        return _is_none(wanted.requested_from, wanted.requested_to) or _is_none(
            wanted.completed_from, wanted.completed_to
        )


def _narrow(
    wanted: Filter,
    *,
    requested_from: Micros | None = None,
    requested_to: Micros | None = None,
    completed_from: Micros | None = None,
    completed_to: Micros | None = None,
) -> Filter:
    """The filter with narrower ranges."""
    return msgspec.structs.replace(
        wanted,
        requested_from=_latest(wanted.requested_from, requested_from),
        requested_to=_earliest(wanted.requested_to, requested_to),
        completed_from=_latest(wanted.completed_from, completed_from),
        completed_to=_earliest(wanted.completed_to, completed_to),
    )


def _latest(*times: Micros | None) -> Micros | None:
    return max((time for time in times if time is not None), default=None)


def _earliest(*times: Micros | None) -> Micros | None:
    return min((time for time in times if time is not None), default=None)


def _is_none(after: Micros | None, until: Micros | None) -> bool:
    return after is not None and until is not None and after >= until
