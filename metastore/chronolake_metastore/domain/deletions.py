"""Deletions: which marked files are not in storage any more (docs/decisions/0016).

Their deleter reports them: a write whose failed attempts left them, the rollback of an instant, a clean.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from chronolake_metastore import errors
from chronolake_metastore.domain import files
from chronolake_metastore.domain.commands import InstantCommand
from chronolake_metastore.domain.events import FilesDeleted
from chronolake_metastore.domain.instants import (
    Instant,
    has_direct_markers,
    illegal,
    refuse_another,
    refuse_unless,
)
from chronolake_metastore.domain.tables import Table
from chronolake_model.marker_names import DeletedFile, is_file_of
from chronolake_model.times import Micros, format_time
from chronolake_model.vocabulary import Action, State

NAMED_MAX: Final = 100
"""Files that a refusal names."""

_REPORTS: Final = frozenset(State) - {State.ROLLED_BACK}


class ReportDeletions(InstantCommand, frozen=True):
    files: Sequence[DeletedFile]
    writer: str | None = None


class ContradictedFiles(msgspec.Struct, frozen=True):
    """Reported files that contradict the log: without a marker, not in the plan, published, or staged.

    A staged file waits for the completion of its instant: a writer has staged it, or a stream has promised it.
    ``has_left`` says that the instant ended so long ago that only the archive of the log has its files.
    """

    unmarked: Sequence[DeletedFile] = ()
    unplanned: Sequence[DeletedFile] = ()
    published: Sequence[DeletedFile] = ()
    staged: Sequence[DeletedFile] = ()
    has_left: bool = False


NO_CONTRADICTED_FILES: Final = ContradictedFiles()


def marked_by(instant: Instant) -> Micros:
    """The instant whose markers name the files: a rollback deletes those of its target."""
    if instant.action is Action.ROLLBACK:
        assert instant.target is not None
        return instant.target
    return instant.requested_time


def recorded_order(reported: Iterable[DeletedFile]) -> list[DeletedFile]:
    """The files of a report in the order in which they are recorded, each once."""
    return sorted(set(reported))


def is_planned_deletion(instant: Instant) -> bool:
    """Whether the plan of the instant names the files that may be reported."""
    return instant.is_planned_clean or instant.action is Action.ROLLBACK


def report(
    table: Table,
    instant: Instant,
    command: ReportDeletions,
    contradicted: ContradictedFiles,
    now: Micros,
) -> FilesDeleted:
    """Record that files were deleted, at ``now`` by the steady clock.

    Raises ``InstantRolledBack`` (its rollback takes the report), ``IllegalTransition`` while a plan waits
    and has no executor, ``LeaseLive``, or ``InvalidDeletion``.
    """
    refuse_unless(table, instant, _REPORTS, "report deletions")
    if instant.state.is_pending:
        if instant.lease_expires_at is None:
            raise illegal(table, instant, "its plan waits; take it inflight to execute it")
        refuse_another(instant, command.writer)
    return files_deleted(table, instant, command.files, contradicted, now)


def files_deleted(
    table: Table,
    instant: Instant,
    reported: Iterable[DeletedFile],
    contradicted: ContradictedFiles,
    now: Micros,
) -> FilesDeleted:
    """The event of files that may be deleted; raises ``InvalidDeletion``."""
    marker = format_time(marked_by(instant), table.definition.tick)
    # First, because a completed instant has no markers any more.
    _refuse(contradicted.published, f"the instant {marker} of {table.name!r} has published")
    if instant.is_planned_clean:
        foreign_files = contradicted.unplanned
        why = f"the plan of the clean {marker} of {table.name!r} does not name"
    else:
        foreign_files = _foreign_files(instant, contradicted, marker)
        why = f"the instant {marker} of {table.name!r} has no marker of"
    if contradicted.has_left:
        why = f"the instant {marker} of {table.name!r} ended long ago, and takes no report any more of"
    _refuse(foreign_files, why)
    _refuse(
        contradicted.staged,
        f"the instant {marker} of {table.name!r} is pending, and publishes when it completes,",
    )
    files_of_report = recorded_order(reported)
    return FilesDeleted(
        of=marked_by(instant),
        files=len(files_of_report),
        deletions_digest=files.digest(files_of_report),
        steady_time=now,
    )


def _foreign_files(instant: Instant, contradicted: ContradictedFiles, marked_by: str) -> Sequence[DeletedFile]:
    """The unmarked files that the report must not name: they have no direct marker, and no plan names them.

    Files of a rollback must also be files of its target: if a recorded file reappears, servers delete it again.
    """
    unmarked = contradicted.unmarked
    if has_direct_markers(instant):
        return [file for file in unmarked if not is_file_of(file, marked_by)]
    if instant.action is Action.ROLLBACK:
        unplanned = set(contradicted.unplanned)
        return [file for file in unmarked if file in unplanned or not is_file_of(file, marked_by)]
    return unmarked


def _refuse(contradicted: Sequence[DeletedFile], why: str) -> None:
    if contradicted:
        raise errors.InvalidDeletion(
            f"{why} {len(contradicted)} of the files; the first is {contradicted[0].path!r}",
            files_in_question=len(contradicted),
            files=[msgspec.to_builtins(file) for file in contradicted[:NAMED_MAX]],
        )
