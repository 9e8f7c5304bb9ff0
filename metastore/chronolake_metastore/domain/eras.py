"""Eras of the log: which of them an archive has."""

from __future__ import annotations

from typing import Final

import msgspec

from chronolake_metastore.domain.commands import Command
from chronolake_model.times import MICROS_PER_SECOND, Micros

ERA_SECONDS: Final = 86_400
"""An era lasts a day or longer."""


class RecordArchivedEra(Command, frozen=True):
    """Record that the archive at ``location`` has an era; ``link`` is that of its last run.

    All rows of the era are of transactions before ``archived_before``.
    """

    era: int
    archived_before: int
    location: str
    link: str


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
