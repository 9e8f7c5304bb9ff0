"""Staging: write stats that are reported before their instant completes, so that completing is quick.

Staged write stats belong to an event and never change, so most checks of them run before the table is locked.
"""

from __future__ import annotations

from collections.abc import Sequence

from chronolake_metastore.domain import conflicts, files, plans
from chronolake_metastore.domain.commands import InstantCommand
from chronolake_metastore.domain.events import WriteStatsStaged
from chronolake_metastore.domain.instants import Instant, in_the_way, refuse_another, refuse_unless
from chronolake_metastore.domain.tables import Table
from chronolake_model.files import FileGroupName, WriteStat
from chronolake_model.times import Micros, format_time
from chronolake_model.vocabulary import State


class StageWriteStats(InstantCommand, frozen=True):
    write_stats: Sequence[WriteStat]
    writer: str | None = None


def stage(
    table: Table,
    instant: Instant,
    command: StageWriteStats,
    concurrent: conflicts.ConcurrentInstants,
    now: Micros,
    unplanned: Sequence[FileGroupName],
) -> WriteStatsStaged:
    """Keep write stats until the instant completes; ``unplanned`` are file groups that its plan does not name.

    Raises ``IllegalTransition``, ``InstantRolledBack``, ``LeaseLive``, ``InvalidWriteStat``, ``InvalidPlan``,
    or ``WriteConflict`` when completing would lose a conflict already.
    """
    refuse_unless(table, instant, {State.INFLIGHT}, "take write stats")
    refuse_another(instant, command.writer)
    stats = command.write_stats
    plans.refuse_before_resize(table, instant.begun_as, instant.requested_time)
    requested_time = format_time(instant.requested_time, table.definition.tick)
    files.check(plans.placed_by(table, instant.plan), requested_time, stats)
    written = files.touches(stats)
    plans.check_written(instant.begun_as, written, unplanned)
    touched = conflicts.group_changes(instant.begun_as, written, [])
    conflicts.refuse(table, instant.requested_time, touched, in_the_way(instant, concurrent), now)
    return WriteStatsStaged(summary=files.summarise(stats), write_stats_digest=files.digest(stats))
