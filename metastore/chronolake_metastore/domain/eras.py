"""Eras of the log: which of them an archive has, and which rows of them leave PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from chronolake_metastore.domain.commands import Command
from chronolake_model.times import MICROS_PER_SECOND, Micros

ERA_SECONDS: Final = 86_400
"""An era lasts a day or longer."""
MERGED_EVENTS_MAX: Final = 100_000
"""Thinned eras share a partition up to this number of events, so that the number of partitions stays small."""
MERGED_PARTS: Final = 10
"""Number of partitions that are merged even if no event leaves: a statement may lock each of them."""
SHARE_MIN: Final = 10
"""A partition is copied when at least one event leaves for this number that stays."""


class RecordArchivedEra(Command, frozen=True):
    """Record that the archive at ``location`` has an era; ``runs`` are the digests of its proved runs.

    All rows of the era are of transactions before ``archived_before``.
    """

    era: int
    archived_before: int
    location: str
    runs: list[str]


class Era(msgspec.Struct, frozen=True):
    """An era of the log, whose rows are of transactions before ``ended_before``; the present one has no end."""

    number: int
    began_at: Micros
    ended_at: Micros | None
    ended_before: int | None


def is_due(present: Era, now: Micros, keep_seconds: int) -> bool:
    """Whether the next era is to begin, so that rows can leave after they were kept for some time."""
    return now - present.began_at >= min(ERA_SECONDS, keep_seconds) * MICROS_PER_SECOND


def to_drop(eras: list[Era], now: Micros, keep_seconds: int) -> list[Era]:
    """The eras whose answers are older than those to keep, the oldest first."""
    latest = now - keep_seconds * MICROS_PER_SECOND
    return [era for era in eras if era.ended_at is not None and era.ended_at <= latest]


def is_covered(era: Era, archive_end: int) -> bool:
    """Whether an archive reaches beyond the end of an era.

    A server decides commands only when it has read the archive up to the end of the last era that left. So an
    era must not leave for an archive that ends before, even if that has every answer of it.
    """
    return era.ended_before is not None and era.ended_before <= archive_end


class EraPart(msgspec.Struct, frozen=True):
    """A partition of the events of ended eras, from the ``first`` to the ``last``.

    ``has_left`` says that some have left of each of them.
    """

    first: int
    last: int
    ended_at: Micros
    ended_before: int
    has_left: bool


class CountedEvents(msgspec.Struct, frozen=True):
    """The events of an era in PostgreSQL, and those that may leave."""

    events: int
    leaving: int


def may_thin(parts: Sequence[EraPart], now: Micros, keep_seconds: int, archive_end: int) -> list[EraPart]:
    """The partitions that are older than those to keep, and in the archive."""
    latest = now - keep_seconds * MICROS_PER_SECOND
    return [part for part in parts if part.ended_at <= latest and part.ended_before <= archive_end]


def to_thin(parts: Sequence[EraPart], counts: Mapping[int, CountedEvents]) -> list[list[EraPart]]:
    """The partitions to copy without what leaves, in groups, each of which becomes one partition."""
    groups: list[list[EraPart]] = []
    room = 0
    for part in parts:
        counted = counts.get(part.last, CountedEvents(0, 0))
        staying = counted.events - counted.leaving
        if not groups or staying > room:
            groups.append([])
            room = MERGED_EVENTS_MAX
        groups[-1].append(part)
        room -= staying
    return [group for group in groups if _is_worth_it(group, counts)]


def _is_worth_it(group: Sequence[EraPart], counts: Mapping[int, CountedEvents]) -> bool:
    counted = [counts[part.last] for part in group if part.last in counts]
    leaving = sum(each.leaving for each in counted)
    staying = sum(each.events for each in counted) - leaving
    if len(group) > 1:
        return leaving > 0 or len(group) >= MERGED_PARTS or all(part.has_left for part in group)
    return leaving > 0 and leaving * SHARE_MIN >= staying
