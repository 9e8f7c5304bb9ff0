"""Cleans: which old files may be deleted, and from which completion time on the table is served then."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from chronolake_metastore import errors
from chronolake_metastore.domain import lists
from chronolake_metastore.domain.actions import COMPLETED_WRITES
from chronolake_metastore.domain.commands import Command
from chronolake_metastore.domain.events import InstantInflight, InstantRequested, LeaseRenewed, Now
from chronolake_metastore.domain.instants import Instant, lease_end, refuse_while_leased
from chronolake_metastore.domain.lists import PlannedWork
from chronolake_metastore.domain.rollbacks import request_completed_at_once
from chronolake_metastore.domain.tables import Table
from chronolake_model import service_properties
from chronolake_model.service_properties import EMPTY_CLEAN_HOURS
from chronolake_model.times import MICROS_MAX, MICROS_PER_SECOND, Micros, format_time
from chronolake_model.vocabulary import (
    FILES_TO_CLEAN_MAX,
    LEASE_SECONDS_DEFAULT,
    RETAIN_COMMITS_DEFAULT,
    Action,
    Operation,
    State,
)

HOW_TO_DELETE: Final = (
    "ask POST .../deletable which of them may be deleted, delete these from storage, report them with "
    "POST .../deletions, and complete again with a new idempotency key"
)
"""The advice of a refusal, for files that must be deleted before an instant completes."""
MICROS_PER_HOUR: Final = 3_600 * MICROS_PER_SECOND


class CleanHistory(msgspec.Struct, frozen=True):
    """For a table and a time: the last change of its files by then, and the last completion.

    ``retained`` is the latest requested time of the writes that had completed by then. Of instants requested
    before ``instants_from`` it knows nothing: they have left the database.
    """

    changed: Micros | None
    completed: Micros | None
    retained: Micros | None
    instants_from: Micros | None = None


class Retention(msgspec.Struct, frozen=True, omit_defaults=True):
    """The files that a clean keeps, by one of three policies. Default: those of the last ten commits."""

    commits: int | None = None
    hours: int | None = None
    versions: int | None = None

    @property
    def commits_kept(self) -> int | None:
        """How many commits are retained; none by the other policies."""
        is_other = self.hours is not None or self.versions is not None
        return None if is_other else self.commits or RETAIN_COMMITS_DEFAULT


class PlanClean(Command, frozen=True):
    table: str
    retention: Retention
    writer: str
    lease_seconds: int = LEASE_SECONDS_DEFAULT
    execute: bool = True


class CleanBounds(msgspec.Struct, frozen=True):
    """Facts that bound a clean.

    ``nth_newest`` is the completion time of the oldest write to retain, None if there are fewer writes.
    ``oldest_pending`` is the requested time of the oldest pending write; a stream whose lease has ended reads
    nothing, so its instants do not count. ``protected_times`` are the completion
    times as of which savepoints and readers need files. ``followed`` is the first time that a reader holds with
    all later ones. ``jumped_ahead_us`` is how far the wall clock has jumped ahead in the hours of
    the policy. ``last_clean`` is the requested time of the last clean that completed.
    """

    nth_newest: Micros | None
    oldest_pending: Micros | None
    protected_times: Sequence[Micros] = ()
    published: Micros | None = None
    followed: Micros | None = None
    jumped_ahead_us: int = 0
    last_clean: Micros | None = None


class CleanScope(msgspec.Struct, frozen=True):
    """The files that a clean may delete: they left the latest slices by ``until``.

    Files that were live at one of the ``protected_times`` stay. With ``versions`` the clean deletes only files
    of slices that have that many newer slices in their group.
    """

    until: Micros
    versions: int | None
    protected_times: Sequence[Micros]


class FileToClean(msgspec.Struct, frozen=True):
    """A file that a clean may delete, and when it left the latest slices."""

    path: str
    size_bytes: int
    left_at: Micros


class Cleanable(msgspec.Struct, frozen=True):
    """The files that a clean may delete, and facts for its earliest commit to retain.

    ``retained`` is the latest requested time of the writes that had completed before the first file left the
    latest slices that the clean keeps although its policy does not; None by a policy of versions.
    ``retained_by_files`` is the same of the writes that had completed when the last of its ``files`` left. The
    last clean was requested at ``last_clean``.
    """

    files: Sequence[FileToClean] = ()
    retained: Micros | None = None
    retained_by_files: Micros | None = None
    last_clean: Micros | None = None


NOTHING_CLEANABLE: Final = Cleanable()


class Undeleted(msgspec.Struct, frozen=True):
    """How many files of a plan were not reported as deleted, and one of them."""

    files: int
    path: str | None


def scope_of(table: Table, policy: Retention, bounds: CleanBounds, now: Now) -> CleanScope | None:
    """The scope of a clean by a policy; None if it may delete nothing.

    Files that are not served any more may be deleted under every policy. A pending write may read files that
    were live when it was requested, or later: no clean goes beyond its requested time, nor beyond what is
    published for Hudi's readers, nor beyond the time from which on a reader follows the changes.

    Only hours that have passed count, not a jump ahead of the wall clock. Completion times are by the wall
    clock, so those after the jump are retained for longer.
    """
    if policy.versions is not None:
        until: Micros | None = Micros(MICROS_MAX)
    elif policy.hours is not None:
        wall = now.steady + now.wall_offset - bounds.jumped_ahead_us
        until = Micros(max(wall - policy.hours * MICROS_PER_HOUR, 0))
    else:
        until = bounds.nth_newest
    known = [time for time in (until, table.cleaned_before) if time is not None]
    if not known:
        return None
    bounding = (bounds.oldest_pending, bounds.published, bounds.followed)
    limits = [time for time in bounding if time is not None]
    last = min([max(known), *limits])
    return CleanScope(last, policy.versions, bounds.protected_times)


def plan(table: Table, cleanable: Cleanable, now: Now) -> PlannedWork | None:
    """The plan that deletes these files; none, when there are none and an empty clean is not due.

    The table is served from the time at which the last of them left the latest slices. The earliest commit to
    retain never goes back, and is at least the first one as of which a reader of Hudi finds all files.
    """
    known = (cleanable.retained, cleanable.retained_by_files, table.earliest_commit_to_retain)
    earliest = max((time for time in known if time is not None), default=None)
    if not cleanable.files:
        return PlannedWork(earliest_commit_to_retain=earliest) if is_empty_due(table, cleanable, now) else None
    return PlannedWork(
        files_to_delete=lists.seal([file.path for file in cleanable.files]),
        cleaned_before=max(file.left_at for file in cleanable.files),
        earliest_commit_to_retain=earliest,
    )


def is_empty_due(table: Table, cleanable: Cleanable, now: Now) -> bool:
    """Whether a clean without files moves the earliest commit to retain, and the last clean is old enough."""
    hours = int(service_properties.value_of(table.definition.properties, EMPTY_CLEAN_HOURS))
    before, last = table.earliest_commit_to_retain, cleanable.last_clean
    if hours < 0 or cleanable.retained is None or (before is not None and cleanable.retained <= before):
        return False
    return last is None or now.wall - last >= hours * MICROS_PER_HOUR


def retained_until(scope: CleanScope, files: Sequence[FileToClean]) -> Micros:
    """The time by which no file may have left that stays: of a full plan, only up to its last file."""
    if len(files) < FILES_TO_CLEAN_MAX:
        return scope.until
    return Micros(min(scope.until, files[-1].left_at - 1))


def request(table: Table, command: PlanClean, plan: PlannedWork, now: Micros) -> InstantRequested:
    """The clean: inflight, with a lease for its executor. Without an executor, the plan waits.

    Raises ``IllegalTransition`` while the table is being adopted.
    """
    table.refuse_unfinished()
    return InstantRequested(
        action=Action.CLEAN,
        operation=Operation.UNKNOWN,
        state=State.INFLIGHT if command.execute else State.REQUESTED,
        writer=command.writer,
        lease_seconds=command.lease_seconds,
        lease_expires_at=lease_end(now, command.lease_seconds) if command.execute else None,
        plan=plan,
        schema_version=table.definition.schema_version,
    )


def empty(table: Table, command: PlanClean, plan: PlannedWork, now: Micros) -> InstantRequested:
    """A clean without files, which completes in the same transaction."""
    table.refuse_unfinished()
    return request_completed_at_once(Action.CLEAN, command.writer, None, plan, now)


def resume(
    table: Table, clean: Instant, command: PlanClean, now: Micros
) -> InstantInflight | LeaseRenewed | None:
    """Let the caller execute the clean that is pending; raises ``LeaseLive`` while another does."""
    if not command.execute:
        return None
    expires = lease_end(now, command.lease_seconds)
    if clean.state is State.REQUESTED:
        return InstantInflight(
            writer=command.writer,
            lease_seconds=command.lease_seconds,
            lease_expires_at=expires,
            schema_version=table.definition.schema_version,
        )
    refuse_while_leased(clean, command.writer, now)
    return LeaseRenewed(lease_seconds=command.lease_seconds, lease_expires_at=expires, writer=command.writer)


def refuse_undeleted(table: Table, clean: Instant, undeleted: Undeleted) -> None:
    """Raise ``UndeletedFiles`` when files of the plan were not reported as deleted."""
    if undeleted.files:
        time = format_time(clean.requested_time, table.definition.tick)
        raise errors.UndeletedFiles(
            f"{undeleted.files} file(s) of the plan of the clean {time} of {table.name!r} are not reported as "
            f"deleted, one is {undeleted.path!r}; {HOW_TO_DELETE}",
            undeleted=undeleted.files,
            file=undeleted.path,
        )


def first_servable(
    table: Table, clean: Instant, cleaned_before: Micros, past: CleanHistory, others: Iterable[Instant]
) -> Micros | None:
    """The first time that the table is served as of when the clean has completed; none, if it is any time.

    It is the last change of the files by ``cleaned_before``. ``others`` are instants that an earlier command of
    the group may have completed. Raises ``InvalidPlan``.
    """
    if clean.begun_as is not Action.CLEAN:
        raise errors.InvalidPlan(f"a {clean.begun_as} is not a clean: leave cleaned_before out")
    if clean.is_planned_clean:
        raise errors.InvalidPlan(
            "the plan of this clean already has cleaned_before: leave it out of the request"
        )
    done = [(time, instant.action) for instant in others if (time := _completion_of(instant)) is not None]
    completed = max((time for time, _ in done), default=0)
    last = max(completed, past.completed or 0)
    if cleaned_before > last:
        tick = table.definition.tick
        known = f"the last one was at {format_time(Micros(last), tick)}" if last else "nothing has completed"
        raise errors.InvalidPlan(
            f"cleaned_before is {format_time(cleaned_before, tick)}, which is later than every completion of "
            f"{table.name!r}: {known}"
        )
    if past.instants_from is not None and min(past.changed or 0, past.retained or 0) < past.instants_from:
        first = format_time(past.instants_from, table.definition.tick)
        raise errors.InvalidPlan(
            f"cleaned_before is before the first write of {table.name!r} that the database has: instants "
            f"requested before {first} have left it. Name a later time"
        )
    changes = [time for time, action in done if time <= cleaned_before and action in _CHANGES]
    return max([*changes, *([] if past.changed is None else [past.changed])], default=None)


def retained_by(
    table: Table, cleaned_before: Micros, past: CleanHistory, others: Iterable[Instant]
) -> Micros | None:
    """The earliest commit to retain after a clean up to a time that was stated; see ``first_servable``."""
    writes = [
        instant.requested_time
        for instant in others
        if instant.action in COMPLETED_WRITES and (instant.completion_time or MICROS_MAX) <= cleaned_before
    ]
    known = (past.retained, table.earliest_commit_to_retain)
    return max([*writes, *(time for time in known if time is not None)], default=None)


def refuse_before(table: Table, time: Micros) -> None:
    """Raise ``HistoryCleaned`` when the table is not served as of ``time`` any more."""
    first = table.cleaned_before
    if first is not None and time < first:
        raise history_cleaned(table, time, first)


def history_cleaned(table: Table, time: Micros, first: Micros) -> errors.HistoryCleaned:
    """The error that a table is not served as of ``time``, but as of ``first``."""
    tick = table.definition.tick
    return errors.HistoryCleaned(table.name, format_time(time, tick), format_time(first, tick))


_CHANGES = COMPLETED_WRITES | {Action.RESTORE}
"""Actions that change the set of live files, by their names on completion."""


def _completion_of(instant: Instant) -> Micros | None:
    """Its completion time, also if it was undone since; None if it did not complete."""
    return instant.completion_time or instant.undone_completion_time
