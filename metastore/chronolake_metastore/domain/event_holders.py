"""The cause for which a table keeps its events, for operators: ``needed_events`` decides. No I/O."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

import msgspec

from chronolake_metastore.domain.active_window import ADVICE as ADVICE_ON_TIMELINE, HeldBy
from chronolake_metastore.domain.needed_events import BEGINNING, Causes, need
from chronolake_model.publication import ACTIVE_HOURS_PROPERTY, KEEP_MIN_PROPERTY
from chronolake_model.times import MICROS_PER_SECOND, Micros, to_datetime
from chronolake_model.vocabulary import GRACE_PROPERTY


class EventHolder(enum.StrEnum):
    """A cause. Of several that hold the same event, the first one here counts."""

    PENDING = "pending"
    UNDONE = "undone"
    SAVEPOINT = "savepoint"
    REPLACED = "replaced"
    CLEAN = "clean"
    PUBLICATION = "publication"
    """It is not published yet."""
    LEAST_COMMITS = "least-commits"
    ACTIVE_TIMELINE = "active-timeline"
    """It is of an instant on the published active timeline."""
    HOURS = "hours"
    LAST_WRITE = "last-write"
    LAST_EVENT = "last-event"


ADVICE: Final[Mapping[EventHolder, str]] = {
    EventHolder.PENDING: "complete this instant, or roll it back",
    EventHolder.UNDONE: ADVICE_ON_TIMELINE[HeldBy.UNDONE],
    EventHolder.SAVEPOINT: "release the oldest savepoint when nobody needs it: chronolake savepoints release",
    EventHolder.REPLACED: ADVICE_ON_TIMELINE[HeldBy.REPLACED],
    EventHolder.CLEAN: "clean again: the last clean retains this commit",
    EventHolder.PUBLICATION: "chronolake hudi status says why the table is not published further",
    EventHolder.LEAST_COMMITS: f"nothing, or lower the table's property {KEEP_MIN_PROPERTY}",
    EventHolder.ACTIVE_TIMELINE: "chronolake archive status says what holds the table's active timeline",
    EventHolder.HOURS: f"nothing: it ends by the table's {ACTIVE_HOURS_PROPERTY} and {GRACE_PROPERTY}",
    EventHolder.LAST_WRITE: ADVICE_ON_TIMELINE[HeldBy.LAST_WRITE],
    EventHolder.LAST_EVENT: "nothing: the last event always stays",
}
"""The way to end each cause, for operators."""


class HeldEvents(msgspec.Struct, frozen=True):
    """The events of a table in PostgreSQL. Those before ``first_needed`` may leave, and that one is held.

    ``since`` is the requested time of the instant that is the cause. It is null where none is, and where the
    cause holds all events.
    """

    table: str
    is_dropped: bool
    first_version: int
    first_needed: int
    last_version: int
    held_by: EventHolder
    since: datetime | None
    age_seconds: float | None
    advice: str

    @property
    def needed(self) -> int:
        """The number of events that cannot leave."""
        return self.last_version - self.first_needed + 1

    @property
    def leaving(self) -> int:
        """The number of events that may leave, once they are archived and their era is old enough."""
        return max(self.first_needed - self.first_version, 0)


class HoldingCause(msgspec.Struct, frozen=True):
    """A cause that holds events of several tables, and the table of which it holds most."""

    held_by: EventHolder
    events: int
    tables: int
    most: HeldEvents


def holder(causes: Causes, first_needed: int) -> tuple[EventHolder, Micros | None]:
    """The cause of a table's first needed event, and the requested time of its first instant."""
    needed = need(causes)
    is_unpublished = bool(causes.published_version) and needed.version < causes.version
    if is_unpublished and first_needed == needed.version:
        return EventHolder.PUBLICATION, None
    if needed.since is None:
        return EventHolder.LAST_EVENT, None
    return next((cause, time) for cause, time in times_by_cause(causes).items() if time == needed.since)


def times_by_cause(causes: Causes) -> dict[EventHolder, Micros | None]:
    """The causes that go by time, each with the requested time of its first instant."""
    undone = {EventHolder.PENDING: causes.pending, EventHolder.UNDONE: causes.undone}
    if causes.is_dropped:
        return undone
    return {
        **undone,
        EventHolder.SAVEPOINT: causes.savepoint,
        EventHolder.REPLACED: causes.replaced,
        EventHolder.CLEAN: causes.retained,
        EventHolder.LEAST_COMMITS: BEGINNING
        if causes.window_commits and causes.fewest is None
        else causes.fewest,
        EventHolder.ACTIVE_TIMELINE: causes.history_before or BEGINNING if causes.published_version else None,
        EventHolder.HOURS: causes.recent,
        EventHolder.LAST_WRITE: causes.last_write,
    }


def held_events(causes: Causes, name: str, first_version: int, first_needed: int, now: Micros) -> HeldEvents:
    """The events of a table that has this ``name``; PostgreSQL has all of them from ``first_version`` on."""
    held_by, time = holder(causes, first_needed)
    since = None if time in (None, BEGINNING) else time
    return HeldEvents(
        table=name,
        is_dropped=causes.is_dropped,
        first_version=first_version,
        first_needed=first_needed,
        last_version=causes.version,
        held_by=held_by,
        since=None if since is None else to_datetime(since),
        age_seconds=None if since is None else (now - since) / MICROS_PER_SECOND,
        advice="nothing: the table is dropped" if causes.is_dropped else ADVICE[held_by],
    )


def largest_cause(tables: Sequence[HeldEvents]) -> HoldingCause | None:
    """The cause that holds most events; None if there are no tables."""
    events: Counter[EventHolder] = Counter()
    for table in tables:
        events[table.held_by] += table.needed
    if not events:
        return None
    [(held_by, count)] = events.most_common(1)
    of_cause = [table for table in tables if table.held_by is held_by]
    return HoldingCause(held_by, count, len(of_cause), max(of_cause, key=lambda table: table.needed))
