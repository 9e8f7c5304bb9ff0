"""Cleans: from which completion time on a table is served, when files of its past are gone from storage."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from chronolake_metastore import errors
from chronolake_metastore.domain.actions import COMPLETED_WRITES
from chronolake_metastore.domain.instants import Instant
from chronolake_metastore.domain.tables import Table
from chronolake_model.times import Micros, format_time
from chronolake_model.vocabulary import Action


class Past(msgspec.Struct, frozen=True):
    """Of a table and a time: when its files last changed by then, and when anything last completed in it."""

    changed: Micros | None
    completed: Micros | None


def first_servable(
    table: Table, clean: Instant, cleaned_before: Micros, past: Past, others: Iterable[Instant]
) -> Micros | None:
    """The first time that the table is served as of when the clean has completed; none, if it is any time.

    It is when the files last changed by ``cleaned_before``: those that left the latest slices by then left
    them by that. ``others`` are what a command before this one in its group may have completed. Raises
    ``InvalidPlan``.
    """
    if clean.begun_as is not Action.CLEAN:
        raise errors.InvalidPlan(f"a {clean.begun_as} does not clean: leave cleaned_before out")
    done = [(time, one.action) for one in others if (time := _completion_of(one)) is not None]
    completed = max((time for time, _ in done), default=0)
    last = max(completed, past.completed or 0)
    if cleaned_before > last:
        tick = table.definition.tick
        known = f"the last one was at {format_time(Micros(last), tick)}" if last else "nothing has completed"
        raise errors.InvalidPlan(
            f"cleaned_before is {format_time(cleaned_before, tick)}, and later than all completions of "
            f"{table.name!r}: {known}"
        )
    changes = [time for time, action in done if time <= cleaned_before and action in _CHANGES]
    return max([*changes, *([] if past.changed is None else [past.changed])], default=None)


def refuse_before(table: Table, time: Micros) -> None:
    """Raise ``HistoryCleaned`` when the table is not served as of ``time`` any more."""
    first = table.cleaned_before
    if first is not None and time < first:
        tick = table.definition.tick
        raise errors.HistoryCleaned(table.name, format_time(time, tick), format_time(first, tick))


_CHANGES = COMPLETED_WRITES | {Action.RESTORE}
"""What changes which files are live, by its name on completion."""


def _completion_of(instant: Instant) -> Micros | None:
    """When it completed, undone since or not; none when it did not."""
    return instant.completion_time or instant.undone_completion_time
