"""The instants of a table that its state needs yet: all from a requested time on. Older ones may leave. No I/O.

Some rows before that time stay too (``needed_instants/stays.sql``), but the timeline does not show them.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from uuid import UUID

import msgspec

from chronolake_hudi.publishable import Publishable
from chronolake_metastore.domain import publication
from chronolake_metastore.domain.active_window import Border
from chronolake_metastore.domain.needed_events import BEGINNING, Causes, Need
from chronolake_metastore.domain.policies import Policies, Trigger
from chronolake_model.times import MICROS_MAX, MICROS_PER_SECOND, Micros, parse_time


class InstantsHeldBy(enum.StrEnum):
    """Why the next instant stays in PostgreSQL. The values are those of ``find_borders.sql``."""

    EVENT = "event"
    """One of its events stays, or one of a later instant that refers to it."""
    MARKER = "marker"
    """It has markers that are not deleted."""
    STREAM = "stream"
    """It is the last one of an open stream."""
    UNCLEANED = "uncleaned"
    """A file that it superseded, or a later instant, is not cleaned."""
    LOG_FILE = "log-file"
    """It has a log file in a latest slice, which is not compacted."""
    COMMITS = "commits"
    """It is one of the commits that the triggers of services, or the policy of cleans, count."""
    SECONDS = "seconds"
    """The triggers of services, or the policy of cleans, count the time since it completed."""


class Wanted(msgspec.Struct, frozen=True):
    """How far the instants of a table may leave: before ``until``, but for what its policies count."""

    table_id: UUID
    until: Micros
    commits: int
    seconds: int


class InstantBorder(msgspec.Struct, frozen=True):
    """Instants requested before ``until`` may leave; those before ``since`` have. The next is ``held_by``."""

    table_id: UUID
    table: str
    is_dropped: bool
    until: Micros
    since: Micros
    held_by: InstantsHeldBy


def wanted(table_id: UUID, table: Publishable, causes: Causes, need: Need, history: Border) -> Wanted | None:
    """How far the instants of a table may leave; None if they may not.

    Those of tables whose publication may yet begin stay: it reads them here. No service or publisher reads
    those of a dropped table, so all of them may leave before its last commit.
    """
    until = MICROS_MAX if need.since is None else need.since
    if causes.is_dropped:
        return Wanted(table_id, Micros(until), commits=1, seconds=0)
    is_published = bool(causes.published_version)
    if publication.is_being_adopted(table) or not (is_published or publication.is_off(table)):
        return None
    if is_published:
        until = min(until, history_needs(history))
    return Wanted(table_id, Micros(until), *counted(table.properties))


def history_needs(history: Border) -> Micros:
    """The time from which on a publisher reads instants for the history that it writes or merges."""
    written = history.written
    if written is None:
        return BEGINNING
    needed = written.before
    for file in reversed(written.files):
        if file.level > 1:
            break
        needed = file.begin
    return parse_time(needed)


def counted(properties: Mapping[str, str]) -> tuple[int, int]:
    """The commits and the seconds that the triggers of services and the policy of cleans look back."""
    policies = Policies.of(properties)
    retention = policies.cleaning.retention
    commits = max(
        policies.compaction.delta_commits_max,
        policies.compaction.log_threshold,
        policies.clustering.commits_max,
        policies.cleaning.commits_max,
        retention.commits_kept or 1,
    )
    by_time = policies.compaction.trigger not in (Trigger.NUM_COMMITS, Trigger.NUM_COMMITS_AFTER_LAST_REQUEST)
    delta_seconds = policies.compaction.delta_us_max // MICROS_PER_SECOND if by_time else 0
    seconds = max(delta_seconds, 3_600 * (retention.hours or 0))
    # One more: the trigger fires at the number itself.
    return commits + 1, seconds
